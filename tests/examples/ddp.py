# SPDX-License-Identifier: Apache-2.0
"""Checks the example ddp.
usage: ddp.py lines SERIAL PARALLEL             how many lines of the parallel loop are new or changed
       ddp.py same_curve SERIAL_PROGRAM COMMAND ...   the errors that COMMAND prints are those of the serial program"""
import re
import subprocess
import sys

MOST_LINES = 12
TOLERANCE = 1e-10


def new_lines(serial, parallel):
    result = subprocess.run(["diff", serial, parallel], stdout=subprocess.PIPE, text=True)
    if result.returncode > 1:
        sys.exit("diff failed")
    return [line for line in result.stdout.splitlines() if line.startswith(">")]


def lines_failures(serial, parallel):
    lines = new_lines(serial, parallel)
    several = [line for line in lines if ";" in line or "&" in line]
    failures = [] if len(lines) <= MOST_LINES else [f"expected at most {MOST_LINES} lines, found {len(lines)}"]
    failures += [] if any("ddp%create" in line for line in lines) else ["the parallel loop uses no ddp"]
    return failures + [f"one statement per line: {line}" for line in several]


def curve(command):
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    print(result.stdout)
    if result.returncode != 0:
        sys.exit(f"exit status {result.returncode}")
    return [(int(step), float(error))
            for step, error in re.findall(r"^step +(\d+) +error +(\S+)$", result.stdout, re.M)]


def same_curve_failures(serial, command):
    expected, found = curve([serial]), curve(command)
    failures = [] if len(expected) == 20 and expected[-1][1] < expected[0][1] / 20 else ["the serial loop learns nothing"]
    if [step for step, _ in found] != [step for step, _ in expected]:
        return failures + [f"expected the steps of {expected}, found {found}"]
    return failures + [f"step {step}: expected {wanted}, found {error}" for (step, wanted), (_, error)
                       in zip(expected, found) if not abs(error / wanted - 1) <= TOLERANCE]


def main():
    if sys.argv[1] == "lines":
        failures = lines_failures(*sys.argv[2:])
    else:
        failures = same_curve_failures(sys.argv[2], sys.argv[3:])
    for failure in failures:
        print("ddp: not so:", failure)
    sys.exit(1 if failures else 0)


main()
