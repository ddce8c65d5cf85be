# SPDX-License-Identifier: Apache-2.0
"""What ostraka-plan says of files and command lines that are wrong: the place, what was expected, what was found."""
import json
import os
import random
import resource
import subprocess
import unittest

from support import MODELS, TOOL, ToolTest, run

TENSORS = [["w", [4, 4]]]


def unit(**changes):
    return {"unit": "u", "count": 1, "tensors": TENSORS} | changes


def units(*list_of_units):
    return {"units": list(list_of_units)}


class ModelFiles(ToolTest):
    def expect(self, content, *words):
        path = self.model(content)
        text = self.refuse(list(words), path, "--ranks", "2")
        self.assertTrue(text.startswith(f"ostraka-plan: {path}: "), text)
        self.assertEqual(len(text.splitlines()), 1, text)

    def test_no_json(self):
        self.expect('{"units": [\n  {"unit": "u",}\n]}', "line 2, column 16", "syntax error")
        self.expect("", "line 1", "unexpected end of input")
        self.expect('{"units": [', "unexpected end of input")
        self.expect('{"units": 1} x', "line 1", "expected end of input")
        self.expect('{"units": "a\x1b[2J"}', "line 1", "control character")
        self.expect('{"units": NaN}', "line 1", "invalid literal")
        self.expect('{"units": 1e999}', "model.json: number overflow parsing '1e999'")
        path = self.folder / "bytes.json"
        path.write_bytes(b'{"units": "\xff"}')
        self.refuse(["line 1", "UTF-8"], path, "--ranks", "2")

    def test_members(self):
        self.expect([], "expected an object {...}, found a list of 0")
        self.expect({}, "expected a member 'units', found none")
        self.expect({"units": {}}, "units: expected a list [...], found an object")
        self.expect({"units": []}, "units: expected at least one unit")
        self.expect(units(7), "units[0]: expected an object {...}, found 7")
        self.expect(units({"tensors": TENSORS}), "units[0]: expected a member 'unit', found none")
        self.expect(units({"unit": "u"}), "units[0]: expected a member 'tensors', found none")
        self.expect(units(unit(unit="")), "units[0].unit: expected text", 'found ""')
        self.expect(units(unit(unit="a\nb")), "units[0].unit: expected text without control characters")
        self.expect(units(unit(unit=3)), "units[0].unit: expected text in quotes, found 3")
        self.expect(units(unit(), unit(unit="v", tensors=[["w", [4]], ["b", [2]], ["w", [4]]])),
                    "units[1].tensors[2]: expected names that differ, found tensor 'w' of unit 'v' twice")
        self.expect(units(unit(), unit()), "units[1].tensors[0]: expected names that differ, found tensor 'w' of unit 'u' twice")
        self.expect('{"units": [], "units": []}', "key 'units' comes twice")
        self.expect({"model": 1} | units(unit()), "model: expected text in quotes, found 1")
        self.expect({"parameters": "many"} | units(unit()), "parameters: expected a whole number", 'found "many"')

    def test_numbers(self):
        for count in (0, -1, 1.5, "3", 10**30, True, None):
            self.expect(units(unit(count=count)), "units[0].count: expected a whole number from 1 to 100000, found ")
        for extent in (-1, 1.5, "3", 2**63, True):
            self.expect(units(unit(tensors=[["w", [3, extent]]])),
                        "units[0].tensors[0][1][1]: expected a whole number from 0 to 2^63 - 1, found " + json.dumps(extent))
        self.expect(units(unit(tensors=[["w", [2**40, 2**40]]])), "units[0].tensors[0][1]: expected at most 2^56 elements, found [1099511627776, 1099511627776]")
        self.expect(units(unit(tensors=[["w", [2**30, 2**27, 0]]])), "units[0].tensors[0][1]: expected at most 2^56 elements")
        self.expect(units(unit(count=100000, tensors=[["w", [2**40]]])), "units[0]: expected at most 2^56 elements in all, found more")
        self.expect(units(*[unit(unit=f"u{i}", tensors=[["w", [2**55]]]) for i in range(3)]), "units[2]: expected at most 2^56 elements in all")
        self.expect(units(unit(count=60000), unit(unit="v", count=60000)), "units[1]: expected at most 100000 modules in all, found more")
        self.expect(units(unit(tensors=[["w", [1] * 33]])), "units[0].tensors[0][1]: expected at most 32 extents, found a list of 33")
        self.expect(units(unit(tensors=[[f"t{i}", [1]] for i in range(10001)])), "units[0].tensors: expected at most 10000, found a list of 10001")
        self.expect(units(unit(tensors=[["w", [0]]])), "units: expected tensors with elements, found none")
        for seconds in (-1, "1", None):
            self.expect(units(unit(forward_s=seconds)), "units[0].forward_s: expected a number that is not negative, found ")

    def test_tensors(self):
        for tensor in (["w"], ["w", [1], 2], "w", {}):
            self.expect(units(unit(tensors=[tensor])), "units[0].tensors[0]: expected a list [")
        self.expect(units(unit(tensors=[[3, [1]]])), "units[0].tensors[0][0]: expected text in quotes, found 3")
        self.expect(units(unit(tensors=[["w", 3]])), "units[0].tensors[0][1]: expected a list [...], found 3")

    def test_kinds_and_parents(self):
        self.expect(units(unit(dtype="f16")), "units[0].dtype: expected f64, f32 or bf16, found 'f16'")
        self.expect(units(unit(trainable=1)), "units[0].trainable: expected true or false, found 1")
        self.expect(units(unit(parent="v"), unit(unit="v")), "units[0].parent: expected the name of an earlier unit, found 'v'")
        self.expect(units(unit(parent="u")), "units[0].parent: expected the name of an earlier unit, found the unit itself")
        self.expect(units(unit(count=2), unit(unit="v", parent="u")), "units[1].parent: expected a unit of count 1, found 'u' of count 2")

    def test_warnings(self):
        path = self.model({"colour": 1, "parameters": 17} | units(unit(typ="f32")))
        status, output, errors = run(path, "--ranks", "2", "--recipe", "zero_3")
        self.assertEqual(status, 0)
        self.assertEqual(errors.splitlines(), [
            f"ostraka-plan: warning: {path}: unknown member 'colour' is ignored",
            f"ostraka-plan: warning: {path}: units[0]: unknown member 'typ' is ignored",
            f"ostraka-plan: warning: {path}: parameters: expected 16, which the tensors have, found 17"])

    def test_hostile(self):
        self.expect("[" * 100000, "expected at most 16 levels of brackets, found more")
        self.expect('{"a":' * 100000, "expected at most 16 levels of brackets, found more")
        path = self.folder / "large.json"
        path.touch()
        os.truncate(path, 65 << 20)
        self.refuse("expected at most 64.0 MiB of JSON, found 65.0 MiB", path, "--ranks", "2")
        self.refuse("cannot open: No such file", self.folder / "none.json", "--ranks", "2")
        self.refuse("expected a regular file", self.folder, "--ranks", "2")
        os.mkfifo(self.folder / "pipe")
        self.refuse("expected a regular file", self.folder / "pipe", "--ranks", "2", timeout=20)
        text = self.refuse("unit '\\x1b", self.layers(), "--ranks", "2", "--memory", "1", "--largest", "--largest-unit", "\x1b[2J")
        self.assertNotIn("\x1b", text)

    def test_many_tensors(self):
        """A file of some MiB is read in little memory and time."""
        content = units(*[unit(unit=f"u{k}", tensors=[[f"t{i}", [i % 7, 3]] for i in range(100)]) for k in range(1000)])
        limit = 1 << 30
        found = self.json(self.model(content), "--ranks", "2", "--recipe", "zero_3",
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)))
        self.assertEqual(found["model"]["parameters"], 1000 * sum(3 * (i % 7) for i in range(100)))


