"""Nodes, publishers and subscribers in processes of their own, of this release or of the one before."""

from __future__ import annotations

import asyncio
import atexit
import functools
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from contextlib import asynccontextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PREVIOUS = (ROOT / "tests" / "data" / "previous_release.txt").read_text().split()[0]
READY_S = 30.0
STOP_S = 15.0


class NodeProcess:
    """`unisono node`, started, stopped as an operator does it, or killed."""

    def __init__(self, url, name, source=None):
        self.name = name
        self._url = url
        self._source = source
        self._process = None

    async def start(self):
        """Return when it serves."""
        command = [sys.executable, "-m", "unisono", "node", "--json", "--url", self._url, "--name", self.name]
        env = dict(os.environ)
        if self._source is not None:
            env["PYTHONPATH"] = str(self._source)
        self._process = await asyncio.create_subprocess_exec(
            *command, stdout=asyncio.subprocess.PIPE, env=env
        )
        async with asyncio.timeout(READY_S):
            said = json.loads(await self._process.stdout.readline())
        assert said["ready"]

    async def stop(self, number=signal.SIGTERM):
        """Ask it to end; returns its exit code."""
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(number)
        async with asyncio.timeout(STOP_S):
            return await self._process.wait()

    async def kill(self):
        """End it as a crash would."""
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()


@asynccontextmanager
async def node_processes(url, *names, source=None):
    """Node processes, killed in the end if they are still there."""
    async with replacements(url, *names, source=source) as processes:
        for node in processes:
            await node.start()
        yield processes


@asynccontextmanager
async def replacements(url, *names, source=None):
    """The same, to be started later."""
    processes = [NodeProcess(url, name, source) for name in names]
    try:
        yield processes
    finally:
        await asyncio.gather(*(node.kill() for node in processes))


@functools.cache
def has_previous_release():
    """Whether the release before this one is in the history of this copy."""
    known = subprocess.run(["git", "cat-file", "-e", f"{PREVIOUS}^{{commit}}"], cwd=ROOT, capture_output=True)
    return known.returncode == 0


@functools.cache
def previous_release():
    """The source folder of the release before this one, from the history."""
    folder = Path(tempfile.mkdtemp(prefix="unisono-previous-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    archive = subprocess.run(["git", "archive", PREVIOUS, "src"], cwd=ROOT, capture_output=True, check=True)
    subprocess.run(["tar", "-x", "-C", str(folder)], input=archive.stdout, check=True)
    return folder / "src"
