# SPDX-License-Identifier: Apache-2.0
"""The tool and h5py on files of the library, and the library on a file of the tool.
usage: library_test.py COMMAND ...   starts the program `ranks`"""
import json
import subprocess
import sys
import unittest

import h5py
import numpy as np

from support import ToolTest, bf16, crc32c, escape

COMMAND = sys.argv[1:]


def values(tensor, shape, dtype="<f8"):
    """As ranks.cpp has it."""
    result = ((tensor * 37 + np.arange(int(np.prod(shape))) * 11) % 251).astype("<f8").reshape(shape)
    return bf16(result.astype("<f4")) if dtype == "bf16" else result.astype(dtype)


EXPECTED = {
    ("main_weight", "net.weight"): values(0, (5, 7)),
    ("main_weight", "net/bias"): values(1, (3,)),
    ("main_weight", "net.none"): values(2, (0, 2)),
    ("main_weight", "half.weight"): values(3, (4, 6), "bf16"),
    ("state/exp_avg", "net.weight"): values(10, (5, 7)),
    ("state/exp_avg", "net/bias"): values(11, (3,)),
    ("state/exp_avg", "net.none"): values(12, (0, 2)),
    ("field", "temperature"): values(20, (4, 4), "<f4"),
}


class Library(ToolTest):
    def ranks(self, *arguments):
        result = subprocess.run([*COMMAND, *map(str, arguments)], capture_output=True, text=True)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def setUp(self):
        super().setUp()
        self.ranks("save", self.file)

    def test_tool_and_h5py_read_what_the_library_wrote(self):
        self.succeed("verify", self.file)
        found = json.loads(self.succeed("list", "--json", self.file))
        self.assertEqual(found["steps"], 12)
        by_name = {(tensor["group"], tensor["name"]): tensor for tensor in found["tensors"]}
        self.assertEqual(set(by_name), set(EXPECTED) | {("user", "time"), ("user", "case")})
        self.assertEqual(by_name["main_weight", "net.weight"]["other_names"], ["head.weight"])
        with h5py.File(self.file) as file:
            for (group, name), expected in EXPECTED.items():
                dataset = file[group][escape(name)]
                self.assertEqual((dataset.dtype, dataset.shape), (expected.dtype, expected.shape), name)
                self.assertEqual(dataset[()].tobytes(), expected.tobytes(), name)
                self.assertEqual(dataset.attrs["crc32c"], crc32c(expected.tobytes()), name)
            self.assertEqual(file["main_weight/head.weight"], file["main_weight/net.weight"])
            self.assertEqual(file["user/time"][()], 0.25)
            self.assertEqual(file["user/case"].asstr()[()], "cold")

    def test_library_loads_what_the_tool_imported(self):
        self.succeed("export", "--state", self.file, self.folder / "out.safetensors")
        self.succeed("import", self.folder / "out.safetensors", self.folder / "back.h5")
        self.ranks("load", self.folder / "back.h5")


del sys.argv[1:]
unittest.main()
