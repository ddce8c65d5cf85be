#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ranks that stop or die, and a /dev/shm that is too small: the others end with an error that says where.

usage: failures.py CASE RANKS PROGRAM -- LAUNCHER ...     exit status 0 as expected, 1 not, 77 skipped with a reason
  stop_backward stop_update   one rank stops (SIGSTOP); the others time out
  die_backward die_update     one rank dies (SIGKILL) under mpiexec --enable-recovery
  all_die                     all ranks die; nothing of ours stays in /dev/shm
  small_dev_shm full_dev_shm  PROGRAM, a test, with a /dev/shm of its own
"""
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SKIPPED = 77
WAIT = 40  # seconds for what should take a few


class Unexpected(Exception):
    pass


def expect(condition, text):
    if not condition:
        raise Unexpected(text)


def wait_for(condition, what, seconds=WAIT):
    end = time.monotonic() + seconds
    while not condition():
        expect(time.monotonic() < end, f"{what}: not after {seconds} s")
        time.sleep(0.05)


def is_ours(pid, program):
    """Whether the process is still there and runs our program (numbers are used again)."""
    try:
        return os.readlink(f"/proc/{pid}/exe") == os.path.realpath(program)
    except OSError:
        return False


class Run:
    """A started job whose processes are all gone at the end."""

    def __init__(self, program, arguments, launcher, environment):
        self.program = program
        self.folder = Path(tempfile.mkdtemp(prefix="ostraka-failures."))
        command = [*launcher, program, str(self.folder), *arguments]
        self.job = subprocess.Popen(command, env={**os.environ, **environment}, stdout=subprocess.DEVNULL,
                                    stderr=subprocess.DEVNULL)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for pid in self.pids():
            self.kill(pid)
        self.job.terminate()
        try:
            self.job.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.job.kill()
            self.job.wait()
        for path in self.folder.iterdir():
            path.unlink()
        self.folder.rmdir()

    def read(self, what):
        """{rank: text} of the files `what`.RANK."""
        return {int(path.suffix[1:]): path.read_text().strip() for path in self.folder.glob(f"{what}.*")
                if path.suffix != ".draft"}

    def pids(self):
        return [int(text) for text in self.read("pid").values()]

    def kill(self, pid):
        if is_ours(pid, self.program):
            os.kill(pid, signal.SIGKILL)

    def all_gone(self):
        return not any(is_ours(pid, self.program) for pid in self.pids())


def names_in_dev_shm():
    return {path.name for path in Path("/dev/shm").glob("ostraka.*")}


def one_fails(place, number, ranks, program, launcher):
    """The last rank stops or dies; every other one reports an error that names the operation."""
    victim = ranks - 1
    is_shared = os.environ.get("OSTRAKA_BACKEND") == "node"
    operation = r"reduce-scatter" if place == "backward" else (
        r"waiting for the update of 'layer0" if is_shared else r"allgather of [^;]*'layer0")
    with Run(program, [place, str(int(number)), str(victim)], launcher, {"OSTRAKA_TIMEOUT_S": "2"}) as run:
        wait_for(lambda: len(run.read("report")) == ranks - 1 or run.job.poll() is not None, "reports of the others")
        reports = run.read("report")
        for rank, text in sorted(reports.items()):
            print(f"rank {rank}: {text}")
        expect(len(reports) == ranks - 1, f"expected {ranks - 1} reports, found {len(reports)}")
        for rank, text in reports.items():
            # Who times out first may tell the others before their own time is over.
            expect(re.match(r"(TIME_OUT|FAILED|COMMUNICATION): ", text), f"rank {rank}: expected a time-out")
            expect(re.search(operation, text), f"rank {rank}: expected the operation, {operation}")
        expect(any(text.startswith("TIME_OUT") for text in reports.values()), "expected a time-out on some rank")
        for pid in run.pids():
            run.kill(pid)  # the victim, which may be stopped
        wait_for(run.all_gone, "the end of all ranks")


def all_die(ranks, program, launcher):
    before = names_in_dev_shm()
    with Run(program, ["backward", str(int(signal.SIGKILL)), "-1"], launcher, {}) as run:
        wait_for(lambda: len(run.read("ready")) == ranks, "all ranks in the middle of a step")
        wait_for(run.all_gone, "the end of all ranks")
        run.job.wait(timeout=WAIT)
        expect(not run.read("report"), "expected no reports")
    left = names_in_dev_shm() - before
    expect(not left, f"left in /dev/shm: {sorted(left)}")
    print("nothing is left in /dev/shm")


def with_own_dev_shm(mebibytes, pattern, program, launcher):
    own = ["unshare", "-m", "sh", "-c", f'mount -t tmpfs -o size={mebibytes}m tmpfs /dev/shm && exec "$@"', "sh"]
    allowed = subprocess.run([*own, "true"], capture_output=True, text=True)
    if allowed.returncode != 0:
        print(f"skipped: a /dev/shm of our own is not permitted: {allowed.stderr.strip()}")
        sys.exit(SKIPPED)
    environment = {**os.environ, "OSTRAKA_BACKEND": "node", "OSTRAKA_LOG_LEVEL": "warn"}
    done = subprocess.run([*own, *launcher, program, f"--gtest_filter={pattern}"], env=environment, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    print(done.stdout)
    expect(done.returncode == 0, f"the test failed: {done.returncode}")
    expect("PASSED" in done.stdout and "SKIPPED" not in done.stdout, "the test did not run")
    return done.stdout.count("node: shared memory is not used, MPI carries everything: ")


def main(case, ranks, program, launcher):
    numbers = {"stop": signal.SIGSTOP, "die": signal.SIGKILL}
    kind, _, place = case.partition("_")
    if kind == "die":
        launcher = [launcher[0], "--enable-recovery", *launcher[1:]]
    if kind in numbers:
        one_fails(place, numbers[kind], ranks, program, launcher)
    elif case == "all_die":
        all_die(ranks, program, launcher)
    elif case == "small_dev_shm":
        lines = with_own_dev_shm(64, "SmallDevShm.*", program, launcher)
        expect(lines == 1, f"expected one line of log, found {lines}")
    elif case == "full_dev_shm":
        lines = with_own_dev_shm(300 * ranks, "FullDevShm.*", program, launcher)
        expect(lines == 0, "expected shared memory")


if __name__ == "__main__":
    separator = sys.argv.index("--")
    try:
        main(sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[separator + 1:])
    except Unexpected as error:
        print(f"failed: {error}")
        sys.exit(1)
