"""Where the processes of a run are born: a process that has everything imported and forks on request.

A child is a process like any other, ready in a hundredth of the time. When whoever asked is gone, so are the children.
Requests are lines of JSON on standard input, answers and ends of children are lines on standard output.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import os
import runpy
import select
import signal
import sys
from pathlib import Path

import msgspec

PRELOADED = (
    "unisono.cli.main",
    "unisono.lab.faults.diary",
    "unisono.runtime.remote.client",
    "nats.aio.client",
)
LOOK_S = 0.02


class Birth(msgspec.Struct, frozen=True):
    """A process that is wanted: a Python module with arguments, or a program."""

    log: str  # where it writes
    argv: list[str]
    program: bool = False  # argv[0] is a path, not a module
    env: dict[str, str] = {}  # a module with a different environment is started afresh


class Tidings(msgspec.Struct, frozen=True):
    """A child was born, or has ended."""

    pid: int
    code: int | None = None  # None: born; below 0: the signal that ended it


class Nursery:
    """The asker's side: starts processes and knows which of them have ended."""

    def __init__(self) -> None:
        self.ended: dict[int, int] = {}  # pid -> exit code
        self._born: asyncio.Queue[int] = asyncio.Queue()
        self._asking = asyncio.Lock()

    async def open(self, log: Path) -> None:
        """Start the process that forks."""
        with log.open("ab") as errors:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "unisono.lab.faults.nursery",
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=errors,
                process_group=0,  # what is meant for us from a keyboard is not meant for it
            )
        self._reading = asyncio.create_task(self._read())

    async def start(self, birth: Birth) -> int:
        """Start a process; returns its id."""
        assert self._process.stdin is not None
        async with self._asking:
            self._process.stdin.write(msgspec.json.encode(birth) + b"\n")
            async with asyncio.timeout(60):
                return await self._born.get()

    async def close(self) -> None:
        """Kill whoever is left."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        await self._process.wait()
        self._reading.cancel()

    async def _read(self) -> None:
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            tidings = msgspec.json.decode(line, type=Tidings)
            if tidings.code is None:
                self._born.put_nowait(tidings.pid)
            else:
                self.ended[tidings.pid] = tidings.code


def _serve() -> None:
    for module in PRELOADED:
        importlib.import_module(module)
    gc.collect()
    gc.freeze()
    children: set[int] = set()
    rest = b""
    while True:
        if select.select([0], [], [], LOOK_S)[0]:
            data = os.read(0, 65536)
            if not data:
                break
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                pid = _bear(msgspec.json.decode(line, type=Birth))
                children.add(pid)
                _tell(Tidings(pid))
        while children and (ended := os.waitpid(-1, os.WNOHANG))[0]:
            children.discard(ended[0])
            _tell(Tidings(ended[0], os.waitstatus_to_exitcode(ended[1])))
    for pid in children:
        os.kill(pid, signal.SIGKILL)


def _tell(tidings: Tidings) -> None:
    os.write(1, msgspec.json.encode(tidings) + b"\n")


def _bear(birth: Birth) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        log = os.open(birth.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(log, 1)
        os.dup2(log, 2)
        if birth.program:
            os.execve(birth.argv[0], birth.argv, os.environ | birth.env)
        if birth.env:
            words = [sys.executable, "-m", *birth.argv]
            os.execve(sys.executable, words, os.environ | birth.env)
        sys.argv = birth.argv
        runpy.run_module(birth.argv[0], run_name="__main__", alter_sys=True)
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    _serve()
