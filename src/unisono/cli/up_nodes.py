"""The node processes of `unisono up`: started, heard of, started again."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from unisono.cli.output import BAD_INPUT
from unisono.model.errors import ServerError
from unisono.server import Child, Restarts
from unisono.server.child import ended

log = logging.getLogger("unisono.up")


class NodeProcess:
    """A node in a process of its own. It says `{"ready": true, ...}` on a line of its stdout, and stops on SIGTERM."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        env: Mapping[str, str],
        *,
        on_trouble: Callable[[ServerError], None],
        restarts: Restarts | None = None,
    ) -> None:
        self.name = name
        self.ready = asyncio.Event()  # not while it is started again
        self.restarts = 0
        self.facts: dict[str, Any] = {}  # what else it said when it was ready
        self._command, self._env = command, env
        self._on_trouble = on_trouble
        self._pauses = restarts or Restarts()
        self._was_ready = False
        self._child: Child | None = None
        self._life: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int | None:
        """Its process, while it runs."""
        return self._child.pid if self._child is not None and self._child.is_running else None

    @property
    def life(self) -> asyncio.Task[None]:
        """Ends, with ServerError, when the node is given up."""
        assert self._life is not None, "the node was not started"
        return self._life

    def start(self) -> None:
        """Start it, and again whenever it ends."""
        self._life = asyncio.create_task(self._live(), name=self.name)

    async def stop(self, within_s: float) -> None:
        """Stop it for good."""
        if self._life is not None:
            self._life.cancel()
            await asyncio.gather(self._life, return_exceptions=True)
        self.ready.clear()
        if self._child is not None and self._child.is_running and not await self._child.stop(within_s):
            log.warning("node %s did not stop in %g s and was killed", self.name, within_s)

    async def _live(self) -> None:
        while True:
            born = time.monotonic()
            self._child = await Child.start(
                self._command, name=f"node {self.name}", env=self._env, stdout=asyncio.subprocess.PIPE
            )
            await self._listen(self._child)
            code = await self._child.wait()
            self.ready.clear()
            pause_s = self._pauses.next_pause(time.monotonic() - born)
            if pause_s is None or (code == BAD_INPUT and not self._was_ready):
                raise ServerError(f"node {self.name} {ended(code)}, and is given up; see the log above")
            self._on_trouble(ServerError(f"node {self.name} {ended(code)}; it is started again"))
            await asyncio.sleep(pause_s)
            self.restarts += 1

    async def _listen(self, child: Child) -> None:
        """What it prints, until it ends; everything but the first line that says it is ready is for the log."""
        while True:
            try:
                line = await child.output.readline()
            except ValueError:  # longer than any line of a node
                continue
            if not line:
                return
            said: Any = None
            with suppress(msgspec.DecodeError):
                said = msgspec.json.decode(line)
            if isinstance(said, dict) and said.get("ready") is True and not self.ready.is_set():
                self.facts = {
                    key: value for key, value in said.items() if key not in ("ready", "name", "pid")
                }
                self._was_ready = True
                self.ready.set()
            else:
                log.info("node %s: %s", self.name, line.decode(errors="replace").rstrip())
