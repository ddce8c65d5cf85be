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
    return text


sys.stdout.write(documented(Path(sys.argv[1]).read_text()))
