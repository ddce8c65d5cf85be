# SPDX-License-Identifier: Apache-2.0
"""ostraka-checkpoint diff."""
import itertools
import os
import unittest

import numpy as np

from support import ToolTest, add, add_text, bf16, create, sample, tie, zeros_crc


class Diff(ToolTest):
    def compare(self, a, b, *arguments):
        """The lines of two different checkpoints of main weights."""
        files = self.make("a.h5", a), self.make("b.h5", b)
        return self.refuse(1, "different: ", "diff", *arguments, *files).splitlines()

    def line(self, dtype, a, b, *arguments):
        lines = self.compare({"w": (dtype, a)}, {"w": (dtype, b)}, *arguments)
        self.assertEqual(lines[1:], ["different: 1 of 1 names"])
        return lines[0]

    def equal(self, dtype, a, b, *arguments):
        files = self.make("a.h5", {"w": (dtype, a)}), self.make("b.h5", {"w": (dtype, b)})
        self.assertIn("equal: 1 names", self.succeed("diff", *arguments, *files))

    def test_equal(self):
        sample(self.folder / "a.h5")
        sample(self.folder / "b.h5")
        self.assertIn("equal: 18 names", self.succeed("diff", self.folder / "a.h5", self.folder / "b.h5"))

    def test_names_types_shapes(self):
        lines = self.compare(
            {"same": ("f64", [1.0]), "mine": ("f64", [[1.0]]), "type": ("f64", [0.5, 0.25]), "both": ("i32", [1]),
             "shape": ("f32", np.ones((2, 3)))},
            {"same": ("f64", [1.0]), "yours": ("bf16", bf16([1.0])), "type": ("f32", [0.5, 0.25]), "both": ("i64", [2]),
             "shape": ("f32", np.ones((3, 2)))})
        self.assertEqual(sorted(lines), sorted([
            "only in A  main_weight/mine: f64 [1, 1]",
            "only in B  main_weight/yours: bf16 [1]",
            "type       main_weight/type: f64 in A, f32 in B",
            "type       main_weight/both: i32 in A, i64 in B",
            "values     main_weight/both: 1 of 1 elements, first at [0]; largest difference 1, relative 0.5",
            "shape      main_weight/shape: [2, 3] in A, [3, 2] in B",
            "different: 5 of 6 names"]))

    def test_values(self):
        a, b = np.ones((3, 4)), np.ones((3, 4))
        b[1, 2], b[2, 0], b[2, 3] = 1.5, -3, 0.75
        self.assertEqual(self.line("f64", a, b), "values     main_weight/w: 3 of 12 elements, first at [1, 2]; "
                         f"largest difference 4, relative {4 / 3}")

    def test_numbers_of_one_element(self):
        self.assertIn("1 of 1 elements, first at []; largest difference 2", self.line("f64", np.array(1), np.array(3)))

    def test_each_type(self):
        for dtype, change in (("f64", 2**-50), ("f32", 2**-20), ("f16", 2**-8), ("i64", 1), ("i32", 1), ("u8", 1)):
            self.assertIn(f"first at [1]; largest difference {change!r}, relative {change / (1 + change)!r}",
                          self.line(dtype, [0, 1], [0, 1 + change]), dtype)
        self.assertIn("largest difference 0.5, relative 0.25", self.line("bf16", bf16([2, 0]), bf16([1.5, 0])))

    def test_large_integers_are_not_rounded(self):
        self.assertIn("largest difference 1,", self.line("i64", [2**53], [2**53 + 1]))
        self.assertIn("largest difference 18446744073709551616,", self.line("i64", [-(2**63)], [2**63 - 1]))

    def test_bits(self):
        self.assertIn("largest difference 0, relative 0", self.line("f64", [0.0], [-0.0]))
        nan = np.float64("nan")
        self.equal("f64", [nan], [nan])
        self.assertIn("1 of 2 elements, first at [1]; largest difference 0, relative 0; NaN in one only: 1",
                      self.line("f64", [nan, 1], [nan, nan]))
        other = np.array([0x7FF8000000000001], "u8").view("f8")
        line = self.line("f64", [nan], other)
        self.assertIn("1 of 1 elements", line)
        self.assertNotIn("NaN in one only", line)
        self.assertIn("largest difference inf, relative inf", self.line("f32", [np.inf], [1]))

    def test_tolerance(self):
        a, b = [1.0, 100.0], [1.0 + 1e-9, 100.0 + 1e-7]
        self.equal("f64", a, b, "--rtol", "2e-9")
        self.equal("f64", a, b, "--atol", "2e-7")
        self.assertIn("1 of 2 elements, first at [1]", self.line("f64", a, b, "--atol", "2e-9"))
        self.assertIn("2 of 2 elements", self.line("f64", a, b, "--rtol", "1e-10"))
        self.equal("f64", [0.0], [-0.0], "--atol", "1e-300")
        for value in (np.nan, np.inf):
            self.assertIn("1 of 1 elements", self.line("f64", [value], [1], "--atol", "1e300", "--rtol", "1"))

    def test_every_pair_of_types_compares_as_numbers(self):
        values = {"f64": [0, 1, 2], "f32": [0, 1, 2], "f16": [0, 1, 2], "bf16": bf16([0, 1, 2]), "i64": [0, 1, 2],
                  "i32": [0, 1, 2], "u8": [0, 1, 2]}
        for one, other in itertools.combinations(values, 2):
            lines = self.compare({"w": (one, values[one])}, {"w": (other, values[other])})
            self.assertEqual(lines, [f"type       main_weight/w: {one} in A, {other} in B", "different: 1 of 1 names"])

    def test_later_blocks(self):
        count = (9 << 20) // 8
        for name, position in (("a.h5", None), ("b.h5", count - 2)):
            values = np.zeros(count)
            with create(self.folder / name) as file:
                dataset = file["main_weight"].create_dataset("w", data=values)
                dataset.attrs.update({"name": np.bytes_("w"), "dtype": np.bytes_("f64"),
                                      "crc32c": np.uint32(zeros_crc(values.nbytes))})
                if position:
                    dataset[position] = 2.0
        # The stored sum of b is now wrong: damage is no difference of values.
        self.refuse(1, "b.h5: main_weight/w: CRC-32C", "diff", self.folder / "a.h5", self.folder / "b.h5")
        self.succeed("export", self.folder / "a.h5", self.folder / "b.safetensors")
        with open(self.folder / "b.safetensors", "r+b") as file:
            file.seek(-16, 2)
            file.write(np.float64(2).tobytes())
        self.succeed("import", "--force", self.folder / "b.safetensors", self.folder / "b.h5")
        self.assertIn(f"1 of {count} elements, first at [{count - 2}]; largest difference 2, relative 1",
                      self.refuse(1, "", "diff", self.folder / "a.h5", self.folder / "b.h5"))

    def test_steps_and_texts(self):
        for name, steps, text in (("a.h5", 7, "cold"), ("b.h5", None, "warm")):
            with create(self.folder / name, steps) as file:
                add_text(file, "case", text)
        output = self.refuse(1, "step    7 in ", "diff", self.folder / "a.h5", self.folder / "b.h5")
        self.assertIn("user/case: texts of one length differ, first at byte 0", output)
        self.assertIn("different: 1 of 1 names", output)

    def test_tied_names_are_names(self):
        with create(self.folder / "a.h5") as file:
            add(file, "main_weight", "v", "f64", np.ones(3))
            tie(file, "main_weight", "v", "w")
        self.make("b.h5", {"v": ("f64", np.ones(3)), "w": ("f64", [1, 1, 2])})
        output = self.refuse(1, "different: 1 of 2 names", "diff", self.folder / "a.h5", self.folder / "b.h5")
        self.assertIn("main_weight/w: 1 of 3 elements", output)
        self.make("b.h5", {"v": ("f64", np.ones(3)), "w": ("f64", np.ones(3))})
        self.succeed("diff", self.folder / "a.h5", self.folder / "b.h5")
        self.assertEqual(self.succeed("diff", self.folder / "a.h5", self.folder / "a.h5"), "equal: 2 names, 24 B\n")

    def test_only(self):
        lines = self.compare({"net.v": ("f64", [1]), "w": ("f64", [1])}, {"net.v": ("f64", [2]), "w": ("f64", [2])},
                             "--only", "net.*")
        self.assertEqual(lines[-1], "different: 1 of 1 names")
        self.refuse(2, "--only matches no tensor", "diff", "--only", "x", self.folder / "a.h5", self.folder / "b.h5")

    def test_files(self):
        self.make("a.h5", {})
        self.refuse(2, "none.h5", "diff", self.folder / "a.h5", self.folder / "none.h5")
        os.mkfifo(self.folder / "pipe.h5")
        self.refuse(2, "pipe.h5: expected a regular file", "diff", self.folder / "a.h5", self.folder / "pipe.h5")
        self.assertIn("equal: 0 names", self.succeed("diff", self.folder / "a.h5", self.folder / "a.h5"))


unittest.main()
