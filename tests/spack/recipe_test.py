#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The Spack recipe without Spack: its directives are recorded by a stub of Spack's package interface, and what it hands to
CMake is compared with the options of a real build.

usage: recipe_test.py SOURCE_TREE BUILD_TREE PYTHON_WITH_RUFF [unittest arguments]
"""
import itertools
import re
import subprocess
import sys
import unittest
from pathlib import Path

HERE, ROOT, BUILD, PYTHON = Path(__file__).resolve().parent, Path(sys.argv.pop(1)), Path(sys.argv.pop(1)), sys.argv.pop(1)
FOLDER = ROOT / "spack/spack_repo/ostraka"
RECIPE = FOLDER / "packages/ostraka/package.py"
sys.path[:0] = [str(HERE / "stub"), str(ROOT / "spack")]  # as Spack does: spack_repo is a namespace over several folders

from spack_repo.builtin.build_systems.cuda import CudaPackage  # noqa: E402
from spack_repo.ostraka.packages.ostraka.package import Ostraka  # noqa: E402

from spack import package as stub  # noqa: E402

NOT_OURS = {"Kokkos_ROOT"}  # what find_package reads
ON_OFF = ("fortran", "hdf5", "cuda", "nccl")


def directives(name):
    return [(args, kwargs) for kind, args, kwargs in stub.records if kind == name]


def words():
    """Every spec in a directive, and every condition."""
    for kind, args, kwargs in stub.records:
        if kind in ("depends_on", "conflicts", "requires"):
            yield args[0]
        yield kwargs.get("when", "")


def variants():
    return {args[0]: kwargs for args, kwargs in directives("variant")}


class Prefix:
    """What a spec or its prefix answers: a path below a made-up folder."""
    def __init__(self, path):
        self.path = path

    def __getattr__(self, name):
        return Prefix(f"{self.path}/{name}")

    def __str__(self):
        return self.path


class FakeSpec:
    def __init__(self, **values):
        self.known = variants()
        self.variants = {name: value for name, value in values.items() if name != "nccl" or values["cuda"]}

    def satisfies(self, text):
        return all(self.variants.get(name) is (sign == "+") for sign, name in re.findall(r"([+~])(\w+)", text))

    def __getitem__(self, name):
        return Prefix(f"/opt/{name}")


def matrix():
    for values in itertools.product((False, True), repeat=len(ON_OFF)):
        yield FakeSpec(**dict(zip(ON_OFF, values)))


def arguments(spec, run_tests=False):
    recipe = Ostraka(spec)
    recipe.run_tests = run_tests
    return dict(re.fullmatch(r"-D(\w+):\w+=(.*)", text).groups() for text in recipe.cmake_args() if text)


def cache():
    """The ON/OFF options of the build, by name."""
    text = (BUILD / "CMakeCache.txt").read_text()
    return set(re.findall(r"^(OSTRAKA_\w+):BOOL=", text, re.M))


class Directives(unittest.TestCase):
    def test_names(self):
        self.assertEqual(RECIPE.parent.name, Ostraka.__name__.lower())
        self.assertEqual(re.findall(r"^ +(\w+): (\S+)$", (FOLDER / "repo.yaml").read_text(), re.M),
                         [("namespace", FOLDER.name), ("api", "v2.2")])

    def test_text(self):
        self.assertTrue(Ostraka.__doc__ and Ostraka.homepage and Ostraka.git)
        self.assertEqual(directives("license"), [(("Apache-2.0",), {})])
        self.assertTrue(RECIPE.read_text().startswith("# Copyright Spack Project Developers."))

    def test_git_is_this_tree(self):
        self.assertEqual(Ostraka.git, ROOT.resolve().as_uri())

    def test_languages(self):
        builds = {args[0]: kwargs for args, kwargs in directives("depends_on") if kwargs.get("type") == "build"}
        self.assertNotIn("when", builds["c"])
        self.assertNotIn("when", builds["cxx"])
        self.assertEqual(builds["fortran"]["when"], "+fortran")

    def test_variants_of_the_project(self):
        self.assertLessEqual({"mpi", "fortran", "hdf5", "cuda", "nccl", "shared", "cuda_arch"}, set(variants()))
        for name, kwargs in variants().items():
            self.assertIn("default", kwargs, name)

    def test_conditions_name_variants(self):
        for text in words():
            own = re.sub(r"\^.*", "", text)
            if re.match(r"[a-z]", own) and not own.startswith("cuda_arch"):
                own = ""  # of another package
            for name in re.findall(r"[+~](\w+)", own):
                self.assertIn(name, variants(), text)

    def test_each_architecture_reaches_kokkos_and_nccl(self):
        needs = {(args[0], kwargs.get("when")) for args, kwargs in directives("depends_on")}
        for arch in CudaPackage.cuda_arch_values:
            self.assertIn((f"kokkos cuda_arch={arch}", f"+cuda cuda_arch={arch}"), needs)
            self.assertIn((f"nccl +cuda cuda_arch={arch}", f"+nccl cuda_arch={arch}"), needs)

    def test_what_kokkos_cannot_build_is_refused(self):
        refused = {args[0] for args, _ in directives("conflicts")}
        self.assertLessEqual({"~mpi", "~shared", "cuda_arch=none", "cuda_arch=90a", "cuda_arch=80,90"}, refused)
        for args, kwargs in directives("conflicts"):
            self.assertTrue(kwargs.get("msg"), args)

    def test_minimum_versions_are_those_of_cmake(self):
        needs = " ".join(args[0] for args, _ in directives("depends_on"))
        scripts = "".join(path.read_text() for path in [ROOT / "CMakeLists.txt", *(ROOT / "cmake").glob("*.cmake")])
        self.assertIn("cmake@" + re.search(r"VERSION (\d+\.\d+)", scripts)[1], needs)
        for package, spelled in (("Kokkos", "kokkos"), ("nlohmann_json", "nlohmann-json"), ("HDF5", "hdf5"), ("CLI11", "cli11")):
            for version in set(re.findall(rf"find_package\({package} ([\d.]+)", scripts)):
                self.assertIn(f"{spelled}@{version}:", needs)

    def test_versions(self):
        project = re.search(r'VERSION_STRING "([\d.]+)"', (ROOT / "src/ostraka/base/version.hpp").read_text())[1]
        numbered = [(args[0], kwargs) for args, kwargs in directives("version") if args[0] != "main"]
        for number, kwargs in numbered:
            self.assertRegex(kwargs["sha256"], "^[0-9a-f]{64}$")
        self.assertIn([number for number, _ in numbered][:1], ([], [project]))

    def test_smoke_tests_exist(self):
        Ostraka(FakeSpec(fortran=True, cuda=False)).keep_examples()
        self.assertEqual(Ostraka.keep_examples.after, "install")
        self.assertEqual(len(stub.cached), 3)
        for folder in stub.cached:
            text = (ROOT / folder / "CMakeLists.txt").read_text()
            program = Ostraka.examples[str(Path(folder).relative_to("examples"))]
            self.assertIn(f"add_executable({program} ", text)
        for name in ("test_c", "test_cpp", "test_fortran"):
            self.assertTrue(getattr(Ostraka, name).__doc__)
        with self.assertRaises(stub.SkipTest):
            Ostraka(FakeSpec(fortran=False, cuda=False)).test_fortran()


class Arguments(unittest.TestCase):
    def test_every_argument_is_an_option(self):
        for spec in matrix():
            self.assertLessEqual(set(arguments(spec)) - NOT_OURS, cache(), spec.variants)

    def test_every_option_is_an_argument(self):
        every = set().union(*(arguments(spec) for spec in matrix()))
        self.assertEqual({name for name in cache() if name.startswith("OSTRAKA_ENABLE_")} - every, set())

    def test_values(self):
        for spec in matrix():
            found = arguments(spec)
            for name in ON_OFF:
                expected = {True: "ON", False: "OFF"}[spec.variants[name]] if name in spec.variants else None
                self.assertEqual(found.get(f"OSTRAKA_ENABLE_{name.upper()}"), expected, spec.variants)
            self.assertEqual(found["Kokkos_ROOT"], "/opt/kokkos/prefix")
            self.assertEqual(found["OSTRAKA_BUILD_TESTS"], "OFF")
        self.assertEqual(arguments(spec, run_tests=True)["OSTRAKA_BUILD_TESTS"], "ON")


class Lint(unittest.TestCase):
    def test_compiles(self):
        compile(RECIPE.read_text(), str(RECIPE), "exec")
        self.assertLessEqual(max(map(len, RECIPE.read_text().splitlines())), 99)

    def test_ruff(self):
        for rules in (["format", "--diff", "--line-length", "99"],
                      ["check", "--select", "E,F,I,W", "--ignore", "E731,F403,F405,F811", "--line-length", "99", "--config",
                       "lint.isort.sections={spack=['spack']}", "--config",
                       "lint.isort.section-order=['future','standard-library','third-party','first-party','spack']"]):
            done = subprocess.run([PYTHON, "-m", "ruff", *rules, "--isolated", "--no-cache", str(RECIPE)], capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