class Damaged(ToolTest):
    def test_any_change_of_a_file(self):
        """Is read or refused, never more: no crash, no line that is not ours, nothing that moves a cursor."""
        full = os.environ.get("OSTRAKA_TEST_FULL") == "1"
        seeds = [1, 2, random.randrange(10**9)] if not full else [*range(20), random.randrange(10**9)]
        for seed in seeds:
            for name in ("llama-3-8b", "resnet50"):
                self.damage(seed, (MODELS / f"{name}.json").read_bytes())

    def damage(self, seed, data):
        chance = random.Random(seed)
        pieces = [b"-", b"[", b"]", b"{", b"}", b",", b"0", b"9", b"e9", b'"', b"\\u0000", b"\x1b", b"null", b"\xff", b"99999999999"]
        for _ in range(12):
            text = bytearray(data)
            for _ in range(chance.randint(1, 3)):
                where = chance.randrange(len(text))
                text[where:where + chance.choice((0, 1, 1, 5, len(text)))] = chance.choice(pieces)
            path = self.folder / "damaged.json"
            path.write_bytes(text)
            status, _, errors = run(path, "--ranks", "4", "--recipe", "zero_3", timeout=60)
            self.assertIn(status, (0, 2), (seed, bytes(text), errors))
            self.assertTrue(all(line.startswith("ostraka-plan: ") for line in errors.splitlines()), (seed, errors))
            self.assertNotIn("\x1b", errors)


