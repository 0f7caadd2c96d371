"""`unisono` commands as processes of their own, and what they print."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress

START_S = 30


class Command:
    """A `unisono` command that is running."""

    def __init__(self, url, *words, stdin=None, open_stdin=False):
        self.process = subprocess.Popen(
            [sys.executable, "-m", "unisono", *words],
            env=os.environ | {"UNISONO_URL": url},
            stdin=subprocess.PIPE if stdin is not None else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.lines = []
        self.errors = []
        self._readers = [
            threading.Thread(target=self._read, args=args, daemon=True)
            for args in ((self.process.stdout, self.lines), (self.process.stderr, self.errors))
        ]
        for reader in self._readers:
            reader.start()
        if stdin is not None and not open_stdin:
            threading.Thread(target=self._write, args=(stdin,), daemon=True).start()

    def _write(self, text):
        with suppress(BrokenPipeError):  # how it ended is for the test to see
            self.process.stdin.write(text)
            self.process.stdin.close()

    def _read(self, stream, lines):
        for line in stream:
            lines.append(line)

    def wait_for_line(self, text, timeout=START_S):
        self.wait_for(lambda lines: any(text in line for line in lines), timeout)

    def wait_for(self, is_enough, timeout=START_S):
        """Return when what it has printed is enough."""
        end = time.monotonic() + timeout
        while not is_enough(list(self.lines)):
            assert self.process.poll() is None, "".join(self.errors)
            assert time.monotonic() < end, f"not enough in {self.lines[-3:]}: {''.join(self.errors)}"
            time.sleep(0.02)

    def end(self, timeout=START_S):
        code = self.process.wait(timeout)
        for reader in self._readers:
            reader.join(timeout)
        return code

    def kill(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(15)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        for reader in self._readers:
            reader.join(15)
        if self.process.stdin is not None:
            with suppress(BrokenPipeError):
                self.process.stdin.close()
        self.process.stdout.close()
        self.process.stderr.close()


def start_nodes(shell, count):
    nodes = [shell("node", "--name", f"n{i}", "--json") for i in range(count)]
    for node in nodes:
        node.wait_for_line('"ready":true')
    return nodes


def event_lines(topics, publisher, count):
    return "".join(
        json.dumps({"topic": topics[i % len(topics)], "data": {"by": publisher, "n": i}}) + "\n"
        for i in range(count)
    )


def heard(command):
    """The events that `unisono sub --json` has printed."""
    whole = [line for line in list(command.lines) if line.endswith("\n")]  # it may have been killed in one
    return [line for line in map(json.loads, whole) if "id" in line]
