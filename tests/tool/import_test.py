# SPDX-License-Identifier: Apache-2.0
"""ostraka-checkpoint import: h5py reads what the safetensors package wrote, and round trips keep every bit."""
import json
import os
import unittest

import h5py
import numpy as np
from safetensors.numpy import save_file

from support import STORED, ToolTest, crc32c, escape, run, sample


def write_raw(path, header, data=b"", length=None):
    """A file of a header that is an object or text."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes((len(text) if length is None else length).to_bytes(8, "little") + text + data)


def entry(dtype="F64", shape=(1,), begin=0, end=8):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, end]}


class Import(ToolTest):
    def setUp(self):
        super().setUp()
        self.source = self.folder / "in.safetensors"

    def test_h5py_reads_what_safetensors_wrote(self):
        random = np.random.default_rng(21)
        tensors = {"a": random.normal(size=(3, 5)), "b.c": random.normal(size=7).astype("f4"),
                   "half": random.normal(size=(2, 2)).astype("f2"), "n": np.array(-(2**40)), "i": np.arange(3, dtype="i4"),
                   "u": np.arange(256, dtype="u1"), "empty": np.zeros((2, 0, 3)), "x/y%z": np.ones(2), ".": np.ones(1),
                   "größe": np.ones(1)}
        save_file(tensors, self.source, metadata={"format": "pt", "author": "nobody"})
        self.assertIn("10 tensors", self.succeed("import", "--steps", 5, self.source, self.file))
        with h5py.File(self.file) as file:
            self.assertEqual(file.attrs["format"], b"ostraka checkpoint")
            self.assertEqual(file.attrs["format_version"], 1)
            self.assertEqual(file["state"].attrs["steps"], 5)
            self.assertEqual(set(file["main_weight"]), {escape(name) for name in tensors})
            for name, values in tensors.items():
                dataset = file["main_weight"][escape(name)]
                self.assertEqual((dataset.dtype, dataset.shape), (values.dtype, values.shape), name)
                self.assertEqual(dataset[()].tobytes(), values.tobytes(), name)
                self.assertEqual(dataset.attrs["crc32c"], crc32c(values.tobytes()), name)
                self.assertEqual(dataset.attrs["name"].decode(), name)
        self.succeed("verify", self.file)

    def test_bf16(self):
        bits = np.arange(0, 65536, 7, dtype="<u2")
        write_raw(self.source, {"w": entry("BF16", bits.shape, 0, bits.nbytes)}, bits.tobytes())
        self.succeed("import", self.source, self.file)
        with h5py.File(self.file) as file:
            dataset = file["main_weight/w"]
            self.assertEqual((dataset.dtype, dataset.attrs["dtype"]), (np.dtype("<u2"), b"bf16"))
            self.assertEqual(dataset[()].tobytes(), bits.tobytes())
            self.assertNotIn("steps", file["state"].attrs)

    def test_round_trip_of_a_checkpoint(self):
        tensors = sample(self.file)
        back, again = self.folder / "back.h5", self.folder / "again.safetensors"
        self.succeed("export", "--state", self.file, self.source)
        self.succeed("import", self.source, back)
        output = self.refuse(1, "", "diff", self.file, back)
        for line in output.splitlines()[:-1]:  # the user's values and fields do not travel
            self.assertRegex(line, "^only in A  (user|field)/")
        with h5py.File(back) as file:
            self.assertEqual(file["state"].attrs["steps"], 120)
            self.assertEqual(file["main_weight/head.weight"], file["main_weight/net.weight"])
            for (group, name), (dtype, values) in tensors.items():
                if group == "main_weight":
                    self.assertEqual(file[group][escape(name)][()].tobytes(), np.asarray(values, STORED[dtype]).tobytes())
            found = file["state"][escape("odd/name")]["net.bias"][()]
            self.assertEqual(found.tobytes(), np.asarray(tensors["state/odd/name", "net.bias"][1], "<f4").tobytes())
        self.succeed("export", "--state", "--metadata", "case=Größe", "--metadata", "nothing=", back, again)
        self.assertEqual(again.read_bytes(), self.source.read_bytes())

    def test_tied_names_of_other_programs(self):
        """They write the name that was left out and the one that stayed."""
        save_file({"w": np.ones(2), "pt": np.ones(1)}, self.source, metadata={"head": "w", "format": "pt", "by": "us"})
        self.succeed("import", self.source, self.file)
        with h5py.File(self.file) as file:
            self.assertEqual(set(file["main_weight"]), {"w", "pt", "head"})
            self.assertEqual(file["main_weight/head"], file["main_weight/w"])

    def test_only_and_steps(self):
        metadata = {"ostraka_steps": "9"}
        save_file({"net.v": np.ones(2), "w": np.zeros(3)}, self.source, metadata=metadata)
        self.succeed("import", "--only", "net.*", self.source, self.file)
        found = json.loads(self.succeed("list", "--json", self.file))
        self.assertEqual(([tensor["name"] for tensor in found["tensors"]], found["steps"]), (["net.v"], 9))
        self.succeed("import", "--force", "--steps", 0, self.source, self.file)
        self.assertEqual(json.loads(self.succeed("list", "--json", self.file))["steps"], 0)
        self.refuse(2, "--only matches none of 2 tensors", "import", "--force", "--only", "x", self.source, self.file)
        self.refuse(2, "exists; --force replaces it", "import", self.source, self.file)
        save_file({}, self.source, metadata={"ostraka_steps": "many"})
        self.refuse(1, "ostraka_steps: expected a number >= 0, found 'many'", "import", "--force", self.source, self.file)

    def test_damaged_files(self):
        eight = bytes(8)
        cases = [
            (b"", "is not JSON"),
            (b"{", "is not JSON"),
            (b'{"a": \xff}', "is not JSON"),
            (b"[]", "is no JSON object"),
            (b'{"w": {"dtype": "F64", "shape": [1], "data_offsets": [0, 8]}, "w": 1}', 'the key "w" twice'),
            ({"w": 1}, "tensor 'w': expected an object"),
            ({"w": {"shape": [1], "data_offsets": [0, 8]}}, "tensor 'w': expected an object with dtype"),
            ({"w": {"dtype": "F64", "data_offsets": [0, 8]}}, "tensor 'w': shape: expected a list of numbers, found null"),
            ({"w": entry(shape=(-1,))}, "shape: expected a list of numbers, found [-1]"),
            ({"w": entry(shape=(1.5,))}, "shape: expected a list of numbers, found [1.5]"),
            ({"w": {**entry(), "data_offsets": [0]}}, "data_offsets: expected a list of 2 numbers, found [0]"),
            ({"w": entry(end=7)}, "F64 of shape [1]: expected 8 bytes, found data_offsets [0, 7]"),
            ({"w": entry(begin=8, end=0)}, "expected 8 bytes, found data_offsets [8, 0]"),
            ({"w": entry(begin=8, end=16)}, "tensor 'w': expected its data at byte 0"),
            ({"v": entry(), "w": entry()}, "tensor 'w': expected its data at byte 8, behind that of the tensor before, found 0"),
            ({"v": entry(), "w": entry(begin=8, end=16)}, "expected 16 bytes of data behind the header, found 8"),
            ({}, "expected 0 bytes of data behind the header, found 8"),
            ({"w": entry(), "__metadata__": 1}, "__metadata__: expected an object, found 1"),
            ({"w": entry(), "__metadata__": {"a": 1}}, "__metadata__: expected a text for 'a', found 1"),
            ({"w": entry(), "__metadata__": {"ostraka_tied_names": "x"}}, "ostraka_tied_names: expected a JSON list"),
        ]
        for header, words in cases:
            write_raw(self.source, header, eight)
            self.assertIn("in.safetensors: ", self.refuse(1, words, "import", self.source, self.file))
        for length in (10**9, 2**63, 2**64 - 1):
            write_raw(self.source, {"w": entry()}, eight, length)
            self.refuse(1, f"found {length}", "import", self.source, self.file)
        for content in (b"", b"1234567"):
            self.source.write_bytes(content)
            self.refuse(1, "expected", "import", self.source, self.file)
        self.assertEqual(os.listdir(self.folder), ["in.safetensors"])

    def test_refused_tensors(self):
        for header, words in (
                ({"w": entry("I16", (4,))}, "tensor 'w': expected one of the types F64, F32, BF16, F16, I64, I32, U8, found I16"),
                ({"w": entry("F8_E4M3", (8,))}, "found F8_E4M3"),
                ({"w": entry(shape=(2**32, 2**32), end=0)}, "does not fit into 64 bits"),
                ({"ostraka.state/w": entry()}, "expected 'ostraka.state/STATE/NAME'"),
                ({"": entry()}, "no name"),
                ({"a\0b": entry()}, "zero byte"),
                ({"w": entry(), "v": entry(begin=8, end=8, shape=(0,)), "__metadata__": {"v": "w"}}, "v'")):
            write_raw(self.source, header, bytes(8))
            self.refuse(2, words, "import", self.source, self.file)
        self.assertEqual(os.listdir(self.folder), ["in.safetensors"])

    def test_no_source(self):
        self.refuse(2, "in.safetensors: cannot open", "import", self.source, self.file)
        status, _, _ = run("list", self.file, stdin=None)
        self.assertEqual(status, 2)


unittest.main()
