# SPDX-License-Identifier: Apache-2.0
"""What ostraka-plan says of real networks against arithmetic of its own."""
import json
import time
import unittest

import oracle

from support import MODELS, RECIPES, ToolTest, outcomes

NAMES = sorted(path.stem for path in MODELS.glob("*.json"))


class Models(ToolTest):
    def expect_near(self, found, expected, slack, what):
        """Not less, and more only by padding."""
        self.assertGreaterEqual(found, int(expected) - 1, what)
        self.assertLessEqual(found, expected + slack, what)

    def test_bytes_of_every_recipe(self):
        mesh = [4, 8]
        for name in NAMES:
            units = oracle.units_of(name)
            document = self.json(MODELS / f"{name}.json", "--mesh", "node=4,gpu=8", "--storage", "bf16")
            self.assertEqual(document["model"]["parameters"], oracle.elements(units))
            self.assertEqual(list(outcomes(document)), RECIPES)
            slack = oracle.padding(units, 32)
            for recipe, outcome in outcomes(document).items():
                expected = oracle.held(units, mesh, recipe)
                for kind, value in expected.items():
                    self.expect_near(outcome["bytes"][kind], value, 4 * slack, (name, recipe, kind))
                held = outcome["bytes"]
                rest = sum(held[kind] for kind in ("model_weights", "main_weights", "main_gradients", "addends", "moments"))
                self.assertEqual((held["total"], held["peak"]), (rest, rest + held["transient_peak"]), (name, recipe))
                self.assertEqual(outcome["elements"], oracle.elements(units))
                self.assertAlmostEqual(outcome["formula_bytes_per_parameter"],
                                       sum(expected.values()) / oracle.elements(units), places=9)

    def test_types_and_optimizers(self):
        units = oracle.units_of("resnet50")
        slack = 4 * oracle.padding(units, 16)
        for storage in ("f64", "f32", "bf16"):
            for optimizer in ("none", "sgd", "sgd_momentum", "adamw"):
                document = self.json(MODELS / "resnet50.json", "--ranks", "16", "--backend", "mpi", "--storage", storage,
                                     "--optimizer", optimizer, "--recipe", "zero_1,zero_3")
                for recipe, outcome in outcomes(document).items():
                    for kind, value in oracle.held(units, [16], recipe, storage, optimizer).items():
                        self.expect_near(outcome["bytes"][kind], value, slack, (storage, optimizer, recipe, kind))

    def test_known_formulas(self):
        """bf16 weights, f32 for all else: ZeRO-1 6 + 12/N, ZeRO-3 18/N bytes per parameter."""
        for ranks in (2, 8, 64):
            document = self.json(MODELS / "llama-3-8b.json", "--ranks", ranks, "--backend", "nccl", "--storage", "bf16",
                                 "--recipe", "zero_1,zero_3")
            for recipe, expected in (("zero_1", 6 + 12 / ranks), ("zero_3", 18 / ranks)):
                outcome = outcomes(document)[recipe]
                self.assertAlmostEqual(outcome["formula_bytes_per_parameter"], expected, places=9)
                self.assertAlmostEqual(outcome["bytes_per_parameter"], expected, delta=expected * 1e-4)

    def test_wire_and_collectives(self):
        for name in ("llama-3-8b", "vit-large-patch16-224"):
            units = oracle.units_of(name)
            for micro_batches in (1, 3):
                document = self.json(MODELS / f"{name}.json", "--mesh", "gpu=8", "--storage", "bf16", "--micro-batches",
                                     micro_batches, "--recipe", "no_shard,zero_1,zero_2,zero_3")
                for recipe, outcome in outcomes(document).items():
                    axis, = outcome["axes"]
                    expected = oracle.sent(units, [8], recipe, micro_batches)
                    self.expect_near(axis["sent"], expected, 24 * micro_batches * oracle.padding(units, 8),
                                     (name, micro_batches, recipe))
                    found = {kind: number for kind, number in axis["collectives"].items() if number and kind != "agreement"}
                    self.assertEqual(found, oracle.collectives(units, recipe, micro_batches), (name, micro_batches, recipe))

    def test_a_node_holds_one_copy(self):
        """Weights that all ranks need stand once in the memory of a node."""
        units = oracle.units_of("vit-large-patch16-224")
        whole = 4 * oracle.elements(units)
        for per_node in (4, 8):
            document = self.json(MODELS / "vit-large-patch16-224.json", "--ranks", "8", "--ranks-per-node", per_node,
                                 "--recipe", "no_shard,zero_1,zero_2")
            for recipe, outcome in outcomes(document).items():
                self.expect_near(outcome["node_bytes"]["model_weights"], whole, 4 * oracle.padding(units, 8), recipe)
                self.expect_near(outcome["bytes"]["model_weights"], whole / per_node, 4 * oracle.padding(units, 8), recipe)

    def test_dtype_trainable_parent(self):
        tensors = [["w", [256, 256]]]
        model = self.model({"units": [
            {"unit": "outer", "tensors": tensors, "dtype": "f64", "forward_s": 2, "backward_s": 4},
            {"unit": "inner", "tensors": tensors, "dtype": "bf16", "parent": "outer", "trainable": False, "count": 2,
             "forward_s": 1, "backward_s": 2}]})
        outcome = outcomes(self.json(model, "--ranks", "1", "--backend", "mpi", "--recipe", "no_shard", "--micro-batches", "2"))["no_shard"]
        count = 256 * 256
        self.assertEqual(outcome["modules"], ["outer", "outer.inner.0", "outer.inner.1"])
        self.assertEqual(outcome["bytes"]["model_weights"], count * (8 + 2 * 2))
        self.assertEqual(outcome["bytes"]["main_gradients"], count * 8)
        self.assertEqual(outcome["bytes"]["moments"], 2 * count * 8)
        self.assertAlmostEqual(outcome["arithmetic_s"], 2 * (6 + 2 * 3))

    def test_machine(self):
        layers = self.layers()
        machine = self.model({"network": {"latency_s": 0, "bandwidth": "1 MB/s"}, "flops": 1e9}, "machine.json")
        outcome = outcomes(self.json(layers, "--ranks", "4", "--backend", "mpi", "--machine", machine, "--samples", "1000",
                                     "--recipe", "zero_3"))["zero_3"]
        self.assertAlmostEqual(outcome["arithmetic_s"], 3 * 64 * 64 * 6 * 1000 / 1e9)
        # The wire takes longer than all arithmetic, so that the step is at least as long.
        self.assertGreaterEqual(outcome["step_s"], outcome["axes"][0]["sent"] / 1e6 / 3)
        self.assertAlmostEqual(outcome["step_s"], outcome["arithmetic_s"] + outcome["exposed_s"], places=9)

    def test_measured_machine(self):
        """A file as collectives --json writes it: on hosts every collective is exposed."""
        weight = 64 * 64 * 4
        layers = self.model({"units": [{"unit": "layer", "count": 3, "tensors": [["w", [64, 64]]], "forward_s": 1, "backward_s": 1}]})
        content = {"benchmark": "collectives", "version": 1, "ranks": 2, "dtype": "f32", "memory": "messages", "mpi": "", "rows": [],
                   "network": {"latency_s": 0, "bandwidth": 1e30, "measured": {
                       "ranks": 2, "allgather": [[weight // 2, 1], [weight * 2, 16]], "reduce_scatter": [[weight, 0.5]]}},
                   "memory_bandwidth": 1e30}
        found = outcomes(self.json(layers, "--ranks", "2", "--backend", "mpi", "--optimizer", "none", "--recipe", "zero_3", "--storage",
                                   "f32", "--machine", self.model(content, "machine.json")))["zero_3"]
        # Four times the bytes take 16 times as long, so twice take four times: 4 s for each of six gathers.
        self.assertAlmostEqual(found["exposed_s"], 6 * 4 + 3 * 0.5)

    def test_seconds_of_units(self):
        """The model file's come first, then those of the machine file's units, then its operations per second."""
        tensors = [["w", [100, 100]], ["b", [100]]]
        model = self.model({"units": [{"unit": "a", "tensors": tensors, "forward_s": 1, "backward_s": 2},
                                      {"unit": "b", "tensors": tensors, "count": 2}, {"unit": "c", "tensors": tensors}]})
        times = {"forward_s": 3, "backward_s": 5}
        machine = self.model({"flops": 1e6, "units": {"a": times, "b": times}}, "machine.json")
        document = self.json(model, "--ranks", "1", "--machine", machine, "--samples", "7", "--recipe", "zero_3")
        self.assertEqual([(unit["forward_s"], unit["backward_s"]) for unit in document["model"]["units"]],
                         [(1, 2), (3, 5), (2 * 7 * 1e4 / 1e6, 4 * 7 * 1e4 / 1e6)])
        self.assertAlmostEqual(outcomes(document)["zero_3"]["arithmetic_s"], 3 + 2 * 8 + 6 * 7 * 1e4 / 1e6)

    def test_measured(self):
        """A gather that was measured takes that long, whatever latency and bandwidth are."""
        layers = self.layers()
        size = 4 * (64 * 64 + 64)
        measured = {"ranks": 4, "allgather": [[size // 2, 1.0], [size * 2, 4.0]], "reduce_scatter": [[size, 8.0]], "allreduce": []}
        machine = {"overlap": 0.25, "network": {"latency_s": 0.0, "bandwidth": 1e12, "measured": measured}}
        document = self.json(layers, "--ranks", "4", "--backend", "nccl", "--machine", self.model(machine, "machine.json"), "--recipe", "zero_3")
        self.assertEqual({key: document["request"]["machine"][key] for key in machine}, machine)
        outcome = outcomes(document)["zero_3"]
        for kind, seconds in (("allgather", 2.0), ("reduce_scatter", 8.0)):
            lengths = [span["end_s"] - span["begin_s"] for span in outcome["spans"] if span["operation"] == kind]
            self.assertGreater(len(lengths), 0)
            self.assertGreaterEqual(min(lengths), 0.99 * seconds)

    def test_links(self):
        """A link of an axis counts there, that of the network elsewhere, that of the node where memory is shared."""
        layers = self.layers()

        def step(*links, backend="mpi"):
            machine = self.model(dict(links), "machine.json")
            document = self.json(layers, "--mesh", "a=2,b=2", "--ranks-per-node", "2", "--backend", backend, "--machine", machine,
                                 "--recipe", "zero_3")
            return outcomes(document)["zero_3"]["step_s"]
        slow = {"latency_s": 1, "bandwidth": "1 GB/s"}
        self.assertLess(step(), 0.1)
        self.assertGreater(step(("network", slow)), 1)
        for axis in ("a", "b"):
            self.assertGreater(step(("axes", {axis: slow})), 1, axis)
        self.assertEqual(step(("node", slow)), step())
        self.assertGreater(step(("node", slow), backend="node"), 1)


class Questions(ToolTest):
    def test_fits(self):
        model = self.layers()
        for backend in ("mpi", "node"):
            base = [model, "--ranks", "4", "--backend", backend, "--recipe", "no_shard,zero_3"]
            peaks = {recipe: (o["bytes"]["peak"], o["node_bytes"]["peak"]) for recipe, o in outcomes(self.json(*base)).items()}
            for index, option in enumerate(("--memory", "--node-memory")):
                least, most = sorted((peaks["no_shard"][index], peaks["zero_3"][index]))
                for limit in (least - 1, least, most - 1, most):
                    found = outcomes(self.json(*base, option, limit, status=0 if limit >= least else 1))
                    for recipe, outcome in found.items():
                        self.assertEqual(outcome["fits"], peaks[recipe][index] <= limit, (option, limit, recipe))
                    fitting = [outcome for outcome in found.values() if outcome["fits"]]
                    cheapest = [outcome for outcome in found.values() if outcome["cheapest"]]
                    self.assertEqual(len(cheapest), 1 if fitting else 0)
                    if fitting:
                        order = min((outcome["step_s"], outcome["bytes"]["peak"]) for outcome in fitting)
                        self.assertEqual((cheapest[0]["step_s"], cheapest[0]["bytes"]["peak"]), order)

    def test_largest(self):
        asked = ["--mesh", "gpu=8", "--storage", "bf16", "--memory", "3 GiB"]
        document = self.json(MODELS / "vit-large-patch16-224.json", *asked, "--largest", "--recipe", "no_shard,zero_3")
        content = json.loads((MODELS / "vit-large-patch16-224.json").read_text())
        del content["parameters"]
        blocks = next(unit for unit in content["units"] if unit["unit"] == "blocks.0")
        for recipe, outcome in outcomes(document).items():
            count = outcome["largest"]["count"]
            self.assertEqual(outcome["largest"]["unit"], "blocks.0")
            self.assertGreater(count, 1)
            for tried, fits in ((count, True), (count + 1, False)):
                blocks["count"] = tried
                found = outcomes(self.json(self.model(content), *asked, "--recipe", recipe, status=0 if fits else 1))[recipe]
                self.assertEqual(found["fits"], fits, (recipe, tried))
                if fits:
                    self.assertEqual((found["bytes"]["peak"], found["elements"]),
                                     (outcome["largest"]["peak"], outcome["largest"]["elements"]))
        found = self.json(MODELS / "vit-large-patch16-224.json", *asked, "--largest", "--largest-unit", "head", "--recipe", "zero_3")
        self.assertEqual(outcomes(found)["zero_3"]["largest"]["unit"], "head")
        found = self.json(self.layers(), "--ranks", "2", "--memory", "100", "--largest", "--recipe", "zero_3", status=1)
        self.assertIsNone(outcomes(found)["zero_3"]["largest"])

    def test_placements_by_hand_are_those_of_a_recipe(self):
        asked = [MODELS / "resnet50.json", "--mesh", "node=2,gpu=4", "--storage", "bf16"]
        by_hand = {"no_shard": "parameter=RR,gradient=PP,optimizer=RR", "zero_1": "parameter=RR,gradient=PP,optimizer=SS",
                   "zero_2": "parameter=RR,gradient=SS,optimizer=SS", "zero_3": "parameter=SS,gradient=SS,optimizer=SS",
                   "hsdp": "parameter=RS,gradient=PS,optimizer=RS", "hfsdp": "parameter=RS,gradient=PS,optimizer=SS",
                   "zero_1_zero_2": "optimizer=SS,gradient=PS,parameter=RR"}
        whole = outcomes(self.json(*asked))
        for recipe, text in by_hand.items():
            found = outcomes(self.json(*asked, "--placements", text))
            self.assertEqual(list(found), ["by_hand"])
            for key in ("bytes", "node_bytes", "axes", "calls", "spans", "step_s"):
                self.assertEqual(found["by_hand"][key], whole[recipe][key], (recipe, key))
        found = self.json(*asked, "--placements", by_hand["hsdp"], "--recipe", "zero_3")
        self.assertEqual(list(outcomes(found)), ["by_hand", "zero_3"])

    def test_layouts(self):
        document = self.json(MODELS / "convnext-base.json", "--ranks", "16", "--layouts", "--recipe", "zero_3")
        units = oracle.units_of("convnext-base")
        layouts = document["points"][0]["layouts"]
        self.assertEqual([entry["unit"] for entry in layouts], [unit["unit"] for unit in units])
        for entry, unit in zip(layouts, units):
            payload = sum(oracle.numel(shape) for _, shape in unit["tensors"])
            policies = {report["policy"]: report for report in entry["reports"]}
            self.assertLessEqual({"reference", "planned", "ragged", "flat"}, set(policies))
            for report in policies.values():
                if "refused" not in report:
                    self.assertEqual(report["payload"], payload)
            self.assertEqual(policies["ragged"]["padding"], 0)

    def test_sweep(self):
        """Every number of ranks is what it would be alone."""
        model = MODELS / "resnet50.json"
        sweep = self.json(model, "--mesh", "node=*,gpu=4", "--ranks", "8..64", "--recipe", "zero_3,hsdp")
        self.assertEqual([point["ranks"] for point in sweep["points"]], [8, 16, 32, 64])
        for point in sweep["points"]:
            alone = self.json(model, "--mesh", f"node={point['ranks'] // 4},gpu=4", "--recipe", "zero_3,hsdp")
            self.assertEqual(alone["points"], [point])
        found = self.json(model, "--mesh", "a=2,b=*,c=3", "--ranks", "6,24", "--recipe", "hsdp")
        self.assertEqual([[axis["size"] for axis in point["mesh"]] for point in found["points"]], [[2, 1, 3], [2, 4, 3]])
        self.assertEqual([point["ranks"] for point in self.json(model, "--ranks", "3,5,100", "--recipe", "zero_3")["points"]], [3, 5, 100])

    def test_sweep_of_a_large_model(self):
        started = time.monotonic()
        document = self.json(MODELS / "deepseek-v3.json", "--mesh", "node=*,gpu=8", "--ranks", "8..16384", "--storage", "bf16")
        seconds = time.monotonic() - started
        print(f"84 dry runs of DeepSeek-V3 on 8 to 16,384 ranks: {seconds:.2f} s")
        self.assertEqual(len(document["points"]), 12)
        peaks = [outcomes(document, point)["zero_3"]["bytes"]["peak"] for point in range(12)]
        self.assertEqual(peaks, sorted(peaks, reverse=True))


unittest.main()
