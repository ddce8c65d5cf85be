#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of runs that die, on disks that are full or read-only, and as h5py sees them.

usage: checkpoint_files.py CASE RANKS PROGRAM -- LAUNCHER ...   exit status 0 as expected, 1 not, 77 skipped with a reason
  die               a rank ends at every call of the system in turn (PROGRAM: checkpoint_program)
  die_anywhere      the same at calls of all libraries, HDF5's too
  kill_async        all ranks are killed while an asynchronous save is in flight
  full_disk read_only_disk   PROGRAM, a test, with a file system of its own
  h5py              reads every tensor and value; by a python that has h5py
"""
import os
import random
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


def is_full():
    return os.environ.get("OSTRAKA_TEST_FULL") == "1"


def die_at(program, path, call, number, victim):
    """The salt of the file behind it, and whether the rank died."""
    done = run(program.command("die", path, 7, call, number, victim))
    has_died = done.returncode != 0
    salt = program.salt(path)
    if not has_died:  # there was no such call
        expect(salt == 7 and not partial_files(path.parent), "expected the new file and no other")
    else:
        print(f"rank {victim} died at {call} {number}: the file of salt {salt}")
    if salt != 4:
        program.save(path, 4)
        expect(not partial_files(path.parent), "expected that a save removes what was left")
    return salt, has_died


def die(ranks, program, folder):
    path = folder / "a.h5"
    deaths = 0
    program.save(path, 4)
    calls = {"open": 9, "pwritev": 3, "ftruncate": 2, "fsync": 9, "rename": 9}
    cases = [(victim, call) for victim in range(ranks) for call in calls]
    if not is_full():
        cases = [(0, "fsync"), (0, "rename"), (ranks - 1, "pwritev")]
    for victim, call in cases:
        for number in range(1, calls[call] + 1):
            salt, has_died = die_at(program, path, call, number, victim)
            if not has_died:
                break
            deaths += 1
            behind_rename = victim == 0 and (call, number) in (("open", 3), ("fsync", 2))
            expect(salt == (7 if behind_rename else 4), "expected the old file, the new one behind the rename")
    expect(deaths >= len(cases) + 1, f"expected {len(cases) + 1} deaths or more, found {deaths}")


def die_anywhere(ranks, program, folder):
    """At calls of any library, HDF5's too: all, or a few at random."""
    path = folder / "a.h5"
    program.save(path, 4)
    for victim in range(ranks):
        if not is_full() and victim > 0:
            break
        behind = 0  # of the rename
        seed = random.randrange(1000)
        numbers = range(1, 1000) if is_full() else sorted(random.Random(seed).sample(range(1, 14), 4))
        print(f"seed {seed}")
        for number in numbers:
            salt, has_died = die_at(program, path, "call", number, victim)
            if not has_died:
                expect(number > 12 or victim > 0, "expected more calls")
                break
            behind += salt == 7
            expect(salt == (7 if behind else 4), "expected the old file, from the rename on the new one")
        expect(not is_full() or behind == (3 if victim == 0 else 0), f"{behind} deaths behind the rename")


def kill(job, ranks, program, folder):
    """Kills all ranks when all have written their process numbers."""
    try:
        end = time.monotonic() + WAIT
        pids = []
        while len(pids) < ranks:
            expect(time.monotonic() < end and job.poll() is None, "the save did not start")
            time.sleep(0.02)
            pids = [int(path.read_text()) for path in folder.glob("pid.*") if path.suffix != ".draft"]
        for pid in pids:
            if os.readlink(f"/proc/{pid}/exe") == os.path.realpath(program.program):
                os.kill(pid, signal.SIGKILL)
        return job.communicate(timeout=WAIT)[0]
    finally:
        job.kill()
        for path in folder.glob("pid.*"):
            path.unlink()


def kill_async(ranks, program, folder):
    """In the middle of a byte stream, at random; first before its first byte, and when all is written but the name."""
    path = folder / "a.h5"
    program.save(path, 4)
    seed = random.randrange(1000000)
    print(f"seed {seed}")
    places = random.Random(seed)
    shares = [[0] * ranks, [1] * ranks] + [[places.random() for _ in range(ranks)] for _ in range(30 if is_full() else 2)]
    for share in shares:
        job = subprocess.Popen(program.command("hold", path, 7, folder, *share), text=True, stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL)
        wrote = kill(job, ranks, program, folder).splitlines()
        print("; ".join(line for line in wrote if line.startswith("wrote")))
        partial = [entry for entry in folder.iterdir() if ".partial-" in entry.name]
        expect(len(partial) == 1 and partial[0].stat().st_size > 0, "expected a file that was not complete")
        expect(program.salt(path) == 4, "expected the old file")
    program.save(path, 5)
    expect(not partial_files(folder) and program.salt(path) == 5, "expected a new file and no other")
    expect([entry.name for entry in folder.iterdir()] == ["a.h5"], "expected nothing else")


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
    import h5py
    import numpy
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
    with tempfile.TemporaryDirectory(prefix="ostraka-files.") as name:
        folder = Path(name)
        if case == "full_disk":
            with_own_disk("size=64m", "OSTRAKA_TEST_FULL_DISK", "FullDisk.*", ranks, program, launcher, folder)
        elif case == "read_only_disk":
            with_own_disk("ro", "OSTRAKA_TEST_READ_ONLY", "ReadOnlyDisk.*", ranks, program, launcher, folder)
        elif case == "die":
            die(int(ranks), Program(program, launcher), folder)
        elif case == "die_anywhere":
            die_anywhere(int(ranks), Program(program, launcher), folder)
        elif case == "kill_async":
            kill_async(int(ranks), Program(program, launcher), folder)
        elif case == "h5py":
            look_with_h5py(Program(program, launcher), folder)


if __name__ == "__main__":
    separator = sys.argv.index("--")
    try:
        main(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[separator + 1:])
    except Unexpected as error:
        print(f"failed: {error}")
        sys.exit(1)
