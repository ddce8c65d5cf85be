# SPDX-License-Identifier: Apache-2.0
"""ostraka-checkpoint on files larger than the memory that it may take, with a bar on a terminal."""
import os
import resource
import signal
import subprocess
import time
import unittest

import h5py
import numpy as np

from support import TOOL, ToolTest, create, shown_on_terminal, zeros_crc

SIZE = 400 << 20
MEMORY = 200 << 20


def limit_memory():
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def write_zeros(path, last=0):
    """A sparse file with one tensor of zeros, as a library with early allocation makes it."""
    properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    properties.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    properties.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
    with create(path, steps=3) as file:
        h5py.h5d.create(file["main_weight"].id, b"w", h5py.h5t.IEEE_F64LE, h5py.h5s.create_simple((SIZE // 8,)), properties)
        file["main_weight/w"].attrs.update({"name": np.bytes_("w"), "dtype": np.bytes_("f64"),
                                            "crc32c": np.uint32(zeros_crc(SIZE))})


class Large(ToolTest):
    def test_all_commands(self):
        out, back = self.folder / "out.safetensors", self.folder / "back.h5"
        write_zeros(self.file)
        limit = {"preexec_fn": limit_memory}
        self.assertIn("400.0 MiB", self.succeed("list", self.file, **limit))
        self.assertIn("whole", self.succeed("verify", self.file, **limit))
        self.succeed("export", self.file, out, **limit)
        self.assertGreater(out.stat().st_size, SIZE)
        self.succeed("import", out, back, **limit)
        self.assertIn("equal: 1 names", self.succeed("diff", self.file, back, **limit))

    def test_interrupted(self):
        write_zeros(self.file)
        for sent in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            process = subprocess.Popen([TOOL, "export", self.file, self.folder / "out.safetensors"])
            while not any("partial" in name for name in os.listdir(self.folder)):
                time.sleep(0.001)
            process.send_signal(sent)
            self.assertEqual(process.wait(), -sent)
            self.assertEqual(os.listdir(self.folder), ["run.h5"])

    def test_progress(self):
        write_zeros(self.file)
        out = self.folder / "out.safetensors"
        status, shown = shown_on_terminal([TOOL, "export", self.file, out])
        self.assertEqual(status, 0)
        self.assertRegex(shown, rb"\rexport \[#+ *\] +\d+ %  [\d.]+ [KMG]iB of 400.0 MiB, [\d.]+ [KMG]iB/s")
        self.assertTrue(shown.endswith(b"\r\033[K"), shown[-100:])


unittest.main()
