#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads the sources and reports what breaks the order of the rooms: who may include whom, and more.

usage: rooms.py SOURCE_TREE     prints one line per violation; exit status 1 when there is one
"""
import re
import sys
from pathlib import Path

# A room includes only rooms of a lower level; rooms of one level do not include each other.
LEVELS = {"base": 0, "layout": 1, "runtime": 2, "memory": 3, "comm": 4, "mesh": 5, "buffer": 6, "fsdp": 7, "ddp": 7,
          "optim": 7, "checkpoint": 7, "plan": 8}
MPI_FOLDERS = ("src/ostraka/comm/mpi/", "src/ostraka/comm/node/", "src/ostraka/comm/hierarchical/",
               "src/ostraka/mesh/", "src/ostraka/checkpoint/", "capi/")
CUDA_FOLDERS = ("src/ostraka/comm/nccl/",)
KOKKOS_FREE_ROOMS = ("base", "layout", "plan", "capi")
KOKKOS_HEADERS = ("src/ostraka/buffer/kokkos_view.hpp", "src/ostraka/runtime/kokkos_execution.hpp")
PURE_ROOMS = ("base", "layout", "plan")
F08_FILE = "fortran/ostraka_mpi_f08.f90"

MAX_LINES = 600
LINE_FOLDERS = ("src", "capi", "fortran", "tests", "tools")
SPDX_FOLDERS = LINE_FOLDERS + ("examples", "cmake", "benchmarks")
SPDX_LINES = 3
SOURCE_SUFFIXES = (".c", ".h", ".cpp", ".hpp", ".cu", ".cuh", ".f90", ".F90", ".inc", ".py", ".sh", ".cmake", ".in")

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.MULTILINE)
NAMESPACE = re.compile(r"\bnamespace\s+(ostraka(?:::\w+)*)\s*\{")
TIER = re.compile(r"target_sources\(\s*ostraka_(pure|file|mpi|device)\s+PRIVATE\s+([^)]*)\)")
FORTRAN_MPI = re.compile(r"^\s*(?:use\s*(?:,\s*\w+\s*::)?\s*(?:mpi|mpi_f08)\b|include\s*['\"]mpif\.h)",
                         re.IGNORECASE | re.MULTILINE)


def without_comments(text):
    text = re.sub(r'"(?:\\.|[^"\\\n])*"', '""', text)
    return re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.DOTALL)


def is_mpi(name):
    return name == "mpi.h"


def is_cuda(name):
    return bool(re.match(r"(nccl|cuda\w*|cub/.*|thrust/.*|nvtx3/.*)(\.h|\.hpp|\.cuh)?$", name))


def is_kokkos(name):
    return name.startswith("Kokkos")


class House:
    def __init__(self, root):
        self.root = Path(root).resolve()
        self.violations = []
        self.texts = {}
        for folder in ("src", "capi"):
            for path in sorted((self.root / folder).rglob("*")):
                if path.suffix in (".c", ".h", ".cpp", ".hpp", ".cu"):
                    self.texts[self.name(path)] = path.read_text()
        self.includes = {file: [(form, target) for form, target in INCLUDE.findall(text)]
                         for file, text in self.texts.items()}

    def name(self, path):
        return path.relative_to(self.root).as_posix()

    def report(self, file, what):
        self.violations.append(f"{file}: {what}")

    @staticmethod
    def room(file):
        if file.startswith("capi/"):
            return "capi"
        parts = file.split("/")
        return parts[2] if len(parts) > 3 else None

    def resolve(self, target):
        """The file of the tree behind <ostraka/...>, or None."""
        for folder in ("src", "capi/include"):
            if f"{folder}/{target}" in self.texts:
                return f"{folder}/{target}"
        return None

    def check(self):
        for file in self.texts:
            self.check_room(file)
            for form, target in self.includes[file]:
                self.check_include(file, form, target)
            self.check_namespaces(file)
            self.check_calls(file)
        self.check_reach()
        self.check_tiers()
        self.check_examples()
        self.check_fortran()
        self.check_files()
        return self.violations

    # --- includes

    def check_room(self, file):
        if self.room(file) != "capi" and self.room(file) not in LEVELS:
            self.report(file, "is in no room")

    def check_include(self, file, form, target):
        self.check_foreign(file, target)
        if form == '"':
            own = file.startswith("capi/src/") and f"capi/src/{target}" in self.texts
            if not own:
                self.report(file, f'includes "{target}"; expected the <ostraka/...> form')
            return
        if not target.startswith("ostraka/"):
            return
        found = self.resolve(target)
        if found is None:
            self.report(file, f"includes <{target}>, which does not exist")
            return
        self.check_edge(file, found)

    def check_edge(self, file, found):
        here, there = self.room(file), self.room(found)
        if here == there:
            return
        if there == "capi":
            self.report(file, f"room {here} includes {found} of the C interface")
        elif file.startswith("capi/include/"):
            self.report(file, f"a C header includes {found} of the C++ library")
        elif here != "capi" and LEVELS.get(there, 99) >= LEVELS.get(here, -1):
            self.report(file, f"room {here} includes {found}, which is not to its left")
        if "/impl/" in found:
            self.report(file, f"room {here} includes {found}, private to room {there}")

    def check_foreign(self, file, target):
        room = self.room(file)
        if is_mpi(target) and not file.startswith(MPI_FOLDERS):
            self.report(file, "includes mpi.h")
        runtime_cuda = room == "runtime" and "cuda" in Path(file).name
        if is_cuda(target) and not file.startswith(CUDA_FOLDERS) and not runtime_cuda:
            self.report(file, f"includes {target}; CUDA and NCCL belong in comm/nccl and runtime's CUDA file")
        if is_kokkos(target):
            if room in KOKKOS_FREE_ROOMS:
                self.report(file, f"room {room} includes {target}")
            elif self.is_public(file) and file not in KOKKOS_HEADERS:
                self.report(file, f"a public header includes {target}")
        if target == "ostraka/runtime/kokkos_execution.hpp" and self.is_public(file):
            self.report(file, "a public header includes kokkos_execution.hpp, which is for kernels")

    @staticmethod
    def is_public(file):
        return file.endswith((".h", ".hpp")) and "/impl/" not in file and not file.startswith("capi/src/")

    def reach(self, file):
        """All names that `file` includes, directly or through files of the tree."""
        names, todo = set(), [file]
        seen = set()
        while todo:
            current = todo.pop()
            if current in seen:
                continue
            seen.add(current)
            for form, target in self.includes[current]:
                names.add(target)
                found = self.resolve(target) or f"capi/src/{target}"
                if found in self.texts:
                    todo.append(found)
        return names

    def check_reach(self):
        for file in self.texts:
            names = self.reach(file)
            if self.room(file) in PURE_ROOMS and any(map(is_mpi, names)):
                self.report(file, "reaches mpi.h through what it includes")
            kokkos_user = not self.is_public(file) or file in KOKKOS_HEADERS
            if any(map(is_kokkos, names)) and (self.room(file) in KOKKOS_FREE_ROOMS or not kokkos_user):
                self.report(file, "reaches Kokkos through what it includes")

    # --- namespaces and calls

    def check_namespaces(self, file):
        text = without_comments(self.texts[file])
        room = self.room(file)
        if file.startswith("capi/include/"):
            if NAMESPACE.search(text):
                self.report(file, "a C header opens a namespace")
            return
        found = NAMESPACE.findall(text)
        for namespace in found:
            parts = namespace.split("::")
            inside = parts[1] if len(parts) > 1 else "base"
            right = inside == room or (room == "base" and inside not in LEVELS and inside != "capi")
            if not right:
                expected = "ostraka" if room == "base" else f"ostraka::{room}"
                self.report(file, f"opens namespace {namespace}; expected {expected}")
        code = re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", "", text, flags=re.MULTILINE).strip()
        if not found and code and room != "capi":
            self.report(file, f"opens no namespace; expected ostraka::{room}")

    def check_calls(self, file):
        text = without_comments(self.texts[file])
        if re.search(r"\bMPI_(Init|Init_thread|Finalize)\s*\(", text):
            self.report(file, "starts or stops MPI, which belongs to the application")
        if re.search(r"\bMPI_Wait\w*\s*\(", text):
            self.report(file, "waits inside MPI; runtime/progress has the one wait loop")
        if re.search(r'\bextern\s*""\s*\{', text) and self.room(file) != "capi":
            self.report(file, 'has extern "C", which belongs in capi')

    # --- the tiers of src/CMakeLists.txt

    def check_tiers(self):
        lists = self.root / "src/CMakeLists.txt"
        if not lists.exists():
            return
        tiers = {}
        for tier, sources in TIER.findall(lists.read_text()):
            for source in sources.split():
                tiers.setdefault(f"src/{source}", []).append(tier)
        for file in self.texts:
            if not file.startswith("src/") or not file.endswith(".cpp"):
                continue
            tier = tiers.get(file, [])
            if len(tier) != 1:
                self.report(file, f"is in {len(tier)} tiers of src/CMakeLists.txt, expected 1")
                continue
            names = self.reach(file)
            if any(map(is_kokkos, names)) and tier[0] != "device":
                self.report(file, f"needs Kokkos but is in tier {tier[0]}")
            if any(map(is_mpi, names)) and tier[0] == "pure":
                self.report(file, "needs MPI but is in tier pure")

    # --- other languages and all files

    def check_examples(self):
        for path in sorted((self.root / "examples").rglob("*")):
            if path.suffix not in (".c", ".cpp", ".h", ".hpp"):
                continue
            for form, target in INCLUDE.findall(path.read_text()):
                found = self.resolve(target) if target.startswith("ostraka/") else None
                if form == "<" and target.startswith("ostraka/") and (found is None or "/impl/" in found):
                    self.report(self.name(path), f"includes <{target}>, which is not installed")
                if form == '"' and not (path.parent / target).exists():
                    self.report(self.name(path), f'includes "{target}", which is not beside it')

    def check_fortran(self):
        for path in sorted((self.root / "fortran").rglob("*")):
            if path.suffix not in (".f90", ".F90", ".inc"):
                continue
            if FORTRAN_MPI.search(path.read_text()) and self.name(path) != F08_FILE:
                self.report(self.name(path), f"uses MPI's module, which only {F08_FILE} may")

    def check_files(self):
        for folder in SPDX_FOLDERS:
            for path in sorted((self.root / folder).rglob("*")):
                if not path.is_file() or "__pycache__" in path.parts:
                    continue
                is_source = path.suffix in SOURCE_SUFFIXES or path.name == "CMakeLists.txt"
                if not is_source:
                    continue
                lines = path.read_text().splitlines()
                if not any("SPDX-License-Identifier: Apache-2.0" in line for line in lines[:SPDX_LINES]):
                    self.report(self.name(path), "has no SPDX line at its top")
                if folder in LINE_FOLDERS and len(lines) > MAX_LINES:
                    self.report(self.name(path), f"has {len(lines)} lines, expected at most {MAX_LINES}")


def main():
    house = House(sys.argv[1])
    violations = house.check()
    print("\n".join(violations + [f"{len(house.texts)} files of src and capi, {len(violations)} violations"]))
    return 1 if violations or not house.texts else 0


if __name__ == "__main__":
    sys.exit(main())
