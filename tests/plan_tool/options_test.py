# SPDX-License-Identifier: Apache-2.0
"""That every option reaches the dry run, and does there what it says."""
import unittest

from support import ToolTest, outcomes

UNIT = 1 << 20  # elements of a module


class Options(ToolTest):
    def setUp(self):
        super().setUp()
        self.file = self.model({"units": [{"unit": "u", "count": 6, "tensors": [["w", [1024, 1024]]], "forward_s": 1e-3,
                                           "backward_s": 2e-3}]})

    def zero_3(self, *options, ranks=("--ranks", "4", "--backend", "mpi")):
        document = self.json(self.file, *ranks, "--storage", "bf16", "--recipe", "zero_3", *options)
        return outcomes(document)["zero_3"] | {"request": document["request"]}

    def test_types(self):
        base = self.zero_3()
        self.assertEqual(base["bytes"]["main_weights"], 6 * UNIT * 4 // 4)
        found = self.zero_3("--main", "f64")
        for kind in ("main_weights", "main_gradients", "moments"):
            self.assertEqual(found["bytes"][kind], 2 * base["bytes"][kind], kind)
        self.assertEqual(found["request"]["main_dtype"], "f64")
        # Whole weights need no second copy where they are handed out as they are stored.
        found = self.zero_3("--compute", "bf16")
        self.assertEqual(found["bytes"]["gathered_peak"], 2 * 2 * UNIT)
        self.assertGreaterEqual(base["bytes"]["gathered_peak"], 2 * 4 * UNIT)
        found = self.zero_3("--reduction", "bf16")
        self.assertEqual(2 * found["bytes"]["slots_peak"], base["bytes"]["slots_peak"])
        self.assertLess(found["axes"][0]["sent"], base["axes"][0]["sent"])

    def test_prefetch(self):
        peaks = [self.zero_3("--compute", "bf16", "--prefetch", elements)["bytes"]["gathered_peak"]
                 for elements in (0, 1, UNIT, UNIT + 1, 2 * UNIT + 1)]
        self.assertEqual(peaks, [modules * 2 * UNIT for modules in (1, 2, 2, 3, 4)])
        self.assertIsNone(self.zero_3()["request"]["prefetch"])
        self.assertEqual(self.zero_3("--prefetch", 0)["request"]["prefetch"], 0)

    def test_slots(self):
        for slots in (1, 2, 3):
            found = self.zero_3("--slots", slots)
            self.assertEqual((found["gradient_slots"], found["bytes"]["slots_peak"]), (slots, slots * 4 * UNIT))
        # Of all ranks of the node.
        for limit, slots in ((4 * 4 * UNIT, 1), (2 * 4 * 4 * UNIT, 2), (1, 1), ("1 GiB", 3)):
            self.assertEqual(self.zero_3("--slots", 3, "--slot-bytes", limit)["gradient_slots"], slots)
        one_node, two_nodes = ("--ranks", "4"), ("--ranks", "4", "--ranks-per-node", "2")
        self.assertEqual(self.zero_3("--slots", 3, "--cache", "40 MiB", ranks=one_node)["gradient_slots"], 2)
        self.assertEqual(self.zero_3("--slots", 3, ranks=one_node)["gradient_slots"], 3)
        self.assertEqual(self.zero_3("--slots", 3, "--cache", "40 MiB", ranks=two_nodes)["gradient_slots"], 3)

    def test_unified(self):
        """Gathers and reductions take turns."""
        def overlap(outcome):
            gathers, reductions = ([span for span in outcome["spans"] if span["track"] == track] for track in ("gather", "reduce"))
            return sum(max(0, min(a["end_s"], b["end_s"]) - max(a["begin_s"], b["begin_s"])) for a in gathers for b in reductions)
        slow = self.model({"network": {"latency_s": 0, "bandwidth": 2e9}, "overlap": 1}, "machine.json")
        self.assertGreater(overlap(self.zero_3("--machine", slow)), 0)
        found = self.zero_3("--machine", slow, "--unified")
        self.assertEqual((overlap(found), found["request"]["unified_stream"]), (0, True))

    def test_fuse(self):
        """Updates run while other modules go backward."""
        def updates_before_the_end(outcome):
            last = max(span["end_s"] for span in outcome["spans"] if span["operation"] == "backward")
            return sum(span["operation"] == "update" and span["begin_s"] < last for span in outcome["spans"])
        node = ("--ranks", "4", "--backend", "node")
        self.assertEqual(updates_before_the_end(self.zero_3(ranks=node)), 0)
        found = self.zero_3("--fuse", ranks=node)
        self.assertTrue(found["request"]["fuse_with_reduction"])
        self.assertNotEqual(found["spans"], self.zero_3(ranks=node)["spans"])

    def test_micro_batches(self):
        found = self.zero_3("--micro-batches", 5)
        self.assertAlmostEqual(found["arithmetic_s"], 5 * self.zero_3()["arithmetic_s"])
        self.assertEqual(found["request"]["micro_batches"], 5)

    def test_ranks_of_a_node(self):
        for mesh, per_node, nodes in (("node=2,gpu=4", 4, 2), ("rack=2,node=2,gpu=2", 2, 4), ("a=2,b=4", 8, 1)):
            point, = self.json(self.file, "--mesh", mesh, "--recipe", "zero_3")["points"]
            self.assertEqual((point["ranks_per_node"], point["nodes"]), (per_node, nodes), mesh)
            self.assertEqual(point["backend"], "nccl" if "gpu" in mesh else "node")
        point, = self.json(self.file, "--mesh", "node=2,gpu=4", "--ranks-per-node", "3", "--backend", "mpi", "--recipe", "zero_3")["points"]
        self.assertEqual((point["ranks_per_node"], point["nodes"], point["backend"]), (3, 3, "mpi"))


unittest.main()
