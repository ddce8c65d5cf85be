# SPDX-License-Identifier: Apache-2.0
"""ostraka-checkpoint export: the safetensors package and a reader of our own agree with what h5py wrote."""
import json
import os
import unittest

import numpy as np
from safetensors import safe_open

from support import STORED, ToolTest, add, add_text, create, sample, tie

NAMES = {"f64": "F64", "f32": "F32", "bf16": "BF16", "f16": "F16", "i64": "I64", "i32": "I32", "u8": "U8"}


def read_raw(path):
    """({name: (type, shape, bytes)}, metadata, start of the data)"""
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + length])
    metadata = header.pop("__metadata__", {})
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        tensors[name] = (entry["dtype"], entry["shape"], data[8 + length + begin:8 + length + end])
    return tensors, metadata, 8 + length


class Export(ToolTest):
    def setUp(self):
        super().setUp()
        self.out = self.folder / "out.safetensors"

    def test_every_type_and_shape(self):
        tensors = sample(self.file)
        weights = {name: value for (group, name), value in tensors.items() if group == "main_weight"}
        self.assertIn(f"{len(weights)} tensors", self.succeed("export", self.file, self.out))
        raw, metadata, _ = read_raw(self.out)
        self.assertEqual(set(raw), set(weights))
        with safe_open(self.out, framework="np") as opened:
            self.assertEqual(set(opened.keys()), set(weights))
            self.assertEqual(opened.metadata(), metadata)
            for name, (dtype, values) in weights.items():
                stored = np.asarray(values, STORED[dtype])
                self.assertEqual(raw[name], (NAMES[dtype], list(np.shape(values)), stored.tobytes()))
                if dtype != "bf16":  # which numpy lacks
                    found = opened.get_tensor(name)
                    self.assertEqual((found.dtype, found.shape, found.tobytes()),
                                     (stored.dtype, stored.shape, stored.tobytes()), name)

    def test_metadata(self):
        sample(self.file)
        self.succeed("export", "--metadata", "format=pt", "--metadata", "note=a=b", self.file, self.out)
        _, metadata, _ = read_raw(self.out)
        self.assertEqual(metadata, {
            "ostraka_format_version": "1", "ostraka_library_version": "0.1.0", "ostraka_steps": "120", "format": "pt",
            "note": "a=b", "case": "Größe", "nothing": "", "head.weight": "net.weight",
            "ostraka_tied_names": '["head.weight"]'})
        for entry, words in (("pt", "expected KEY=VALUE, found 'pt'"), ("=pt", "expected KEY=VALUE"),
                             ("case=1", "'case' twice")):
            self.refuse(2, words, "export", "--force", "--metadata", entry, self.file, self.out)

    def test_texts_that_are_names_are_not_tied(self):
        with create(self.file) as file:
            add(file, "main_weight", "w", "f64", [1])
            add_text(file, "best", "w")
        self.succeed("export", self.file, self.out)
        _, metadata, _ = read_raw(self.out)
        self.assertEqual((metadata["best"], metadata["ostraka_tied_names"]), ("w", "[]"))
        back = self.folder / "back.h5"
        self.succeed("import", self.out, back)
        found = json.loads(self.succeed("list", "--json", back))
        self.assertEqual([(tensor["name"], tensor["other_names"]) for tensor in found["tensors"]], [("w", [])])

    def test_data_is_aligned_and_without_gaps(self):
        sample(self.file)
        self.succeed("export", "--state", self.file, self.out)
        tensors, _, start = read_raw(self.out)
        header = json.loads(self.out.read_bytes()[8:start])
        places = sorted(entry["data_offsets"] for name, entry in header.items() if name != "__metadata__")
        self.assertEqual([begin for begin, _ in places], [0] + [end for _, end in places[:-1]])
        self.assertEqual(start + places[-1][1], self.out.stat().st_size)
        for name, (dtype, _, _) in tensors.items():
            size = {"F64": 8, "I64": 8, "F32": 4, "I32": 4, "BF16": 2, "F16": 2, "U8": 1}[dtype]
            self.assertEqual((start + header[name]["data_offsets"][0]) % size, 0, name)

    def test_state(self):
        tensors = sample(self.file)
        self.succeed("export", "--state", "--only", "net.*", self.file, self.out)
        raw, metadata, _ = read_raw(self.out)
        self.assertEqual(set(raw), {"net.weight", "net.bias", "ostraka.state/exp_avg/net.weight",
                                    "ostraka.state/odd%2Fname/net.bias"})
        for key, (group, name) in {"ostraka.state/exp_avg/net.weight": ("state/exp_avg", "net.weight"),
                                   "ostraka.state/odd%2Fname/net.bias": ("state/odd/name", "net.bias")}.items():
            dtype, values = tensors[group, name]
            self.assertEqual(raw[key][2], np.asarray(values, STORED[dtype]).tobytes())

    def test_only(self):
        sample(self.file)
        self.refuse(2, "--only 'lost' matches none", "export", "--only", "lost", self.file, self.out)
        self.refuse(2, "--only matches no weight", "export", "--only", "time", self.file, self.out)
        self.assertFalse(self.out.exists())
        self.succeed("export", "--only", "head.weight", self.file, self.out)  # a tied name brings its tensor
        self.assertEqual(set(read_raw(self.out)[0]), {"net.weight"})

    def test_nothing_to_export(self):
        self.make("run.h5", {})
        self.succeed("export", self.file, self.out)
        with safe_open(self.out, framework="np") as opened:
            self.assertEqual(list(opened.keys()), [])

    def test_names_that_safetensors_cannot_have(self):
        for name, words in (("__metadata__", "keeps this name"), ("ostraka.state/x/y", "names that begin with")):
            self.make("run.h5", {name: ("f64", [1])})
            self.assertIn("run.h5: ", self.refuse(2, words, "export", self.file, self.out))
        with create(self.file) as file:
            add(file, "main_weight", "v", "f64", [1])
            tie(file, "main_weight", "v", "note")
            add_text(file, "note", "text")
        self.refuse(2, "'note' twice", "export", self.file, self.out)
        with create(self.file) as file:
            add(file, "main_weight", "w", "f64", [1]).attrs["name"] = np.bytes_(b"\xff")
            file["main_weight"].move("w", b"\xff")
        self.refuse(2, "run.h5: the name of tensor", "export", self.file, self.out)
        self.assertEqual(os.listdir(self.folder), ["run.h5"])

    def test_damage_leaves_nothing(self):
        sample(self.file)
        self.out.write_text("before")
        data = bytearray(self.file.read_bytes())
        data[json.loads(self.succeed("list", "--json", self.file))["tensors"][0]["offset"]] ^= 1
        self.file.write_bytes(data)
        self.refuse(1, "CRC-32C: expected", "export", "--force", self.file, self.out)
        self.assertEqual(self.out.read_text(), "before")
        self.assertEqual(sorted(os.listdir(self.folder)), ["out.safetensors", "run.h5"])

    def test_the_place_of_the_result(self):
        sample(self.file)
        self.out.write_text("before")
        self.refuse(2, "exists; --force replaces it", "export", self.file, self.out)
        self.assertEqual(self.out.read_text(), "before")
        self.succeed("export", "--force", self.file, self.out)
        self.refuse(2, "no regular file", "export", "--force", self.file, self.folder)
        self.refuse(2, "cannot create a file beside it: No such file", "export", self.file, self.folder / "no" / "out")
        self.refuse(2, "Not a directory", "export", self.file, self.file / "out")
        mask = os.umask(0o027)
        self.addCleanup(os.umask, mask)
        self.succeed("export", "--force", self.file, self.out)
        self.assertEqual(self.out.stat().st_mode & 0o777, 0o640)

    def test_a_full_disk(self):
        """Stands for it: a limit of the size of files, which is an error of the write as well."""
        import resource
        import signal

        def limit():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))

        self.make("run.h5", {"w": ("u8", np.zeros(1 << 21))})
        self.refuse(2, "cannot write: File too large", "export", self.file, self.out, preexec_fn=limit)
        self.assertEqual(os.listdir(self.folder), ["run.h5"])


unittest.main()
