#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every public operation of C++, C and Fortran says in a comment what it does: right before its declaration, or in a
group of declarations without a blank line between them (C, C++), or before its body or its generic name (Fortran).

usage: documented.py SOURCE_TREE [unittest arguments]
"""
import re
import sys
import unittest
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(sys.argv.pop(1)).resolve()
sys.path.insert(0, str(ROOT / "tests/architecture"))
from operations import CPP_FILES, CPP_ROOMS, closing, declared_names, without_comments, without_nested  # noqa: E402


def paragraphs(text):
    """(whether it is explained, statements without comments) of each group between blank lines: a group in C begins with its
    comment, one in C++ has one somewhere, since accessors that say all by their names stand together."""
    for part in re.split(r"\n[ \t]*\n", text):
        part = re.sub(r'^(\s*(#[^\n]*|extern "C" \{|\};?)\n)+', "", part)
        yield bool(re.match(r"\s*/\*(?! ---)", part) or "///" in part), without_comments(part)


def undocumented_c(text):
    return [name for has, part in paragraphs(text) if not has for name in re.findall(r"^(?!return|typedef| ).*?\b(ostraka_\w+)\s*\(", part, re.M)]


def public_part(body):
    """A class's public text, comments included; classes and bodies inside it stay."""
    parts = re.split(r"^\s*(public|private|protected)\s*:(?!:)", body, flags=re.M)
    return "".join(part for label, part in zip(parts[1::2], parts[2::2]) if label == "public")


def undocumented_cpp(text):
    """Public members of exported classes, but constructors, destructors and assignments, and exported free functions."""
    result, rest, place = [], "", 0
    for found in re.finditer(r"^class OSTRAKA_API (\w+)[^;{]*\{", text, re.M):
        end = closing(text, found.end() - 1)
        rest += text[place:found.start()]
        place = end
        for has, part in paragraphs(public_part(without_nested(text[found.end():end - 1]))):
            names = [name for name in declared_names(part) if name.strip("~") != found[1]]
            result += [f"{found[1]}::{name}" for name in names if not has]
    for has, part in paragraphs(rest + text[place:]):
        result += [name for name in re.findall(r"OSTRAKA_API\s[^;{=]*?\b(\w+)\s*\(", part) if not has]
    return result


def undocumented_fortran(text):
    """Public type-bound procedures, and the module procedures of public names."""
    bodies = {name for name in re.findall(r"!![^\n]*\n *(?:[\w()*:]+ )*(?:subroutine|function) (\w+)", text)}
    result = []
    for kind, body in re.findall(r"^ *type(?:, \w+)* :: ostraka_(\w+)_t\n(.*?)^ *end type", text, re.S | re.M):
        for line, doc, word, name, target in re.findall(
                r"((?:^ *!!([^\n]*)\n)*)^ *(procedure|generic), public :: (\w+)(?: => (\w+))?", body, re.M):
            if not line and (word == "generic" or (target or name) not in bodies):
                result.append(f"{kind}%{name}")
    return result


class Documented(unittest.TestCase):
    maxDiff = None

    def check(self, paths, find):
        missing = {str(path.relative_to(ROOT)): names for path in paths if (names := find(path.read_text()))}
        self.assertEqual(missing, {}, "these have no comment")

    def test_c(self):
        self.check(sorted((ROOT / "capi/include/ostraka").glob("*.h")), undocumented_c)

    def test_cpp(self):
        """What tests/architecture/parity.txt names as inside is not for callers."""
        inside = re.findall(r"^inside (\S+)", (ROOT / "tests/architecture/parity.txt").read_text(), re.M)
        for room in CPP_ROOMS:
            def missing(text, room=room):
                names = [name if "::" in name else f"{room}::{name}" for name in undocumented_cpp(text)]
                return [name for name in names if not any(fnmatch(name, pattern) for pattern in inside)]
            paths = sorted((ROOT / "src/ostraka" / room).glob("*.hpp"))
            self.check([path for path in paths if path.name in CPP_FILES.get(room, [path.name])], missing)

    def test_fortran(self):
        included = "".join(path.read_text() for path in (ROOT / "fortran").glob("*.inc"))
        self.check(sorted((ROOT / "fortran").glob("ostraka*.f90")), lambda text: undocumented_fortran(text + included))

    def test_planted(self):
        self.assertEqual(undocumented_c("/* Says. */\nint32_t ostraka_a(void);\nint32_t ostraka_b(void);\n\nint32_t ostraka_c(int x);\n"),
                         ["ostraka_c"])
        self.assertEqual(undocumented_cpp("class OSTRAKA_API A {\npublic:\n  A();\n\n  /// Says.\n  int b();\n  int c();\n\n  int d();\n"
                                          "private:\n  int e();\n};\n\n/// Says.\nOSTRAKA_API int f();\n\nOSTRAKA_API int g();\n"),
                         ["A::d", "g"])
        module = ("  type :: ostraka_x_t\n  contains\n    procedure, public :: a\n    procedure, public :: b => x_b\n    !! Says.\n"
                  "    generic, public :: c => c1\n    generic, public :: d => d1\n  end type\n  !! Says.\n  subroutine a()\n"
                  "  subroutine x_b()\n")
        self.assertEqual(undocumented_fortran(module), ["x%b", "x%d"])


unittest.main()
