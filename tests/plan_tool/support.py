# SPDX-License-Identifier: Apache-2.0
"""The tool as a function, models, and texts of numbers as the tool writes them (written apart from it)."""
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

TOOL = os.environ["OSTRAKA_PLAN_TOOL"]
sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "support"))  # of all tools
from terminal import shown_on_terminal  # noqa: E402, F401

MODELS = pathlib.Path(__file__).resolve().parents[1] / "data/models"
RECIPES = ["no_shard", "zero_1", "zero_2", "zero_3", "hsdp", "hfsdp", "zero_1_zero_2"]
UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"]


def run(*arguments, **options):
    """(exit status, standard output, standard error)"""
    result = subprocess.run([TOOL, *map(str, arguments)], capture_output=True, encoding="utf-8", errors="replace", **options)
    return result.returncode, result.stdout, result.stderr


def digits(value):
    """Three digits."""
    if value == 0:
        return "0"
    for _ in range(2):  # rounding may add a digit before the point
        places = min(9, max(0, 2 - math.floor(math.log10(abs(value)))))
        text = f"{value:.{places}f}"
        rounded = abs(float(text))
        if rounded == 0 or min(9, max(0, 2 - math.floor(math.log10(rounded)))) == places:
            return text
        text = f"{value:.{min(9, max(0, 2 - math.floor(math.log10(rounded))))}f}"
        return text
    return text


def bytes_text(value):
    unit = 0
    while value >= 1024 ** (unit + 1) and unit < len(UNITS) - 1:
        unit += 1
    return f"{value} B" if unit == 0 else f"{digits(value / 1024**unit)} {UNITS[unit]}"


def seconds_text(value):
    if value == 0:
        return "0 s"
    for factor, unit in ((1, "s"), (1e-3, "ms"), (1e-6, "us")):
        if value >= factor:
            return f"{digits(value / factor)} {unit}"
    return f"{digits(value / 1e-9)} ns"


class ToolTest(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="ostraka-plan-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def succeed(self, *arguments, status=0, **options):
        found, output, errors = run(*arguments, **options)
        self.assertEqual((found, errors), (status, ""), output)
        return output

    def refuse(self, words, *arguments, status=2, **options):
        """Expects the exit status, and all words in standard error; returns that."""
        found, output, errors = run(*arguments, **options)
        self.assertEqual(found, status, output + errors)
        for word in [words] if isinstance(words, str) else words:
            self.assertIn(word, errors)
        return errors

    def json(self, *arguments, **options):
        return json.loads(self.succeed(*arguments, "--json", **options))

    def model(self, content, name="model.json"):
        """A file with this JSON, or text."""
        path = self.folder / name
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return path

    def layers(self, **more):
        """A small network."""
        unit = {"unit": "layer", "count": 3, "tensors": [["weight", [64, 64]], ["bias", [64]]]}
        return self.model({"model": "small", "units": [unit | more]})


def outcomes(document, point=0):
    """{recipe: outcome}"""
    return {outcome["recipe"]: outcome for outcome in document["points"][point]["outcomes"]}
