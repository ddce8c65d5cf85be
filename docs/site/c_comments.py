#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Doxygen's input filter of the C headers: their plain comments become documentation. usage: c_comments.py FILE"""
import re
import sys
from pathlib import Path


def documented(text):
    text = re.sub(r"^/\* SPDX-License-Identifier: [\w.-]+\n \*\n", "/** \\\\file\n", text)
    text = re.sub(r"^/\* (?!SPDX|---)", "/** ", text, flags=re.M)           # before a declaration
    text = re.sub(r"(\S[^\n]*?)(\s)/\* (?!---)", r"\1\2/**< ", text)         # behind a member or constant
    return "\n\n".join(repeated(part) for part in text.split("\n\n"))


def repeated(part):
    """What is said before the first of several declarations without a blank line between them holds for each."""
    comment = re.match(r"\s*/\*\* (?!\\file)(.*?)\s*\*/\n", part, re.S)
    if not comment:
        return part
    said = " ".join(re.sub(r"^ \*", "", line).strip() for line in comment[1].split("\n"))
    first, *others = re.split(r"(?<=;\n)(?=ostraka_|static |const )", part[comment.end():])
    return part[:comment.end()] + first + "".join(f"/** {said} */ {other}" for other in others)


sys.stdout.write(documented(Path(sys.argv[1]).read_text()))
