#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A newcomer's path: what README says under "Build and use", in its order, in a clean copy of the tree; nothing else.

usage: newcomer_test.py SOURCE_TREE WORK_FOLDER

It builds the whole library, so it runs with OSTRAKA_TEST_FULL=1 only (scripts/test --full); without, it looks at what it
would run, and the exit status is 77.
"""
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT, WORK = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
LAUNCH = ["mpiexec", "--oversubscribe", "--allow-run-as-root", "-n", "2"]  # as README says for Open MPI, as root


def blocks(readme):
    """The indented blocks of the section, each a list of lines without comments."""
    section = re.search(r"^## Build and use\n(.*?)^## ", readme, re.S | re.M)[1]
    found = re.findall(r"(?:^    .*\n)+", section, re.M)
    return [[re.sub(r"\s{2,}#.*", "", line.strip()) for line in block.splitlines()] for block in found]


def pick(all_blocks, word):
    """The one block that has the word."""
    found = [block for block in all_blocks if any(word in line for line in block)]
    if len(found) != 1:
        sys.exit(f"README: expected one block with '{word}' in \"Build and use\", found {len(found)}")
    return found[0]


def run(command, folder, **variables):
    print(f"{folder.name}$ {command}", flush=True)
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("Kokkos", "Ostraka", "CMAKE_PREFIX"))}
    done = subprocess.run(["bash", "-euc", command], cwd=folder, env=environment | variables, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}\nexit status {done.returncode}")
    return done.stdout


def clean_copy():
    """The tracked files only."""
    shutil.rmtree(WORK, ignore_errors=True)
    names = subprocess.run(["git", "-C", ROOT, "ls-files"], check=True, capture_output=True, text=True).stdout.splitlines()
    for name in names:
        target = WORK / "ostraka" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, target)
    return WORK / "ostraka"


def main():
    found = blocks((ROOT / "README.md").read_text())
    build, cmake, make = (pick(found, word) for word in ("scripts/setup", "find_package", "mpifort"))
    if os.environ.get("OSTRAKA_TEST_FULL") != "1" or not (ROOT / ".git").exists():
        print("not run:", *build, *cmake, *make, sep="\n  ")
        return 77
    tree, prefix, mine = clean_copy(), WORK / "prefix", WORK / "mine"
    mine.mkdir()
    kokkos = "FOLDER"
    for line in build:
        said = run(line.replace("FOLDER", kokkos).replace("DIR", str(prefix)), tree)
        kokkos = (re.findall(r"Kokkos \(host\): .*\bin (\S+)$", said, re.M) or [kokkos])[-1]

    shutil.copy(tree / "examples/fortran/first_step/first_step.f90", mine / "mine.f90")
    (mine / "CMakeLists.txt").write_text("\n".join(
        ["cmake_minimum_required(VERSION 3.25)", "project(mine LANGUAGES C Fortran)", "find_package(MPI REQUIRED COMPONENTS Fortran)",
         cmake[0], "add_executable(mine mine.f90)", *cmake[1:], "target_link_libraries(mine PRIVATE MPI::MPI_Fortran)", ""]))
    run(f"cmake -S . -B build -DCMAKE_PREFIX_PATH={prefix} && cmake --build build", mine)
    run("\n".join(make).replace("DIR", str(prefix)), mine)
    for program in (mine / "build/mine", mine / "mine"):
        said = run(" ".join([*LAUNCH, str(program)]), mine)
        if "loss after: 1.096663" not in said:
            sys.exit(f"{program}: {said}")
    shutil.rmtree(WORK)
    print("README's path works")
    return 0


sys.exit(main())
