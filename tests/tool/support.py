# SPDX-License-Identifier: Apache-2.0
"""An independent writer of format 1, its sums, and the tool as a function."""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import h5py
import numpy as np

TOOL = os.environ["OSTRAKA_CHECKPOINT_TOOL"]
sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "support"))  # of all tools
from terminal import shown_on_terminal  # noqa: E402, F401

STORED = {"f64": "<f8", "f32": "<f4", "bf16": "<u2", "f16": "<f2", "i64": "<i8", "i32": "<i4", "u8": "u1"}


def make_table():
    table = []
    for crc in range(256):
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
        table.append(crc)
    return table


TABLE = make_table()


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = (crc >> 8) ^ TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


assert crc32c(b"123456789") == 0xE3069283


def zeros_crc(size):
    """CRC-32C of that many zero bytes, by squaring what one zero bit does to each bit of a sum."""
    def times(matrix, vector):
        result = 0
        for row in matrix:
            result ^= row if vector & 1 else 0
            vector >>= 1
        return result

    matrix = [0x82F63B78] + [1 << bit for bit in range(31)]
    crc, bits = 0xFFFFFFFF, 8 * size
    while bits:
        crc = times(matrix, crc) if bits & 1 else crc
        matrix, bits = [times(matrix, row) for row in matrix], bits >> 1
    return crc ^ 0xFFFFFFFF


assert zeros_crc(1000) == crc32c(bytes(1000))


def escape(name):
    return "%2E" if name == "." else name.replace("%", "%25").replace("/", "%2F")


def bf16(values):
    """The upper halves of f32, cut off."""
    return (np.asarray(values, "<f4").view("<u4") >> 16).astype("<u2")


def attributes(dataset, name, dtype, data):
    dataset.attrs["name"] = np.bytes_(name.encode())
    dataset.attrs["dtype"] = np.bytes_(dtype)
    dataset.attrs["crc32c"] = np.uint32(crc32c(data))


def add(file, group, name, dtype, values):
    values = np.ascontiguousarray(values, STORED[dtype]).reshape(np.shape(values))
    dataset = file.require_group(group).create_dataset(escape(name), data=values)
    attributes(dataset, name, dtype, values.tobytes())
    return dataset


def add_text(file, name, text):
    data = text.encode()
    dataset = file.require_group("user").create_dataset(
        escape(name), data=data, dtype=h5py.string_dtype("utf-8", max(len(data), 1)))
    attributes(dataset, name, "text", data)
    dataset.attrs["length"] = np.int64(len(data))
    return dataset


def tie(file, group, name, other):
    file[group][escape(other)] = file[group][escape(name)]


def create(path, steps=None, version=1):
    file = h5py.File(path, "w")
    file.attrs["format"] = np.bytes_("ostraka checkpoint")
    file.attrs["format_version"] = np.int64(version)
    file.attrs["library_version"] = np.bytes_("0.1.0")
    file.create_group("main_weight")
    state = file.create_group("state")
    if steps is not None:
        state.attrs["steps"] = np.int64(steps)
    return file


def sample(path):
    """One of every kind; returns {(group, name): (dtype, values)} without texts."""
    random = np.random.default_rng(20)
    tensors = {
        ("main_weight", "net.weight"): ("f64", random.normal(size=(5, 7))),
        ("main_weight", "net.bias"): ("f32", random.normal(size=3)),
        ("main_weight", "half"): ("bf16", bf16(random.normal(size=(2, 3, 4)))),
        ("main_weight", "binary16"): ("f16", random.normal(size=5)),
        ("main_weight", "count"): ("i64", np.array(2**62 + 1)),
        ("main_weight", "index"): ("i32", np.array([-(2**31), 2**31 - 1])),
        ("main_weight", "bytes"): ("u8", np.arange(256)),
        ("main_weight", "empty"): ("f64", np.zeros((0, 3))),
        ("main_weight", "a/b%c"): ("f64", np.array(0.5)),
        ("main_weight", "."): ("f64", np.ones(1)),
        ("main_weight", "größe"): ("f64", np.ones(2)),
        ("state/exp_avg", "net.weight"): ("f64", random.normal(size=(5, 7))),
        ("state/odd/name", "net.bias"): ("f32", random.normal(size=3)),
        ("field", "temperature"): ("f64", random.normal(size=(4, 4))),
        ("user", "time"): ("f64", np.array(0.1)),
    }
    with create(path, steps=120) as file:
        for (group, name), (dtype, values) in tensors.items():
            link = "state/" + escape(group[6:]) if group.startswith("state/") else group
            add(file, link, name, dtype, values)
        tie(file, "main_weight", "net.weight", "head.weight")
        add_text(file, "case", "Größe")
        add_text(file, "nothing", "")
    return tensors


def run(*arguments, **options):
    """(exit status, standard output, standard error)"""
    result = subprocess.run([TOOL, *map(str, arguments)], capture_output=True, encoding="utf-8", errors="replace",
                            **options)
    return result.returncode, result.stdout, result.stderr


class ToolTest(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="ostraka-tool-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.file = self.folder / "run.h5"

    def succeed(self, *arguments, **options):
        status, output, errors = run(*arguments, **options)
        self.assertEqual((status, errors), (0, ""), output)
        return output

    def refuse(self, status, words, *arguments, **options):
        """Expects the exit status, and the words in what is printed; returns that."""
        found, output, errors = run(*arguments, **options)
        self.assertEqual(found, status, output + errors)
        self.assertIn(words, output + errors)
        return output + errors

    def make(self, name, tensors, steps=None):
        """A checkpoint of main weights {name: (dtype, values)}."""
        path = self.folder / name
        with create(path, steps) as file:
            for tensor, (dtype, values) in tensors.items():
                add(file, "main_weight", tensor, dtype, values)
        return path
