# SPDX-License-Identifier: Apache-2.0
"""Table and picture of ostraka-plan beside its JSON, and the bar on a terminal."""
import re
import unittest
import xml.etree.ElementTree as ElementTree

from support import MODELS, TOOL, UNITS, ToolTest, bytes_text, digits, outcomes, seconds_text, shown_on_terminal

SVG = "{http://www.w3.org/2000/svg}"
KINDS = {"weights": ("model_weights",), "main": ("main_weights",), "gradients": ("main_gradients", "addends"),
         "moments": ("moments",), "buffers": ("transient_peak",)}
OPERATIONS = {"forward": "forward", "backward": "backward", "allgather": "gather", "reduce_scatter": "reduce",
              "allreduce": "reduce", "update": "update"}


def parts(outcome):
    return {kind: sum(outcome["bytes"][key] for key in keys) for kind, keys in KINDS.items()}


def table_row(outcome, unit, limited):
    """The cells that the table has to show."""
    held = outcome["bytes"]
    numbers = [held["model_weights"], held["main_gradients"] + held["addends"], held["main_weights"] + held["moments"],
               held["transient_peak"], held["peak"], outcome["node_bytes"]["peak"], sum(axis["sent"] for axis in outcome["axes"])]
    mark = "*" if outcome["cheapest"] else "+" if outcome["fits"] else "-"
    step, exposed = outcome["step_s"], outcome["exposed_s"]
    share = digits(max(0, 100 * exposed / step))[:4] + " %" if step > 0 else "-"
    return [mark, outcome["recipe"], *(digits(number / unit) for number in numbers), seconds_text(step), share]


class Table(ToolTest):
    def expect_table(self, *asked, status=0):
        document = self.json(*asked, status=status)
        lines = self.succeed(*asked, status=status).splitlines()
        self.assertLessEqual(max(map(len, lines)), 100, max(lines, key=len))
        unit = 1024 ** UNITS.index(re.fullmatch(r"Bytes in (\w+):", next(line for line in lines if line.startswith("Bytes in ")))[1])
        head = next(index for index, line in enumerate(lines) if "RECIPE" in line)
        found = [re.split(r"  +", line.strip()) for line in lines[head + 1:]]
        several = len(document["points"]) > 1
        expected = [[str(point["ranks"])] * several + table_row(outcome, unit, True)
                    for point in document["points"] for outcome in point["outcomes"] if outcome["refused"] is None]
        self.assertEqual(found[:len(expected)], expected)
        refused = [outcome for outcome in document["points"][0]["outcomes"] if outcome["refused"] is not None]
        text = " ".join("\n".join(lines[head + 1 + len(expected):]).split())
        for outcome in refused:
            self.assertRegex(text, rf"Not possible: [\w, ]*\b{outcome['recipe']}\b")
            self.assertIn(outcome["refused"].split(": ", 1)[1], text)
        return lines

    def test_one_mesh(self):
        lines = self.expect_table(MODELS / "llama-3-8b.json", "--mesh", "node=8,gpu=8", "--recipe", "all", "--memory", "80GiB")
        self.assertEqual(lines[0], "Llama-3-8B, 8.03 G parameters in 35 modules; weights f32, main f32, compute f32, reduction f32;")
        self.assertEqual(lines[1], "optimizer adamw; 1 micro-batch; memory limit 80.0 GiB per rank")
        self.assertEqual(lines[2], "64 ranks on 8 nodes (node=8 x gpu=8), nccl")

    def test_small_and_large(self):
        self.expect_table(self.layers(), "--ranks", "1", "--recipe", "no_shard")
        self.expect_table(self.layers(), "--ranks", "4")
        self.expect_table(self.layers(), "--ranks", "4", "--memory", "17", status=1)
        self.expect_table(MODELS / "deepseek-v3.json", "--mesh", "node=2048,gpu=8", "--storage", "bf16", "--memory", "400GB",
                          "--micro-batches", "4")

    def test_sweep_and_questions(self):
        machine = self.model({"flops": 1e14}, "machine.json")
        lines = self.expect_table(MODELS / "vit-large-patch16-224.json", "--mesh", "node=*,gpu=4", "--ranks", "4..64",
                                  "--memory", "2GB", "--node-memory", "1TB", "--machine", machine, "--samples", "256")
        self.assertIn("4 ranks on 1 node (node=1 x gpu=4), nccl to", lines)
        asked = [self.layers(), "--ranks", "2,4", "--memory", "2MB", "--largest", "--layouts", "--recipe", "zero_3"]
        document, text = self.json(*asked), self.succeed(*asked)
        for point in document["points"]:
            largest = point["outcomes"][0]["largest"]
            self.assertRegex(text, rf"\b{point['ranks']}  zero_3 +{largest['count']} .* {re.escape(bytes_text(largest['peak']))} ")
            part = text.split(f"Layouts on {point['ranks']} ranks")[1].split("\n\n")[0]
            for entry in point["layouts"]:
                for report in entry["reports"]:
                    row = [entry["unit"], str(entry["group"]), report["policy"], f"{report['padding']:,}", f"{report['largest_segment']:,}",
                           f"{digits(100 * report['overhead'])} %"]
                    self.assertIn(row, [re.split(r"  +", line.strip()) for line in part.splitlines()])
        self.assertLessEqual(max(map(len, text.splitlines())), 100)


