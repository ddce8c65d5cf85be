# SPDX-License-Identifier: Apache-2.0
"""Chromium without a window, spoken to over two pipes (DevTools protocol)."""
import base64
import fcntl
import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time

PROGRAMS = ("chromium-headless-shell", "chromium", "google-chrome")
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--mute-audio",
         "--disable-background-networking", "--disable-component-update", "--disable-extensions", "--disable-sync",
         "--remote-debugging-pipe")


def find():
    return next(filter(None, map(shutil.which, PROGRAMS)), None)


class Browser:
    """A page with what it logs; `errors` are exceptions and messages of level error or warning."""

    def __init__(self, program, seconds=100):
        self.deadline = time.monotonic() + seconds
        self.folder = tempfile.mkdtemp(prefix="ostraka-chromium-")
        self.errors, self.requests, self.number, self.pending = [], [], 0, b""
        there, self.output = os.pipe()  # the browser reads its descriptor 3 and writes 4
        self.input, back = os.pipe()
        # Away from 3 and 4 themselves.
        there, back = (self.moved(pipe) for pipe in (there, back))
        self.process = subprocess.Popen(
            ["bash", "-c", f'exec 3<&{there} 4>&{back} {there}<&- {back}>&-; exec "$@"', "bash", program, *FLAGS,
             f"--user-data-dir={self.folder}", "about:blank"],
            pass_fds=(there, back), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True)
        os.close(there)
        os.close(back)
        self.session = None
        target = next(t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(domain + ".enable")

    @staticmethod
    def moved(descriptor):
        high = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 10)
        os.close(descriptor)
        return high

    def close(self):
        """Ends the browser, and its helpers, which hold files for a moment longer."""
        try:
            self.session = None
            self.call("Browser.close")
            self.process.wait(10)
        except (OSError, RuntimeError, subprocess.TimeoutExpired):
            pass
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        os.close(self.input)
        os.close(self.output)
        for _ in range(100):
            shutil.rmtree(self.folder, ignore_errors=True)
            if not os.path.exists(self.folder):
                return
            time.sleep(0.05)

    def read(self):
        """The next message."""
        while b"\0" not in self.pending:
            if not select.select([self.input], [], [], max(0, self.deadline - time.monotonic()))[0]:
                raise TimeoutError("the browser does not answer")
            data = os.read(self.input, 1 << 16)
            if not data:
                raise RuntimeError("the browser ended")
            self.pending += data
        message, self.pending = self.pending.split(b"\0", 1)
        return json.loads(message)

    def note(self, message):
        method, more = message.get("method"), message.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.errors.append(more["exceptionDetails"])
        elif method == "Runtime.consoleAPICalled":
            self.errors.append(more)
        elif method == "Log.entryAdded" and more["entry"]["level"] in ("error", "warning"):
            self.errors.append(more["entry"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(more["request"]["url"])

    def call(self, method, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.output, json.dumps(message).encode() + b"\0")
        while True:
            found = self.read()
            if found.get("id") == self.number:
                if "error" in found:
                    raise RuntimeError(f"{method}: {found['error']}")
                return found["result"]
            self.note(found)

    def open(self, url):
        self.call("Page.navigate", url=url)
        while self.run("document.readyState") != "complete" or self.run("location.href").split("#")[0] != url:
            if time.monotonic() > self.deadline:
                raise TimeoutError(url)
            time.sleep(0.02)

    def run(self, script):
        """The value of an expression."""
        found = self.call("Runtime.evaluate", expression=script, returnByValue=True)
        if "exceptionDetails" in found:
            raise RuntimeError(found["exceptionDetails"])
        return found["result"].get("value")

    def press(self, key, code):
        """A key that goes to what has the focus."""
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code)

    def click(self, x, y):
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def set_dark(self, dark):
        self.call("Emulation.setEmulatedMedia",
                  features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def screenshot(self, path):
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot")["data"]))
