#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tests/capi/abi.c pins every constant, struct size and member offset of the C headers; and it does not compile against
headers in which one of them was changed.

usage: abi_pins.py SOURCE_TREE C_COMPILER INCLUDE_FOLDERS (with : between them)
"""
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from operations import without_comments


def constants(headers):
    text = re.sub(r"/\*.*?\*/", "", headers, flags=re.S)
    return dict(re.findall(r"^#define (OSTRAKA_\w+) (\d+)\b", text, re.M))


def structs(headers):
    """The members of each struct, in order."""
    found = re.findall(r"typedef struct \w*\s*\{(.*?)\}\s*(\w+);", without_comments(headers), re.S)
    return {name: re.findall(r"(\w+)(?:\[\d+\])?\s*;", body) for body, name in found}


def not_pinned(headers, pins):
    for name, number in constants(headers).items():
        if not re.search(rf"\b{name} == {number}\b", pins):
            yield f"{name} {number} is not pinned"
    for name, members in structs(headers).items():
        if not re.search(rf"sizeof\({name}\) == \d+", pins):
            yield f"the size of {name} is not pinned"
        for member in members[1:]:  # the first is at 0
            if member != "reserved" and not re.search(rf"offsetof\({name}, {member}\) == \d+", pins):
                yield f"the place of {name}.{member} is not pinned"


def breaks(headers):
    """(what, header, text, replacement) of deliberate breaks, one of each kind per constant or struct."""
    for path, text in headers.items():
        for name, number in constants(text).items():
            yield f"{name} becomes {int(number) + 1}", path, f"#define {name} {number}", f"#define {name} {int(number) + 1}"
        for body, name in re.findall(r"typedef struct \w*\s*(\{.*?\}\s*\w+;)()", text, re.S):
            name = re.search(r"(\w+);$", body)[1]
            yield f"{name} grows", path, body, re.sub(r"\}(\s*\w+;)$", r"  int64_t added;\n}\1", body)
            lines = [line for line in re.sub(r"/\*.*?\*/", "", body, flags=re.S).split("\n") if line.strip().endswith(";")][:-1]
            if len(lines) > 1:
                yield f"{name} is in another order", path, body, "{\n" + "\n".join(lines[::-1]) + "\n} " + name + ";"


def compiles(compiler, folders, source, headers):
    command = [compiler, "-std=c11", "-fsyntax-only", f"-I{headers}", *(f"-I{folder}" for folder in folders), str(source)]
    return subprocess.run(command, capture_output=True, text=True)


def planted(compiler, folders, root):
    """Breaks that the pins do not notice."""
    source, missed = root / "tests/capi/abi.c", []
    paths = {path: path.read_text() for path in sorted((root / "capi/include/ostraka").glob("*.h"))}
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(root / "capi/include", folder, dirs_exist_ok=True)
        clean = compiles(compiler, folders, source, folder)
        if clean.returncode != 0:
            return ["abi.c does not compile:\n" + clean.stderr], 0
        number = 0
        for what, path, text, replacement in breaks(paths):
            copy = Path(folder) / "ostraka" / path.name
            copy.write_text(paths[path].replace(text, replacement))
            number += 1
            broken = compiles(compiler, folders, source, folder)
            if replacement == text or "static assertion failed" not in broken.stderr:
                missed.append(f"{what}: not noticed\n{broken.stderr}")
            elif number % 20 == 1:
                print(f"{what}: {re.search('error: .*', broken.stderr)[0]}")
            copy.write_text(paths[path])
    return missed, number


def main():
    root, compiler, folders = Path(sys.argv[1]), sys.argv[2], [part for part in sys.argv[3].split(":") if part]
    headers = "".join(path.read_text() for path in sorted((root / "capi/include/ostraka").glob("*.h")))
    problems = list(not_pinned(headers, (root / "tests/capi/abi.c").read_text()))
    missed, number = planted(compiler, folders, root)
    print("\n".join(problems + missed))
    print(f"{len(constants(headers))} constants, {len(structs(headers))} structs, {number} breaks, {len(problems + missed)} problems")
    return 1 if problems + missed or number == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
