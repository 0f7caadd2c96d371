"""One engine behind its links, at one address: inputs in, effects carried out in their order."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Container
from typing import TypeAlias

from unisono.engines.contract import Engine
from unisono.engines.effects import Effect
from unisono.engines.inputs import TICK, Input
from unisono.engines.links import LinkEffect, Links, LinkSettings, Transmit
from unisono.model.frames import Packet
from unisono.runtime.timer import EngineTimer

CarryOut: TypeAlias = Callable[[Effect], Awaitable[object] | None]
"""Does what an effect says; what comes after it waits for what is returned."""

# A broker's connection loses nothing while it stands: what is repeated early would only be in the way.
LINKS = LinkSettings(retry_s=0.5, retry_s_max=5.0, probe_after=3)

log = logging.getLogger("unisono")


class Host:
    """Drives one engine."""

    def __init__(
        self,
        address: str,
        engine: Engine,
        life: int,
        transmit: Callable[[str, Packet], None],
        carry_out: CarryOut,
        settings: LinkSettings = LINKS,
        kept: Container[str] = frozenset(),
        afterwards: Callable[[], None] | None = None,
        soon: Callable[[Callable[[], None]], object] | None = None,
    ) -> None:
        self.address = address
        self.links = Links(engine, settings, life, kept)
        self.stumbles = 0  # inputs that made the engine raise
        self._transmit = transmit
        self._carry_out = carry_out
        self._afterwards = (
            afterwards  # called when everything that followed from an input has been carried out
        )
        self._soon = soon  # when it looks at the engine's timer; None: at once
        self._resets = False
        self._loop = asyncio.get_running_loop()
        self._timer = EngineTimer(self.links, self._tick)
        self._effects: deque[LinkEffect] = deque()
        self._working = False
        self._waits_for: asyncio.Future[object] | None = None
        self._closed = False

    def handle(self, input: Input) -> None:
        """Let the engine take an input, and carry out what follows."""
        if self._closed:
            return
        try:
            self._effects.extend(self.links.handle(input, self._loop.time()))
        except Exception:
            self._stumble(input)
        self._go_through()

    def arrived(self, source: str, packet: Packet, size: int = 0) -> None:
        """The network brought a packet, of so many bytes."""
        if self._closed:
            return
        try:
            self._effects.extend(self.links.arrived(source, packet, size, self._loop.time()))
        except Exception:
            self._stumble(packet)
        self._go_through()

    def _stumble(self, over: object) -> None:
        self.stumbles += 1
        log.exception("'%s' could not make sense of %.300r", self.address, over)

    def _go_through(self) -> None:
        if self._working:
            return  # whoever is at it goes on with these
        self._work()
        if self._afterwards is not None:
            self._afterwards()
        if self._soon is None:
            self._reset()
        elif not self._resets:
            self._resets = True
            self._soon(self._reset)

    def _reset(self) -> None:
        self._resets = False
        if not self._closed:
            self._timer.reset()

    @property
    def is_idle(self) -> bool:
        """Whether everything that the engine asked for has been carried out."""
        return not self._effects and self._waits_for is None and not self._closed

    def close(self) -> asyncio.Future[object] | None:
        """Do nothing any more; returns what is still being carried out, cancelled."""
        self._closed = True
        self._timer.cancel()
        self._effects.clear()
        if self._waits_for is not None:
            self._waits_for.cancel()
        return self._waits_for

    def _tick(self) -> None:
        self.handle(TICK)

    def _work(self) -> None:
        self._working = True
        try:
            while self._effects and self._waits_for is None:
                effect = self._effects.popleft()
                if type(effect) is Transmit:
                    if effect.packet.message is not None or not self._answers(effect.to):
                        self._transmit(effect.to, effect.packet)
                    continue
                pending = self._carry_out(effect)  # type: ignore[arg-type]
                if pending is not None:
                    self._waits_for = asyncio.ensure_future(pending)
                    self._waits_for.add_done_callback(self._go_on)
        finally:
            self._working = False

    def _answers(self, to: str) -> bool:
        """Whether a packet goes the same way at once, which acknowledges everything that one without a message would."""
        last = self._effects[-1] if self._effects else None
        return type(last) is Transmit and last.to == to

    def _go_on(self, done: asyncio.Future[object]) -> None:
        self._waits_for = None
        if self._closed or done.cancelled():
            return
        error = done.exception()
        if error is not None:
            log.error("'%s': %s: %s", self.address, type(error).__name__, error)
        self._work()