class Picture(ToolTest):
    def draw(self, *asked):
        path = self.folder / "plan.svg"
        document = self.json(*asked, "--svg", path, "--force")
        return document, ElementTree.parse(path).getroot()

    def svg(self, root, kind):
        return next(element for element in root.iter(SVG + "svg") if element.get("class") == kind)

    def test_bars(self):
        document, root = self.draw(MODELS / "llama-3-70b.json", "--mesh", "node=*,gpu=8", "--ranks", "64..256", "--storage", "bf16",
                                   "--memory", "80GiB", "--micro-batches", "2")
        boxes = [box for box in self.svg(root, "bars").iter(SVG + "rect") if box.get("data-bytes")]
        expected = [(kind, size, point["ranks"], outcome["recipe"]) for point in document["points"] for outcome in point["outcomes"]
                    for kind, size in parts(outcome).items() if size]
        self.assertEqual([(box.get("class"), int(box.get("data-bytes"))) for box in boxes], [entry[:2] for entry in expected])
        size, width = max((entry[1], float(box.get("width"))) for box, entry in zip(boxes, expected))
        scale = width / size
        rows = {}
        for box, (_, size, ranks, recipe) in zip(boxes, expected):
            self.assertAlmostEqual(float(box.get("width")), size * scale, delta=0.02)
            self.assertIn(f"{ranks} {recipe}: ", box.find(SVG + "title").text)
            self.assertIn(f" {bytes_text(size)} ({size:,} bytes)", box.find(SVG + "title").text)
            # Boxes of a bar are one behind the other.
            row = rows.setdefault(box.get("y"), float(box.get("x")))
            self.assertAlmostEqual(float(box.get("x")), row, delta=0.05)
            rows[box.get("y")] = row + float(box.get("width"))
        numbers = [text.text.split(" *")[0] for text in self.svg(root, "bars").iter(SVG + "text") if "number" in text.get("class", "")]
        self.assertEqual(numbers, [bytes_text(outcome["bytes"]["peak"]) for point in document["points"] for outcome in point["outcomes"]])
        self.assertIn("limit 80.0 GiB", [text.text for text in root.iter(SVG + "text")])

    def test_time_line(self):
        model = self.layers(forward_s=0.01, backward_s=0.02)
        machine = self.model({"network": {"latency_s": 0.002, "bandwidth": 1e7}}, "machine.json")
        document, root = self.draw(model, "--ranks", "4", "--backend", "mpi", "--machine", machine, "--recipe", "zero_3")
        outcome = outcomes(document)["zero_3"]
        line = self.svg(root, "time-line")
        boxes = [box for box in line.iter(SVG + "rect") if box.find(SVG + "title") is not None]
        begin, width = 150, 960 - 150 - 110
        thin = 0.75
        expected = []
        for track in ("compute", "gather", "reduce"):
            for span in outcome["spans"]:
                x, end = (begin + width * span[key] / outcome["step_s"] for key in ("begin_s", "end_s"))
                if span["track"] == track and end - x >= thin:
                    expected.append((OPERATIONS.get(span["operation"], "other"), x, end - x, span))
        self.assertGreater(len(expected), 10)
        self.assertEqual(len(boxes), len(expected))
        for box, (kind, x, length, span) in zip(boxes, expected):
            self.assertEqual(box.get("class"), kind)
            self.assertAlmostEqual(float(box.get("x")), x, delta=0.02)
            self.assertAlmostEqual(float(box.get("width")), length, delta=0.02)
            self.assertIn(span["operation"], box.find(SVG + "title").text)
            if span["module"] >= 0:
                self.assertIn(outcome["modules"][span["module"]], box.find(SVG + "title").text)
        self.assertIn(seconds_text(outcome["step_s"]), "".join(text.text for text in root.iter(SVG + "text")))

    def test_spans_lie_in_the_step(self):
        outcome = outcomes(self.json(MODELS / "vit-large-patch16-224.json", "--ranks", "8", "--backend", "mpi", "--recipe", "zero_3"))["zero_3"]
        ends = {}
        for span in outcome["spans"]:
            self.assertLessEqual(0, span["begin_s"])
            self.assertLessEqual(span["begin_s"], span["end_s"])
            self.assertLessEqual(span["end_s"], outcome["step_s"] * (1 + 1e-9))
            # A track does one thing at a time.
            self.assertGreaterEqual(span["begin_s"], ends.get(span["track"], 0) - 1e-12)
            ends[span["track"]] = span["end_s"]
        self.assertEqual(len(outcome["calls"]), sum(sum(axis["collectives"].values()) for axis in outcome["axes"]) +
                         sum(call["axis"] < 0 for call in outcome["calls"]))

    def test_size_of_files(self):
        """A long step of many modules is a picture of bounded size."""
        page = self.folder / "plan.html"
        model = self.model({"units": [{"unit": "u", "count": 5000, "tensors": [["w", [64]]]}]})
        self.draw(model, "--ranks", "8", "--recipe", "zero_3", "--html", page)
        self.assertLess((self.folder / "plan.svg").stat().st_size, 2 << 20)
        self.assertLess(page.stat().st_size, 2 << 20)


class Terminal(ToolTest):
    def test_progress(self):
        status, shown = shown_on_terminal([TOOL, MODELS / "deepseek-v3.json", "--mesh", "node=*,gpu=8", "--ranks", "8..8192",
                                           "--storage", "bf16"])
        self.assertEqual(status, 0)
        self.assertRegex(shown, rb"\rplan \[#* *\] +\d+ %  \d+ of 77 plans")
        self.assertTrue(shown.endswith(b"\r\033[K"), shown[-100:])


unittest.main()
