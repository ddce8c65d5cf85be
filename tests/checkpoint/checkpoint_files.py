#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of runs that die, on disks that are full or read-only, and as h5py sees them.

usage: checkpoint_files.py CASE RANKS PROGRAM -- LAUNCHER ...   exit status 0 as expected, 1 not, 77 skipped with a reason
  die               a rank ends at every call of the system in turn (PROGRAM: checkpoint_program)
  kill_async        all ranks are killed while an asynchronous save is in flight
  full_disk read_only_disk   PROGRAM, a test, with a file system of its own
  venv              a virtual environment with h5py; RANKS stands for its folder
  h5py              reads every tensor and value; in that environment
"""
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SKIPPED = 77
WAIT = 60


class Unexpected(Exception):
    pass


def expect(condition, text):
    if not condition:
        raise Unexpected(text)


def run(command, **options):
    return subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=WAIT, **options)


class Program:
    def __init__(self, program, launcher):
        self.program, self.launcher = program, launcher

    def command(self, *arguments):
        return [*self.launcher, self.program, *map(str, arguments)]

    def save(self, path, salt):
        done = run(self.command("save", path, salt))
        expect(done.returncode == 0, f"save: {done.stdout}")

    def salt(self, path):
        """Of a file that must be whole."""
        done = run(self.command("check", path))
        expect(done.returncode == 0, f"check: {done.stdout}")
        return int(done.stdout.split("salt ")[1].split()[0])


def partial_files(folder):
    return [path.name for path in folder.iterdir() if ".partial-" in path.name]


def die(ranks, program, folder):
    path = folder / "a.h5"
    deaths = 0
    program.save(path, 4)
    calls = {"open": 9, "pwritev": 2, "fsync": 9, "rename": 9}
    cases = [(victim, call) for victim in range(ranks) for call in calls]
    if os.environ.get("OSTRAKA_TEST_FULL") != "1":
        cases = [(0, "fsync"), (0, "rename"), (ranks - 1, "pwritev")]
    for victim, call in cases:
        for number in range(1, calls[call] + 1):
            done = run(program.command("die", path, 7, call, number, victim))
            salt = program.salt(path)
            if done.returncode == 0:  # there was no such call
                expect(salt == 7 and not partial_files(folder), "expected the new file and no other")
            else:
                deaths += 1
                behind_rename = victim == 0 and (call, number) in (("open", 3), ("fsync", 2))
                print(f"rank {victim} died at {call} {number}: the file of salt {salt}")
                expect(salt == (7 if behind_rename else 4), "expected the old file, the new one behind the rename")
            if salt != 4:
                program.save(path, 4)
            if done.returncode == 0:
                break
    expect(deaths >= len(cases) + 1, f"expected {len(cases) + 1} deaths or more, found {deaths}")


def kill_async(ranks, program, folder):
    path = folder / "a.h5"
    program.save(path, 4)
    job = subprocess.Popen(program.command("hold", path, 7, folder), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        end = time.monotonic() + WAIT
        pids = []
        while len(pids) < ranks:
            expect(time.monotonic() < end and job.poll() is None, "the save did not start")
            time.sleep(0.05)
            pids = [int(path.read_text()) for path in folder.glob("pid.*") if path.suffix != ".draft"]
        for pid in pids:
            if os.readlink(f"/proc/{pid}/exe") == os.path.realpath(program.program):
                os.kill(pid, signal.SIGKILL)
        job.wait(timeout=WAIT)
    finally:
        job.kill()
    expect(len(partial_files(folder)) == 1, "expected a file that was not complete")
    expect(program.salt(path) == 4, "expected the old file")
    program.save(path, 5)
    expect(not partial_files(folder) and program.salt(path) == 5, "expected a new file and no other")


def with_own_disk(options, variable, pattern, ranks, program, launcher, folder):
    own = ["unshare", "-m", "sh", "-c", f'mount -t tmpfs -o {options} tmpfs "{folder}" && exec "$@"', "sh"]
    allowed = run([*own, "true"])
    if allowed.returncode != 0:
        print(f"skipped: a file system of our own is not permitted: {allowed.stdout.strip()}")
        sys.exit(SKIPPED)
    environment = {**os.environ, variable: str(folder), "OSTRAKA_TEST_FOLDER": str(folder)}
    done = run([*own, *launcher, program, f"--gtest_filter={pattern}"], env=environment)
    print(done.stdout)
    expect(done.returncode == 0, f"the test failed: {done.returncode}")
    expect("PASSED" in done.stdout and "SKIPPED" not in done.stdout, "the test did not run")


def make_venv(folder):
    python = Path(folder) / "bin/python"
    if python.exists() and run([python, "-c", "import h5py"]).returncode == 0:
        return
    done = run([sys.executable, "-m", "venv", folder])
    if done.returncode == 0:
        done = subprocess.run([python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "h5py"], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode != 0:
        print(f"skipped: no h5py from PyPI: {done.stdout.strip()}")
        sys.exit(SKIPPED)


def crc32c(data):
    """Bit by bit, from the definition."""
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82f63b78 if crc & 1 else 0)
    return crc ^ 0xffffffff


def value_of(tensor, element, salt):
    return (tensor * 37 + element * 11 + salt * 5) % 251 - (0 if salt % 2 == 0 else 100)


def look_with_h5py(program, folder):
    try:
        import h5py
        import numpy
    except ImportError:
        print("skipped: no h5py; the test checkpoint_venv says why")
        sys.exit(SKIPPED)
    path = folder / "a.h5"
    done = run(program.command("sample", path))
    expect(done.returncode == 0, f"sample: {done.stdout}")
    with h5py.File(path) as file:
        expect(file.attrs["format"].decode() == "ostraka checkpoint" and file.attrs["format_version"] == 1, "format")
        expect(file["state"].attrs["steps"] == 3, "steps")

        def look(dataset, shape, values):
            found = dataset[()]
            kind = dataset.attrs["dtype"].decode()
            if kind == "bf16":
                found = (found.astype("u4") << 16).view("f4")
            expect(dataset.shape == shape, f"{dataset.name}: shape {dataset.shape}")
            expect(numpy.array_equal(numpy.asarray(found, "f8").ravel(), values), f"{dataset.name}: {found}")
            data = numpy.ascontiguousarray(dataset[()]).tobytes()
            expect(crc32c(data) == dataset.attrs["crc32c"], f"{dataset.name}: crc32c")
            return kind

        for group, salt in (("main_weight", 3), ("state/exp_avg", 4), ("state/exp_avg_sq", 5)):
            for number, shape in enumerate(((7, 3), (2, 5), (7,))):
                size = int(numpy.prod(shape))
                look(file[group][f"net.t{number}"], shape, [value_of(number, k, salt) for k in range(size)])
        expect(file["main_weight/net%2Ftied"] == file["main_weight/net.t1"], "tied names are one dataset")
        kinds = {"f64": "f8", "f32": "f4", "bf16": "u2", "f16": "f2", "i64": "i8", "i32": "i4", "u8": "u1"}
        for kind, stored in kinds.items():
            dataset = file[f"field/field.{kind}"]
            expect(dataset.dtype == numpy.dtype(stored), f"{kind}: stored as {dataset.dtype}")
            values = dataset[()].ravel() if kind == "u8" else [value_of(0, k, 0) for k in range(20)]
            expect(look(dataset, (5, 4), values) == kind, kind)
        look(file["field/scalar"], (), [value_of(0, 0, 3)])
        look(file["field/empty"], (0, 3), [])
        expect(file["user/time"][()] == 0.25 and file["user/salt"][()] == 3, "numbers")
        expect(file["user/note"][()].decode() == "größer" and file["user/nothing"][()] == b"", "text")
        expect(file["user/note"].attrs["length"] == 8, "length of a text")
        expect(crc32c("größer".encode()) == file["user/note"].attrs["crc32c"], "crc32c of a text")
    print(f"h5py {h5py.__version__} agrees")


def main(case, ranks, program, launcher):
    if case == "venv":
        return make_venv(ranks)
    with tempfile.TemporaryDirectory(prefix="ostraka-files.") as name:
        folder = Path(name)
        if case == "full_disk":
            with_own_disk("size=64m", "OSTRAKA_TEST_FULL_DISK", "FullDisk.*", ranks, program, launcher, folder)
        elif case == "read_only_disk":
            with_own_disk("ro", "OSTRAKA_TEST_READ_ONLY", "ReadOnlyDisk.*", ranks, program, launcher, folder)
        elif case == "die":
            die(int(ranks), Program(program, launcher), folder)
        elif case == "kill_async":
            kill_async(int(ranks), Program(program, launcher), folder)
        elif case == "h5py":
            look_with_h5py(Program(program, launcher), folder)
    return None


if __name__ == "__main__":
    separator = sys.argv.index("--")
    try:
        main(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[separator + 1:])
    except Unexpected as error:
        print(f"failed: {error}")
        sys.exit(1)
