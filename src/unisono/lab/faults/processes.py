"""The processes of a run: started, killed, paused, woken, stopped."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import suppress
from pathlib import Path

from unisono.lab.faults.nursery import Birth, Nursery

LOOK_S = 0.02


class Process:
    """One process, in one life after another."""

    def __init__(
        self,
        nursery: Nursery,
        name: str,
        argv: list[str],
        folder: Path,
        *,
        program: bool = False,
        env: dict[str, str] | None = None,
    ) -> None:
        self.name = name
        self.argv = argv
        self.log = folder / f"{name}.log"
        self.pid = 0
        self.env = env or {}
        self._program = program
        self._said = 0  # bytes that former lives have written
        self._nursery = nursery

    async def start(self) -> None:
        """Begin a life, unless another fault has brought it back already."""
        if self.is_running:
            return
        self._said = self.log.stat().st_size if self.log.exists() else 0
        self.pid = await self._nursery.start(Birth(str(self.log), self.argv, self._program, self.env))

    @property
    def is_running(self) -> bool:
        """Whether it lives, awake or not."""
        return self.pid != 0 and self.pid not in self._nursery.ended

    @property
    def text(self) -> str:
        """What it has written in this life."""
        return self.log.read_bytes()[self._said :].decode(errors="replace") if self.log.exists() else ""

    @property
    def code(self) -> int | None:
        """How its last life ended."""
        return self._nursery.ended.get(self.pid)

    async def kill(self) -> None:
        """kill -9."""
        self._send(signal.SIGKILL)
        await self.ended(10.0)

    def pause(self) -> None:
        """It does nothing at all any more, and nobody is told."""
        self._send(signal.SIGSTOP)

    def wake(self) -> None:
        """It goes on as if nothing had been."""
        self._send(signal.SIGCONT)

    def ask_to_stop(self) -> None:
        """SIGTERM."""
        self._send(signal.SIGTERM)

    async def ended(self, within_s: float) -> bool:
        """Whether it has ended in time."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                while self.is_running:  # noqa: ASYNC110
                    await asyncio.sleep(LOOK_S)
        return not self.is_running

    def _send(self, number: signal.Signals) -> None:
        if self.is_running:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)
