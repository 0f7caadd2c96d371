"""A process of ours that never outlives us, and the pauses between its restarts."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from unisono.model.errors import ServerError
from unisono.server import guard

MODE = "exec" if sys.platform == "linux" else "watch"
KILLED_S = 5.0
LINE_MAX = 1024 * 1024  # of what a child prints; nodes print short lines


@dataclass(slots=True)
class Restarts:
    """How long to wait before the next start: twice as long each time, from the beginning after a long life."""

    first_s: float = 0.1
    most_s: float = 5.0
    long_life_s: float = 10.0
    limit: int = 10  # starts in a row that did not last; then it is given up
    in_a_row: int = 0

    def next_pause(self, lived_s: float) -> float | None:
        """Seconds to wait after a life of `lived_s`; None when it is time to give up."""
        self.in_a_row = 1 if lived_s >= self.long_life_s else self.in_a_row + 1
        if self.in_a_row > self.limit:
            return None
        return min(self.most_s, self.first_s * 2.0 ** (self.in_a_row - 1))


class Child:
    """One process, in a session of its own (a Ctrl-C is for us, who stop things in order), tied to our life."""

    def __init__(self, process: asyncio.subprocess.Process, name: str) -> None:
        self._process = process
        self.name = name

    @classmethod
    async def start(
        cls,
        program: Sequence[str],
        *,
        name: str,
        env: Mapping[str, str] | None = None,
        stdout: int | IO[bytes] | None = None,
        stderr: int | IO[bytes] | None = None,
        last_signal: signal.Signals = signal.SIGKILL,
        keep_open: Sequence[int] = (),
        mode: str = MODE,
    ) -> Child:
        """Start a program; `last_signal` is what the kernel sends it should we die."""
        command = [sys.executable, "-I", "-S", guard.__file__, mode, str(int(last_signal)), str(os.getpid())]
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                *program,
                env=None if env is None else {**os.environ, **env},
                stdin=asyncio.subprocess.PIPE if mode == "watch" else asyncio.subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                pass_fds=tuple(keep_open),
                start_new_session=True,
                limit=LINE_MAX,
            )
        except OSError as error:
            raise ServerError(f"{name} cannot be started: {error}") from error
        return cls(process, name)

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether it has not ended."""
        return self._process.returncode is None

    @property
    def output(self) -> asyncio.StreamReader:
        """What it prints, if it was started with a pipe for that."""
        assert self._process.stdout is not None
        return self._process.stdout

    async def wait(self) -> int:
        """Its exit code, when it has ended; negative for a signal."""
        return await self._process.wait()

    def send(self, number: signal.Signals) -> None:
        """Send it a signal, if it is still there."""
        with suppress(ProcessLookupError):
            self._process.send_signal(number)

    async def stop(self, within_s: float) -> bool:
        """Ask it to end, and kill it if it does not; returns whether it ended by itself."""
        self.send(signal.SIGTERM)
        try:
            async with asyncio.timeout(within_s):
                await self._process.wait()
            return True
        except TimeoutError:
            with suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)  # its session's group: whatever it started goes with it
            with suppress(TimeoutError):  # the kernel may keep it for a while, in a system call
                async with asyncio.timeout(KILLED_S):
                    await self._process.wait()
            return False


def ended(code: int) -> str:
    """An exit code as a phrase."""
    if code < 0:
        with suppress(ValueError):
            return f"was ended by {signal.Signals(-code).name}"
    return f"ended with exit code {code}"


def tail(path: Path, lines: int = 5) -> str:
    """The last lines of a file, for an error message; empty if there is none."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - 4096))
            return "\n".join(file.read().decode(errors="replace").strip().splitlines()[-lines:])
    except OSError:
        return ""
