# SPDX-License-Identifier: Apache-2.0
"""Makes the virtual environment of tests that read files with other programs, once per build folder.
usage: python_environment.py FOLDER PACKAGE ..."""
import pathlib
import shutil
import subprocess
import sys
import venv


def main():
    folder, packages = pathlib.Path(sys.argv[1]), sys.argv[2:]
    complete = folder / "complete"
    wanted = " ".join([sys.version, *packages])
    if complete.exists() and complete.read_text() == wanted:
        return
    shutil.rmtree(folder, ignore_errors=True)
    venv.create(folder, with_pip=True)
    subprocess.run([folder / "bin/python", "-m", "pip", "install", "-q", "--disable-pip-version-check",
                    "--only-binary", ":all:", *packages], check=True)
    complete.write_text(wanted)


main()
