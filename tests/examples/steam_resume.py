# SPDX-License-Identifier: Apache-2.0
"""Stops the example steam and resumes it, on as many ranks and on another number.
usage: steam_resume.py TOOL FOLDER STEAM DATA -- LAUNCH ... -- LAUNCH_ON_OTHERS ..."""
import pathlib
import subprocess
import sys

STOPPED, EPOCHS = 2, 4
CLOSE = ["--rtol", "1e-9", "--atol", "1e-12"]  # sums over ranks in another order, in f64, and AdamW's quotients of them


def run(command, expected=0):
    result = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if result.returncode != expected:
        sys.exit(f"{command}\n{result.stdout}\nexit status {result.returncode}, expected {expected}")
    return result.stdout


def main():
    tool, folder, steam, data = sys.argv[1:5]
    own, other = (part.split("\n") for part in "\n".join(sys.argv[6:]).split("\n--\n"))
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    whole, stopped, moved = (folder / name for name in ("whole.h5", "stopped.h5", "moved.h5"))
    run([*own, steam, data, EPOCHS, "--every", EPOCHS, "--file", whole])
    run([*own, steam, data, STOPPED, "--every", 1, "--file", stopped])
    moved.write_bytes(stopped.read_bytes())
    run([tool, "diff", whole, stopped], expected=1)
    for launch, file in ((own, stopped), (other, moved)):
        output = run([*launch, steam, data, EPOCHS, "--every", EPOCHS, "--file", file, "--resume"])
        assert f"resumed behind epoch {STOPPED}" in output, output
    print(run([tool, "diff", whole, stopped]))
    print(run([tool, "diff", *CLOSE, whole, moved]))


main()
