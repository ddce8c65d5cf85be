#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the programs of the guide into a folder, and programs.txt with a line `NAME;PRINTS` for each.

usage: extract.py GUIDE_FOLDER OUTPUT_FOLDER

A program is the code block behind <!-- program: NAME prints: WORDS -->. Every block of a compiled language has to be one.
"""
import re
import sys
from pathlib import Path

COMPILED = ("fortran", "c", "cpp")
MARK = re.compile(r"<!-- program: (\S+) prints: (.*?) -->\n```(\w+)\n(.*?)^```$", re.S | re.M)


def programs(text):
    """(name, words, language, source) of each program; an error for a block that is none."""
    found = MARK.findall(text)
    blocks = [language for language in re.findall(r"^```(\w+)$", text, re.M) if language in COMPILED]
    if len(blocks) != len(found):
        raise SystemExit(f"{len(blocks)} blocks of code, but {len(found)} of them are marked as programs")
    return found


def main():
    guide, output = map(Path, sys.argv[1:])
    output.mkdir(parents=True, exist_ok=True)
    lines = []
    for page in sorted(guide.glob("*.md")):
        for name, words, _, source in programs(page.read_text()):
            path = output / name
            if not path.exists() or path.read_text() != source:
                path.write_text(source)
            lines.append(f"{name};{words}\n")
    (output / "programs.txt").write_text("".join(lines))


if __name__ == "__main__":
    main()
