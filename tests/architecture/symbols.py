#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares what the C headers declare, what the C library exports, what the Fortran module binds, and what the C tests
call; prints the table.

usage: symbols.py SOURCE_TREE C_LIBRARY [FORTRAN_LIBRARY]
"""
import re
import subprocess
import sys
from pathlib import Path

# An MPI_Comm cannot be passed from Fortran: the twins end in _f.
NOT_IN_FORTRAN = {"ostraka_mesh_create", "ostraka_mesh_create_on"}
# What the module binds beside the C interface.
ONLY_IN_FORTRAN = {"strlen"}
VERSION_NODE = "OSTRAKA_0"


def read(paths):
    return "\n".join(path.read_text() for path in sorted(paths))


def declared(header):
    """The exported and the inline functions of a C header's text."""
    text = re.sub(r"/\*.*?\*/|//[^\n]*", "", header, flags=re.DOTALL)
    text = re.sub(r"^[ \t]*#[^\n]*", "", text, flags=re.MULTILINE)
    inline = re.compile(r"static inline[^{;]*?\b(ostraka_\w+)\s*\([^{]*\{[^}]*\}", re.DOTALL)
    return set(re.findall(r"\b(ostraka_\w+)\s*\(", inline.sub("", text))), set(inline.findall(text))


def bound(module):
    """Names of bind(c) in Fortran text; comments do not count."""
    text = re.sub(r"^\s*![^\n]*", "", module, flags=re.MULTILINE)
    return set(re.findall(r"bind\s*\(\s*c\s*,\s*name\s*=\s*['\"](\w+)['\"]", text, flags=re.IGNORECASE))


def called(tests, name):
    # Tests form versioned names by pasting: function##_versioned.
    return re.search(rf"\b{re.sub('_versioned$', '', name)}\b", tests) is not None


def dynamic_symbols(library, *options):
    lines = subprocess.run(["nm", "-D", *options, library], check=True, capture_output=True, text=True).stdout
    return {line.split()[-1].split("@")[0] for line in lines.splitlines() if line.strip()}


def compare(headers, module, tests, exported):
    """(table lines, violations)"""
    functions, inline = declared(headers)
    in_fortran = bound(module)
    table, violations = [f"{'C function':48} library  Fortran  C tests"], []
    for name in sorted(functions | inline):
        columns = [name in exported, name in in_fortran, called(tests, name)]
        marks = ["yes" if column else "-" for column in columns]
        if name in inline:
            marks[0] = "inline"
        table.append(f"{name:48} {marks[0]:8} {marks[1]:8} {marks[2]}")
        if name in functions and not columns[0]:
            violations.append(f"{name} is declared in a C header but not exported")
        if name in functions and not columns[1] and name not in NOT_IN_FORTRAN:
            violations.append(f"{name} is not bound in the Fortran module")
        if not columns[2]:
            violations.append(f"{name} is not called in tests/capi")
    for name in sorted(exported - functions - {VERSION_NODE}):
        violations.append(f"{name} is exported but not declared in a C header")
    for name in sorted(in_fortran - functions - ONLY_IN_FORTRAN):
        violations.append(f"{name} is bound in the Fortran module but not declared in a C header")
    for name in sorted(NOT_IN_FORTRAN & in_fortran):
        violations.append(f"{name} is bound in the Fortran module: take it off the list of exceptions")
    return table, violations


def main():
    root = Path(sys.argv[1])
    headers, module = read((root / "capi/include").rglob("*.h")), read((root / "fortran").glob("*"))
    tests = read((root / "tests/capi").glob("*.c"))
    table, violations = compare(headers, module, tests, dynamic_symbols(sys.argv[2], "--defined-only"))
    if len(sys.argv) > 3:
        for name in sorted(dynamic_symbols(sys.argv[3], "--undefined-only")):
            if "7ostraka" in name:
                violations.append(f"the Fortran library needs {name} of the C++ library")
    print("\n".join(table + violations + [f"{len(table) - 1} functions, {len(violations)} violations"]))
    return 1 if violations or len(table) == 1 else 0


if __name__ == "__main__":
    sys.exit(main())
