# SPDX-License-Identifier: Apache-2.0
"""ostraka-checkpoint verify: damage of every kind is found and named."""
import json
import os
import random
import unittest

import numpy as np
from safetensors.numpy import save_file

from support import ToolTest, add, crc32c, create, run, sample, zeros_crc


class Verify(ToolTest):
    def tensors(self):
        return json.loads(self.succeed("list", "--json", self.file))["tensors"]

    def flip(self, position, bit=1):
        with open(self.file, "r+b") as file:
            file.seek(position)
            byte = file.read(1)[0] ^ bit
            file.seek(position)
            file.write(bytes([byte]))
        return byte

    def test_whole(self):
        sample(self.file)
        self.assertIn("whole: 17 tensors", self.succeed("verify", self.file))

    def test_first_middle_and_last_byte_of_each_tensor(self):
        sample(self.file)
        for tensor in self.tensors():
            path, offset, size = f"{tensor['group']}/{tensor['name']}", tensor["offset"], tensor["bytes"]
            for position in {0, size // 2, size - 1} if size else ():
                self.flip(offset + position, 0x10)
                found = f"0x{crc32c(self.file.read_bytes()[offset:offset + size]):08x}"
                words = f"{path}: CRC-32C: expected {tensor['crc32c']}, found {found}"
                output = self.refuse(1, words, "verify", self.file)
                self.assertEqual(output.count("CRC-32C"), 1, output)
                self.assertIn("damaged: 1 of 17 tensors", output)
                self.flip(offset + position, 0x10)
        self.succeed("verify", self.file)

    def test_all_damaged_tensors_are_named(self):
        sample(self.file)
        damaged = [tensor for tensor in self.tensors() if tensor["bytes"] > 0][::2]
        for tensor in damaged:
            self.flip(tensor["offset"])
        output = self.refuse(1, f"damaged: {len(damaged)} of 17", "verify", self.file)
        for tensor in damaged:
            self.assertIn(f"{tensor['group']}/{tensor['name']}: CRC-32C", output)
        undamaged = next(t["name"] for t in self.tensors() if t["bytes"] > 0 and t not in damaged)
        self.succeed("verify", "--only", undamaged, self.file)

    def test_several_blocks(self):
        # The sum continues over the blocks that the tool reads; here the stored one is that of other bytes.
        zeros = np.zeros(9 << 20, "u1")
        with create(self.file) as file:
            dataset = file["main_weight"].create_dataset("w", data=zeros)
            dataset.attrs.update({"name": np.bytes_("w"), "dtype": np.bytes_("u8"), "crc32c": np.uint32(1)})
        self.refuse(1, f"expected 0x00000001, found 0x{zeros_crc(zeros.size):08x}", "verify", self.file)

    def test_truncated(self):
        sample(self.file)
        whole = self.file.read_bytes()
        for size in (0, 1, 100, len(whole) // 3, len(whole) // 2, len(whole) - 1):
            os.truncate(self.file, size)
            self.refuse(1, "run.h5", "verify", self.file)
            self.file.write_bytes(whole)

    def test_no_owner_of_a_tied_name(self):
        with create(self.file) as file:
            add(file, "main_weight", "w", "f64", np.ones(3)).attrs["name"] = np.bytes_("v")
        self.refuse(1, "main_weight/w", "verify", self.file)

    def test_damaged_tables(self):
        """Of a file with checksums in its tables, as the library writes them: found, or without effect."""
        save_file({f"layer{i}.weight": np.full((2, 3), i) for i in range(20)}, self.folder / "in.safetensors")
        self.succeed("import", "--steps", 7, self.folder / "in.safetensors", self.file)
        whole, before = self.file.read_bytes(), self.succeed("list", "--json", self.file)
        seed = random.randrange(2**32)
        chance = random.Random(seed)
        used = [position for position, byte in enumerate(whole) if byte]
        for _ in range(150 if os.environ.get("OSTRAKA_TEST_FULL") != "1" else 3000):
            position, bit = chance.choice(used), 1 << chance.randrange(8)
            self.flip(position, bit)
            status, output, errors = run("verify", self.file)
            where = f"seed {seed}, byte {position}, bit {bit}: {output}{errors}"
            self.assertIn(status, (0, 1), where)
            if status == 0:
                self.assertEqual(self.succeed("list", "--json", self.file), before, where)
            self.flip(position, bit)


unittest.main()