class MachineFiles(ToolTest):
    def expect(self, content, *words):
        machine = self.model(content, "machine.json")
        text = self.refuse(list(words), self.layers(), "--ranks", "2", "--machine", machine)
        self.assertTrue(text.startswith(f"ostraka-plan: {machine}: "), text)

    def test_refused(self):
        self.expect("[1", "line 1")
        self.expect([], "expected an object")
        self.expect({"network": 3}, "network: expected an object {...}, found 3")
        self.expect({"network": {"latency_s": -1}}, "network.latency_s: expected a number that is not negative, found -1")
        self.expect({"node": {"bandwidth": 0}}, "node.bandwidth: expected more than 0 bytes per second, found 0")
        self.expect({"node": {"bandwidth": "fast"}}, "node.bandwidth: expected bytes like", "found 'fast'")
        self.expect({"memory_bandwidth": "0 GB/s"}, "memory_bandwidth: expected more than 0")
        self.expect({"overlap": 1.5}, "overlap: expected a share from 0 to 1, found 1.5")
        self.expect({"network": {"measured": {}}}, "network.measured: expected a member 'ranks', found none")
        for pairs, words in (([[1, 2, 3]], "allreduce[0]: expected [bytes, seconds], found a list of 3"), ([[0, 1]], "allreduce[0][0]: expected a whole"),
                             ([[8, 1], [8, 2]], "allreduce[1][0]: expected a whole number from 9"), ([[8, 0]], "allreduce[0][1]: expected more than 0 seconds")):
            self.expect({"network": {"measured": {"ranks": 2, "allreduce": pairs}}}, "network.measured." + words)
        self.expect({"flops": 0}, "flops: expected more than 0 operations per second, found 0")
        self.expect({"units": {"layer": {"forward_s": 1}}}, "units.layer: expected a member 'backward_s', found none")
        self.expect({"units": {"layer": 3}}, "units.layer: expected an object")

    def test_warnings(self):
        machine = self.model({"axes": {"gpu": {"bandwidth": "1 GB/s", "speed": 1}, "rack": {}}, "units": {"lair": {}}}, "machine.json")
        status, _, errors = run(self.layers(), "--mesh", "gpu=2", "--machine", machine, "--recipe", "zero_3")
        self.assertEqual(status, 0)
        for words in ("axes.gpu: unknown member 'speed'", "axes: the mesh has no axis 'rack'", "units: the model has no unit 'lair'"):
            self.assertIn(words, errors)
        # Told once, not per number of ranks.
        _, _, errors = run(self.layers(), "--mesh", "gpu=*", "--ranks", "2..8", "--machine", machine, "--recipe", "zero_3")
        self.assertEqual(errors.count("rack"), 1)


