# SPDX-License-Identifier: Apache-2.0
"""What a tool writes to a terminal while it works."""
import os
import pty
import signal
import subprocess
import time


def shown_on_terminal(command):
    """(exit status, bytes) of a tool whose standard error is a terminal."""
    terminal, other_end = pty.openpty()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=other_end)
    os.set_blocking(terminal, False)
    shown = b""
    # A bar shows itself after half a second, which the work may not take: stopped until it does, it will.
    while process.poll() is None:
        if not shown:
            process.send_signal(signal.SIGSTOP)
            time.sleep(0.6)
            process.send_signal(signal.SIGCONT)
        time.sleep(0.01)
        shown += read_available(terminal)
    shown += read_available(terminal)
    os.close(other_end)
    os.close(terminal)
    return process.returncode, shown


def read_available(descriptor):
    try:
        return os.read(descriptor, 1 << 16)
    except BlockingIOError:
        return b""
