#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the guide says against the sources: environment variables, statuses with their numbers, and every name of ours.

usage: guide_test.py SOURCE_TREE [unittest arguments]
"""
import re
import sys
import unittest
from pathlib import Path

ROOT = Path(sys.argv.pop(1)).resolve()
sys.path.insert(0, str(ROOT / "tests/architecture"))
sys.path.insert(0, str(ROOT / "tests/docs"))
from extract import programs  # noqa: E402

from operations import CPP_ROOMS, c_functions, fortran_operations  # noqa: E402

GUIDE = {path.stem: path.read_text() for path in (ROOT / "docs/guide").glob("*.md")}
HEADERS = "".join(path.read_text() for path in (ROOT / "capi/include/ostraka").glob("*.h"))


def rows(page):
    """The cells of each row of a page's tables."""
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in GUIDE[page].splitlines() if line.startswith("| `OSTRAKA_")]


class Guide(unittest.TestCase):
    def test_environment(self):
        read = set(re.findall(r'"(OSTRAKA_\w+)"', (ROOT / "src/ostraka/base/environment.cpp").read_text()))
        told = {row[0].strip("`"): row for row in rows("environment")}
        self.assertEqual(set(told), read)
        for row in told.values():
            self.assertRegex(row[3], r"^\d+\.\d+\.\d+$", row)
            self.assertTrue(row[1] and row[2], row)

    def test_statuses(self):
        text = (ROOT / "capi/include/ostraka/status.h").read_text()
        self.assertEqual({(row[0].strip("`"), row[1]) for row in rows("errors")},
                         set(re.findall(r"^#define (OSTRAKA_\w+) (\d+)", text, re.M)))

    def test_names(self):
        known = c_functions(ROOT / "capi/include/ostraka") | set(re.findall(r"\bOSTRAKA_\w+|\bostraka_\w+_t\b", HEADERS))
        known |= {name for name in fortran_operations(ROOT / "fortran") if "%" not in name}
        known |= {row[0].strip("`") for row in rows("environment")}
        for page, text in GUIDE.items():
            prose = re.sub(r"^```\w+$.*?^```$", "", text, flags=re.S | re.M)
            for name in re.findall(r"\b(?:ostraka|OSTRAKA)_\w+", prose):
                self.assertIn(name, known, page)

    def test_recipes(self):
        recipes = set(re.findall(r"OSTRAKA_(?:NO_SHARD|ZERO_\w+|HSDP|HFSDP)\b", HEADERS))
        self.assertEqual({re.match(r"`(\w+)`", row[0])[1] for row in rows("recipes")}, recipes)

    def test_pages_are_in_the_contents(self):
        contents = re.findall(r"\\subpage (\w+)", (ROOT / "docs/README.md").read_text())
        self.assertEqual(set(contents), set(GUIDE) | {"parity", "build_and_use"})  # scripts/docs makes these two
        for name, text in GUIDE.items():
            self.assertRegex(text, rf"^# .* {{#{name}}}\n")

    def test_site_has_every_room_that_callers_use(self):
        inputs = re.search(r"^INPUT = (.*)", (ROOT / "docs/site/Doxyfile").read_text(), re.M)[1].split()
        self.assertLessEqual({f"src/ostraka/{room}" for room in CPP_ROOMS} | {"capi/include/ostraka", "docs/guide"}, set(inputs))
        for name in inputs:
            self.assertTrue((ROOT / name).exists(), name)

    def test_programs_in_three_languages(self):
        self.assertEqual({language for _, _, language, _ in programs(GUIDE["first_program"])}, {"fortran", "c", "cpp"})
        with self.assertRaises(SystemExit):
            programs("```c\nint main() {}\n```\n")


if __name__ == "__main__":
    unittest.main()
