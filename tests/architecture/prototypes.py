#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The functions of the C headers are declared as prototypes.txt has them: one that is gone or has other arguments breaks
compiled programs. Functions that are new are named; --write takes them in (with every release).

usage: prototypes.py SOURCE_TREE [--write]
"""
import re
import sys
from pathlib import Path

from operations import closing, without_comments


def prototypes(text):
    """{name: 'int32_t ostraka_x(int32_t)'}: types alone, since names of arguments are free."""
    text = without_comments(text).replace('extern "C" {', "")
    while found := re.search(r"static inline [^;{]*\{", text):  # part of the program, not of the library
        text = text[:found.start()] + text[closing(text, found.end() - 1):]
    result = {}
    for kind, name, arguments in re.findall(r"^([\w\s*]*?)\b(ostraka_\w+)\s*\(([^()]*)\)\s*;", text, re.M):
        types = [re.sub(r"(?<=[\s*])\w+(\[\d*\])?$", r"\1", " ".join(a.split())) if " " in a.strip() else a.strip()
                 for a in arguments.split(",")]
        types = [re.sub(r"\s*(\*+)\s*", r"\1 ", kind_of).strip() for kind_of in types]
        result[name] = f"{' '.join(kind.split())} {name}({', '.join(types)})"
    return result


def compare(pinned, declared):
    """Texts of what breaks, and the names that are new."""
    breaks = [f"{name} is gone: {text}" for name, text in pinned.items() if name not in declared]
    breaks += [f"{name} has changed:\n  was {text}\n  is  {declared[name]}" for name, text in pinned.items()
               if name in declared and declared[name] != text]
    return breaks, sorted(set(declared) - set(pinned))


def planted(declared):
    """Breaks that compare() misses: another type, an argument more, a function gone; and what it must not mind."""
    name = "ostraka_buffer_copy_from"
    changes = {"another type": declared | {name: declared[name].replace("int64_t", "int32_t")},
               "an argument more": declared | {name: declared[name].replace(")", ", int32_t)")},
               "gone": {key: value for key, value in declared.items() if key != name}}
    missed = [what for what, changed in changes.items() if len(compare(declared, changed)[0]) != 1]
    if compare(declared, declared | {"ostraka_new": "void ostraka_new(void)"}) != ([], ["ostraka_new"]):
        missed.append("a new function")
    renamed = prototypes("int32_t ostraka_a(const char* name, int64_t* count);")
    if renamed != prototypes("int32_t\nostraka_a(const char *path,\n  int64_t *n);") or "count" in str(renamed):
        missed.append("names of arguments are free")
    return missed


def main():
    root = Path(sys.argv[1])
    store = root / "tests/architecture/prototypes.txt"
    declared = {}
    for header in sorted((root / "capi/include/ostraka").glob("*.h")):
        declared |= prototypes(header.read_text())
    if "--write" in sys.argv:
        store.write_text("".join(f"{text}\n" for _, text in sorted(declared.items())))
    pinned = {re.search(r"(ostraka_\w+)\(", line)[1]: line for line in store.read_text().splitlines()}
    breaks, new = compare(pinned, declared)
    missed = planted(declared)
    print(f"{len(pinned)} functions are pinned", *(f"new, not pinned yet: {name}" for name in new),
          *breaks, *(f"a planted change is not seen as it should be: {what}" for what in missed), sep="\n")
    return 1 if breaks or missed else 0


sys.exit(main())
