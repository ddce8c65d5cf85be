#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compiles each public header alone, included twice: every header brings what it needs and bears repetition.

usage: headers.py c|c-as-cpp|cpp|kokkos SOURCE_TREE FOLDERS COMPILER [COMPILER ARGUMENTS]
  c, c-as-cpp   the headers of capi/include, as C11 and as C++20
  cpp           those of src/ostraka without impl/ and without Kokkos
  kokkos        those that need Kokkos
FOLDERS of MPI's and Kokkos' headers are separated by colons.
"""
import subprocess
import sys
import tempfile
from pathlib import Path

KOKKOS_HEADERS = ("ostraka/buffer/kokkos_view.hpp", "ostraka/runtime/kokkos_execution.hpp")
FLAGS = ["-fsyntax-only", "-Wall", "-Wextra", "-Werror"]


def headers(kind, root):
    if kind.startswith("c-as") or kind == "c":
        return sorted(path.relative_to(root / "capi/include").as_posix()
                      for path in (root / "capi/include").rglob("*.h"))
    found = sorted(path.relative_to(root / "src").as_posix() for path in (root / "src/ostraka").rglob("*.hpp")
                   if "impl" not in path.parts)
    return [name for name in found if (name in KOKKOS_HEADERS) == (kind == "kokkos")]


def main():
    kind, root = sys.argv[1], Path(sys.argv[2])
    command = [word for word in sys.argv[4:] if word] + FLAGS
    command += ["-std=c11", "-Wpedantic"] if kind == "c" else ["-std=c++20"]
    command += ["-I" + str(root / folder) for folder in ("src", "capi/include")]
    # The compiler's own folder must keep its place in the order.
    command += ["-isystem" + folder for folder in sys.argv[3].split(":") if folder not in ("", "/usr/include")]
    names = headers(kind, root)
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "alone.c" if kind == "c" else "alone.cpp")
        for name in names:
            source.write_text(f"#include <{name}>\n#include <{name}>\nint main(void) {{ return 0; }}\n")
            result = subprocess.run(command + [str(source)], capture_output=True, text=True)
            if result.returncode != 0:
                failed += 1
                print(f"{name} does not compile alone:\n{result.stderr}")
    print(f"{len(names)} headers, {failed} do not compile alone")
    return 1 if failed or not names else 0


if __name__ == "__main__":
    sys.exit(main())
