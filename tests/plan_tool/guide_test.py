# SPDX-License-Identifier: Apache-2.0
"""The commands of the guide's page dry_run, and its description of the JSON."""
import pathlib
import re
import shlex
import shutil
import unittest

from support import MODELS, TOOL, ToolTest

PAGE = (pathlib.Path(__file__).resolve().parents[2] / "docs/guide/dry_run.md").read_text()
COMMANDS = re.findall(r"<!-- prints: (.*?) -->\n```sh\n(.*?)\n```$", PAGE, re.S | re.M)
FILES = re.findall(r"<!-- file: (\S+) -->\n```json\n(.*?)^```$", PAGE, re.S | re.M)


def members(value):
    if isinstance(value, dict):
        return set(value).union(*map(members, value.values()))
    return set().union(*map(members, value)) if isinstance(value, list) else set()


class Guide(ToolTest):
    def setUp(self):
        super().setUp()
        for path in MODELS.glob("*.json"):
            shutil.copy(path, self.folder)
        for name, text in FILES:
            (self.folder / name).write_text(text)

    def test_commands(self):
        self.assertEqual(len(COMMANDS), len(re.findall(r"^```sh$", PAGE, re.M)))
        for words, command in COMMANDS:
            program, *arguments = shlex.split(command)
            self.assertEqual(program, pathlib.Path(TOOL).name)
            self.assertIn(words, self.succeed(*arguments, cwd=self.folder), command)

    def test_every_member_is_described(self):
        document = self.json("layers.json", "--mesh", "node=2,gpu=2", "--machine", "machine.json", "--layouts", "--largest",
                             "--memory", "8GiB", cwd=self.folder)
        for point in document["points"]:
            for entry in point["outcomes"]:
                del entry["modules"]
        document["request"]["machine"]["axes"] = {"gpu": document["request"]["machine"]["axes"]["gpu"]}
        told = set(re.findall(r"`(\w+)`", PAGE))
        self.assertEqual(members(document) - told - {"gpu"}, set())
        self.assertEqual(document["format_version"], 1)

    def test_options_exist(self):
        options = set(re.findall(r"--[a-z-]+", self.succeed("--help")))
        self.assertEqual(set(re.findall(r"(?<![\w-])--[a-z]+(?:-[a-z]+)*", re.sub(r"<!--|-->", "", PAGE))) - options, set())


unittest.main()