class CommandLines(ToolTest):
    def expect(self, words, *arguments):
        return self.refuse(words, self.layers(), *arguments)

    def test_mesh(self):
        self.expect("expected --mesh NAME=SIZE,... or --ranks N, found neither")
        for text in ("8", "node", "=8", "no de=8", "node=8,", ","):
            self.expect(f"--mesh: expected NAME=SIZE,NAME=SIZE,..., found '{text}'", "--mesh", text)
        for size in ("0", "-1", "x", "", "1.5", "99999999999999999999"):
            self.expect(f"--mesh: size of axis 'a': expected a whole number from 1 to 1048576, found '{size}'", "--mesh", f"a={size}")
        self.expect("expected names that differ, found 'a' twice", "--mesh", "a=2,a=2")
        self.expect("expected one axis of size *, found two", "--mesh", "a=*,b=*", "--ranks", "4")
        self.expect("* needs --ranks", "--mesh", "a=*")
        self.expect("expected at most 4 axes, found 5", "--mesh", "a=1,b=1,c=1,d=1,e=1")
        self.expect("expected at most 1048576 ranks, found more", "--mesh", "a=1048576,b=1048576")

    def test_ranks(self):
        for text in ("0", "x", "4..2", "4..", "2,2", "4,2", "-3", "", " "):
            if text:
                self.expect("--ranks: expected a whole number from", "--ranks", text)
        self.expect("--ranks: expected multiples of 8, the ranks of the other axes of --mesh node=*,gpu=8, found 12",
                    "--mesh", "node=*,gpu=8", "--ranks", "8,12")
        self.expect("expected at most 64 numbers, found 65", "--ranks", ",".join(map(str, range(1, 66))))
        self.expect("--ranks-per-node: expected a whole number from 1", "--ranks", "2", "--ranks-per-node", "0")

    def test_names(self):
        for option, expected in (("--backend", "node, mpi or nccl"), ("--recipe", "all, no_shard, zero_1"), ("--optimizer", "none, sgd, sgd_momentum, adamw"),
                                 ("--storage", "f64, f32 or bf16"), ("--main", "f64, f32 or bf16"), ("--compute", "f64, f32 or bf16"),
                                 ("--reduction", "f64, f32 or bf16")):
            self.expect([f"{option}: expected", expected, "found 'x\\x1by'"], "--ranks", "2", option, "x\x1by")

    def test_sizes(self):
        for option in ("--memory", "--node-memory", "--slot-bytes", "--cache"):
            for text in ("x", "80XB", "GiB", "-1GiB", "9EiB", "nan", "1 GiB x"):
                self.expect(f"{option}: expected bytes like 80GiB, 80GB or 4096, found '{text}'", "--ranks", "2", f"{option}={text}")

    def test_sizes_mean_what_they_say(self):
        for text, value in (("80GiB", 80 << 30), ("80GB", 80 * 10**9), ("1.5 TiB", 3 << 39), ("4096", 4096), ("7 B", 7), ("2kB", 2000),
                            ("2KB", 2000), ("2KiB", 2048), ("3MB", 3 * 10**6), ("1MiB", 1 << 20), ("1PB", 10**15), ("1EiB", 1 << 60)):
            found = self.json(MODELS / "resnet50.json", "--ranks", "2", "--recipe", "zero_3", "--memory", text,
                              status=0 if value > 10**9 else 1)
            self.assertEqual(found["request"]["limit_rank_bytes"], value, text)

    def test_placements(self):
        self.expect("--placements: expected 2 letters, one per axis, found 'S'", "--mesh", "a=2,b=2", "--placements", "parameter=S,gradient=S,optimizer=S")
        self.expect("--placements: expected letters R, S and P, found 'X'", "--ranks", "2", "--placements", "parameter=X,gradient=S,optimizer=S")
        self.expect("--placements: expected gradient=LETTERS, found none", "--ranks", "2", "--placements", "parameter=S,optimizer=S")
        self.expect("--placements: expected parameter=", "--ranks", "2", "--placements", "weights=S")
        self.expect("--placements: expected parameter=", "--ranks", "2", "--placements", "parameter=S,parameter=S")
        # What the library itself refuses names its rule.
        self.expect("ostraka-plan: ", "--mesh", "a=2,b=2", "--placements", "parameter=SR,gradient=SS,optimizer=SS")

    def test_recipes_that_the_mesh_does_not_allow(self):
        text = self.expect("expected a recipe that this mesh allows, found none:", "--ranks", "4", "--recipe", "hsdp,hfsdp")
        self.assertIn("hsdp: ", text)
        self.assertIn("hfsdp: ", text)

    def test_questions(self):
        self.expect("--largest: expected --memory or --node-memory", "--ranks", "2", "--largest")
        self.expect("has no unit 'none'", "--ranks", "2", "--largest", "--memory", "1GB", "--largest-unit", "none")
        nested = self.model(units(unit(), unit(unit="v", parent="u")))
        self.refuse("unit 'u' is around others and cannot be repeated", nested, "--ranks", "2", "--largest", "--memory", "1GB", "--largest-unit", "u")

    def test_parser(self):
        for arguments in ([], ["--what"], ["a", "b"], ["a", "--ranks"], ["a", "--micro-batches", "0"], ["a", "--slots", "0"],
                          ["a", "--prefetch", "-1"], ["a", "--samples", "0"], ["a", "--micro-batches", "x"]):
            status, _, errors = run(*arguments)
            self.assertEqual(status, 2, arguments)
            self.assertNotEqual(errors, "")

    def test_help_and_version(self):
        output = self.succeed("--help")
        for words in ("EXIT STATUS", "EXAMPLES", "SIZES", "--mesh", "--html", "zero_1_zero_2"):
            self.assertIn(words, output)
        self.assertRegex(self.succeed("--version"), r"^ostraka-plan \d+\.\d+\.\d+ \(JSON 1\)\n$")


