#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The start and stop matrix: each scenario is a process of its own, whose every step is either right or an error, and
which ends cleanly.

usage: scenarios.py LANGUAGE RANKS PROGRAM LAUNCHER ...

Steps are the letters of start_stop.h. What is expected comes from a model of what the documentation says, below.
"""
import itertools
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

# Who starts Kokkos, and when it ends; when objects are destroyed; how often the library starts.
MATRIX = sorted({
    before + "M" + between + "I" * starts + "CUG" + "".join(order)
    for before, between, ends in (("", "", ""), ("K", "", "k"), ("", "K", "k"))
    for starts in (1, 2)
    for order in (list(itertools.permutations([*"Di", *ends, "m"])) if starts == 1 else [("i", "U", "D", "i", *ends, "m")])
    if not (ends and order.index("k") < order.index("i") and order.index("k") < order.index("D"))
})
SINGLE = [
    "",              # nothing at all
    "I", "i", "C", "D", "U", "MI", "MIC", "MICU",  # never stopped
    "IMICDim", "CMm", "MCm", "MmI", "MmC",         # too early, too late
    "MiIim", "MIiim", "MIiIm", "MIIiUm",           # twice
    "MICDDim", "MICDUim", "MICmiD", "MICmD",       # destroyed twice, used afterwards, the library never stopped
    "MICUmUG", "MICUiUGm", "MICUiGUDm",             # used after a stop
    "KMIiICUDim" + "k", "KMIikIm",                 # restarts: a program's Kokkos lives on, or does not
    "MKkIm",                                       # Kokkos has come and gone
    "MICkUGDim", "MICDkim",                         # the program ends the Kokkos of the library
]

# On several ranks, where these would communicate.
AFTERWARDS = ["MICUmUGD", "MICUiUGDm", "MICiGUm", "MICkGUDim"]

# What is never destroyed leaks on purpose.
ENVIRONMENT = os.environ | {"ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"}


class Model:
    """What each step has to return."""
    def __init__(self, language):
        self.language, self.mpi, self.kokkos, self.starts = language, "before", "before", 0
        self.owns_kokkos, self.objects = False, False

    def can_start(self):
        # C++ has no MPI in its runtime; a mesh asks for it.
        return (self.language == "cpp" or self.mpi == "up") and (self.starts > 0 or self.kokkos != "after")

    def expect(self, letter):
        if letter in "Mm":
            self.mpi = {"M": "up", "m": "after"}[letter]
        elif letter in "Kk":
            self.kokkos = {"K": "up", "k": "after"}[letter]
        elif letter == "I":
            if not self.can_start():
                return "INVALID_STATE"
            if self.kokkos == "before":
                self.kokkos, self.owns_kokkos = "up", True
            self.starts += 1
        elif letter == "i":
            if self.starts == 0:
                return "INVALID_STATE"
            self.starts -= 1
            if self.starts == 0 and self.owns_kokkos and self.kokkos == "up":
                self.kokkos = "after"
        elif letter == "C":
            if self.starts == 0 or self.mpi != "up" or self.kokkos != "up":
                return "INVALID_STATE"
            self.objects = True
        elif letter in "UG":
            if not self.objects:
                return "INVALID_HANDLE"
            if self.starts == 0 or self.mpi != "up" or self.kokkos != "up":
                return "INVALID_STATE"
        else:
            self.objects = False
        return "OK"


def run(scenario, language, program, launcher):
    """None, or what is wrong."""
    model = Model(language)
    expected = [f"{letter} {model.expect(letter)}" for letter in scenario] + ["end"]
    try:
        done = subprocess.run([*launcher, program, scenario], capture_output=True, text=True, timeout=60, env=ENVIRONMENT)
    except subprocess.TimeoutExpired:
        return f"{scenario}: hangs"
    # MPICH's launcher may put a line of another rank between the last word of a rank and its line break.
    lines = [line for line in re.sub(r"^end(?=.)", "end\n", done.stdout, flags=re.M).splitlines() if line]
    found = [" ".join(line.split()[:2]) for line in lines]
    if sorted(found) != sorted(expected * max(1, found.count("end"))) or done.returncode != 0:
        pairs = [f"   {line}   <- expected {wanted}" if not line.startswith(wanted) else f"   {line}"
                 for line, wanted in itertools.zip_longest(lines, expected, fillvalue="(nothing)")]
        return "\n".join([f"{scenario}: exit status {done.returncode}", *pairs, done.stderr[-1500:]])
    silent = [line for line in lines if "INVALID_STATE" in line and len(line.split()) < 6]
    return f"{scenario}: errors without a text: {silent}" if silent else None


def main():
    language, ranks, program, launcher = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4:]
    # Alone without a launcher, which would take an MPI that nobody finalised for a crash. Several ranks show what depends
    # on MPI, not what depends on Kokkos.
    several = [scenario for scenario in MATRIX if "K" not in scenario] + AFTERWARDS
    scenarios, launcher = (MATRIX + SINGLE, []) if ranks == 1 else (several, launcher)
    with ThreadPoolExecutor(2 if ranks == 1 else 1) as pool:
        problems = list(filter(None, pool.map(lambda text: run(text, language, program, launcher), scenarios)))
    print("\n".join(problems))
    print(f"{language}: {len(scenarios)} scenarios on {ranks} ranks, {len(problems)} wrong")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
