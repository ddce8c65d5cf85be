#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Drops every wait of a stream for an event in turn and runs a program: one that nothing notices is either redundant or not
tested. Prints a table of waits by the place in the code that asks for them.

usage: waits.py [--sample N] [--seeds 1,2,...] [--launcher "mpiexec -n 2"] [--allowed FILE] [--places] -- PROGRAM [ARGUMENTS]

Waits are numbered in the order in which a rank asks for them; OSTRAKA_DOUBLE_DROP_WAIT=n drops the n-th of every rank,
and then runs streams in the order that shows it best. The double knows which waits change no order, since an event is
done, of the same stream, or before another one that the stream has waited for: those are counted, not dropped.
--sample N: N waits of each place only, spread over the run. A wait counts as found when the program fails with one of the
seeds. --places: a place is done with the first of its waits that is found. Exit status 1: a wait (--places: a place none
of whose waits is found) outside of FILE (a place and why its waits are redundant, one a line).
"""
import argparse
import collections
import os
import re
import subprocess
import sys

TIME_OUT = 120  # seconds: a dropped wait may as well hang


def run(arguments, **environment):
    command = [*arguments.launcher, *arguments.program]
    try:
        found = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, timeout=TIME_OUT)
        return found.returncode, found.stdout + found.stderr
    except subprocess.TimeoutExpired:
        return -1, ""


def places(program, stacks):
    """Number of a wait -> the innermost function that is not the stream's own."""
    offsets = sorted({offset for stack in stacks.values() for offset in stack})
    lines = subprocess.run(["addr2line", "-f", "-C", "-e", program, *offsets], check=True, capture_output=True,
                           text=True).stdout.splitlines()[::2]
    names = dict(zip(offsets, lines))
    return {number: place(names[offset] for offset in stack) for number, stack in stacks.items()}


def place(names):
    own = re.compile(r"CudaStream|ostraka::runtime::(wait|progress|synchronize|record)|ostraka::Callable|"
                     r"^\?\?|std::|_M_invoke|_FUN|Callable")
    for name in names:
        if not own.search(name):
            return re.sub(r"\(.*|\[clone.*", "", name.replace("(anonymous namespace)::", "")).strip()
    return "a step that had to wait"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--sample", type=int, default=0)
    parser.add_argument("--seeds", default="1,2")
    parser.add_argument("--launcher", default="")
    parser.add_argument("--allowed")
    parser.add_argument("--places", action="store_true")
    parser.add_argument("program", nargs="+")
    arguments = parser.parse_args()
    arguments.launcher = arguments.launcher.split()
    seeds = arguments.seeds.split(",")
    code, output = run(arguments, OSTRAKA_DOUBLE_REPORT="2", OSTRAKA_DOUBLE_SEED=seeds[0])
    if code != 0:
        sys.exit(f"the program fails without a dropped wait:\n{output[-2000:]}")
    stacks = {int(number): offsets.split() for number, offsets in re.findall(r"double: wait (\d+)[a-z ]* at([ 0-9a-fx]*)", output)}
    idle = {int(number): why for number, why in re.findall(r"double: wait (\d+) (for nothing|that others imply)", output)}
    if not stacks:
        sys.exit("the program waits for nothing")
    by_place = collections.defaultdict(list)
    for number, where in sorted(places(arguments.program[0], stacks).items()):
        by_place[where].append(number)
    allowed = {}
    for line in open(arguments.allowed) if arguments.allowed else ():
        if line.strip() and not line.startswith("#"):
            name, why = re.split(r"\s+:\s+", line.strip(), maxsplit=1)
            allowed[name] = why
    missed = 0
    print(f"{len(stacks)} waits at {len(by_place)} places, seeds {arguments.seeds}")
    for where, all_numbers in sorted(by_place.items()):
        numbers = [number for number in all_numbers if number not in idle]
        for why, count in sorted(collections.Counter(idle[number] for number in all_numbers if number in idle).items()):
            print(f"{where}: {count} waits {why}")
        chosen = numbers
        if arguments.sample and len(numbers) > arguments.sample:
            step = len(numbers) / arguments.sample
            chosen = [numbers[int(step * (k + 0.5))] for k in range(arguments.sample)]
        if not numbers:
            continue
        survivors, found = [], 0
        for number in chosen:
            if all(run(arguments, OSTRAKA_DOUBLE_DROP_WAIT=str(number), OSTRAKA_DOUBLE_SEED=seed)[0] == 0 for seed in seeds):
                survivors.append(number)
            else:
                found += 1
                if arguments.places:
                    break
        verdict = "found"
        if survivors and not (arguments.places and found):
            verdict = f"redundant: {allowed[where]}" if where in allowed else "NOT FOUND"
            missed += where not in allowed
        print(f"{where}: {len(numbers)} waits, {len(survivors) + found} dropped, {found} found; {verdict}"
              + (f" ({', '.join(map(str, survivors))})" if survivors else ""), flush=True)
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