class Places(ToolTest):
    def test_files_that_exist(self):
        page = self.folder / "page.html"
        page.write_text("mine")
        for option in ("--html", "--svg"):
            self.refuse("exists; --force replaces it", self.layers(), "--ranks", "2", option, page)
            self.assertEqual(page.read_text(), "mine")
        # Before anything else is looked at.
        self.refuse("exists; --force replaces it", self.folder / "none.json", "--ranks", "2", "--html", page)
        self.succeed(self.layers(), "--ranks", "2", "--html", page, "--force")
        self.assertIn("<!doctype html>", page.read_text())
        self.refuse("is no regular file", self.layers(), "--ranks", "2", "--svg", self.folder, "--force")
        self.refuse("cannot create a file beside it", self.layers(), "--ranks", "2", "--svg", self.folder / "none/a.svg")
        self.refuse("expected two files", self.layers(), "--ranks", "2", "--svg", page, "--html", page, "--force")

    def test_nothing_is_left_of_a_failure(self):
        before = {self.layers(), self.model("{", "bad.json")}
        self.refuse("line 1", self.folder / "bad.json", "--ranks", "2", "--html", self.folder / "a.html", "--svg", self.folder / "a.svg")
        self.assertEqual(set(self.folder.iterdir()), before)

    def test_standard_output_that_takes_nothing(self):
        with open("/dev/full", "w") as full:
            result = subprocess.run([TOOL, self.layers(), "--ranks", "2"], stdout=full, stderr=subprocess.PIPE, text=True)
        self.assertEqual(result.returncode, 2)
        self.assertIn("standard output: No space left", result.stderr)


unittest.main()
