# SPDX-License-Identifier: Apache-2.0
"""ostraka-checkpoint list, and its usage."""
import json
import subprocess
import unittest

import h5py
import numpy as np

from support import STORED, TOOL, ToolTest, add, crc32c, create, run, sample


class List(ToolTest):
    def test_json_says_what_h5py_wrote(self):
        tensors = sample(self.file)
        found = json.loads(self.succeed("list", "--json", self.file))
        self.assertEqual((found["format_version"], found["library_version"], found["steps"]), (1, "0.1.0", 120))
        by_name = {(tensor["group"], tensor["name"]): tensor for tensor in found["tensors"]}
        texts = {("user", "case"): "Größe", ("user", "nothing"): ""}
        self.assertEqual(set(by_name), set(tensors) | set(texts))
        data = self.file.read_bytes()
        for key, (dtype, values) in tensors.items():
            tensor, stored = by_name[key], np.asarray(values, STORED[dtype])
            self.assertEqual(tensor["dtype"], dtype)
            self.assertEqual(tensor["shape"], list(np.shape(values)))
            self.assertEqual(tensor["bytes"], stored.nbytes)
            self.assertEqual(tensor["crc32c"], f"0x{crc32c(stored.tobytes()):08x}")
            if stored.nbytes:
                self.assertEqual(data[tensor["offset"]:tensor["offset"] + stored.nbytes], stored.tobytes())
        for key, text in texts.items():
            self.assertTrue(by_name[key]["is_text"])
            self.assertEqual(by_name[key]["shape"], [len(text.encode())])
        # Without creation order the first of tied names is not known by its place, but by the attribute.
        self.assertEqual(by_name["main_weight", "net.weight"]["other_names"], ["head.weight"])

    def test_table(self):
        sample(self.file)
        lines = [line.split() for line in self.succeed("list", self.file).splitlines()]
        self.assertIn("step 120,", " ".join(lines[0]))
        self.assertEqual(lines[1], ["GROUP", "NAME", "TYPE", "SHAPE", "BYTES", "VALUE"])
        for line in ("main_weight net.weight f64 [5, 7] 280", "main_weight head.weight tied to net.weight",
                     "main_weight empty f64 [0, 3] 0", "main_weight a/b%c f64 [] 8",
                     "state/odd/name net.bias f32 [3] 12", "user time f64 [] 8 0.1", 'user case text [7] 7 "Größe"'):
            self.assertIn(line.split(), lines)
        columns = {line.index(" f64 ") for line in self.succeed("list", self.file).splitlines() if " f64 " in line}
        self.assertEqual(len(columns), 1)

    def test_no_step_and_terminal_codes(self):
        self.make("run.h5", {"a\033[2J": ("f64", [1.0])})
        output = self.succeed("list", self.file)
        self.assertIn("no step", output)
        self.assertIn("a\\x1b[2J", output)
        self.assertIsNone(json.loads(self.succeed("list", "--json", self.file))["steps"])

    def test_only(self):
        sample(self.file)
        found = json.loads(self.succeed("list", "--json", "--only", "net.*", "--only", "h?lf", self.file))
        self.assertEqual({tensor["name"] for tensor in found["tensors"]}, {"net.weight", "net.bias", "half"})
        self.assertIn("net.weight", self.succeed("list", "--only", "head.weight", self.file))
        self.refuse(2, "--only 'nett*' matches none of", "list", "--only", "net*", "--only", "nett*", self.file)

    def test_other_files(self):
        self.refuse(2, "none.h5: cannot open: No such file", "list", self.folder / "none.h5")
        self.refuse(2, "expected a regular file", "list", self.folder)
        text = self.folder / "text"
        text.write_text("not HDF5")
        self.refuse(1, "no HDF5 file", "list", text)
        with h5py.File(self.file, "w"):
            pass
        self.refuse(1, "no checkpoint", "list", self.file)
        create(self.file, version=2).close()
        self.refuse(1, "format version 2", "list", self.file)

    def test_broken_tables(self):
        def no_sum(file):
            del file["main_weight/w"].attrs["crc32c"]

        def other_type(file):
            file["main_weight/w"].attrs["dtype"] = np.bytes_("f32")

        def unknown_type(file):
            file["main_weight/w"].attrs["dtype"] = np.bytes_("f8")

        def chunked(file):
            file["main_weight"].create_dataset("v", data=np.ones(8), chunks=(4,))
            file["main_weight/v"].attrs.update(file["main_weight/w"].attrs)
            file["main_weight/v"].attrs["name"] = np.bytes_("v")

        for change, words in ((no_sum, "crc32c"), (other_type, "f32"), (unknown_type, "f8"), (chunked, "main_weight/v")):
            with create(self.file) as file:
                add(file, "main_weight", "w", "f64", np.ones(3))
                change(file)
            self.refuse(1, words, "list", self.file)


class Usage(ToolTest):
    def test_help(self):
        output = self.succeed("--help")
        for words in ("EXIT STATUS", "EXAMPLES", "list", "verify", "diff", "export", "import"):
            self.assertIn(words, output)
        for command in ("list", "verify", "diff", "export", "import"):
            self.assertIn("--only", self.succeed(command, "--help"))

    def test_version(self):
        self.assertRegex(self.succeed("--version"), r"^ostraka-checkpoint \d+\.\d+\.\d+ \(format 1\)\n$")

    def test_standard_output_that_takes_nothing(self):
        sample(self.file)
        with open("/dev/full", "w") as full:
            result = subprocess.run([TOOL, "list", self.file], stdout=full, stderr=subprocess.PIPE, text=True)
        self.assertEqual(result.returncode, 2)
        self.assertIn("standard output: No space left", result.stderr)

    def test_mistakes(self):
        for arguments in ([], ["lost"], ["list"], ["list", "a", "b"], ["list", "--jason", "a"], ["diff", "a"],
                          ["diff", "--rtol", "-1", "a", "b"], ["diff", "--rtol", "x", "a", "b"], ["export", "a"],
                          ["import", "--steps", "-1", "a", "b"]):
            status, _, errors = run(*arguments)
            self.assertEqual(status, 2, arguments)
            self.assertNotEqual(errors, "")
        self.refuse(2, "expected a command (list, verify, diff, export or import), found none")
        self.refuse(2, "lost", "lost")


unittest.main()
