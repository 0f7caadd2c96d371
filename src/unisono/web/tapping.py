"""Listens to the stamped events of one topic as they pass, without joining it: ids, stamps and times, never payloads."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from unisono.model.bundles import StampedBundle
from unisono.model.errors import ConfigError, FrameError, UnisonoError
from unisono.model.frames import Stamped
from unisono.model.ids import check_topic
from unisono.model.runs import run_of
from unisono.runtime.remote.client import Client
from unisono.runtime.remote.pieces import Delta, Lengthener
from unisono.runtime.remote.wire import decode_notes, events_on
from unisono.web.streaming import message

if TYPE_CHECKING:
    from unisono.ens.port import Interest

TAPS_MAX = 8
KEPT_MAX = 32  # events that are told at once; of more, the newest
PACE_S = 0.25
QUIET_S = 5.0


class Taps:
    """Who listens to what, on the connection of whoever watches."""

    def __init__(self) -> None:
        self.client: Client | None = None  # while there is a connection
        self._open = 0
        self.is_closed = False
        self._ending: set[asyncio.Task[None]] = set()

    @property
    def is_open(self) -> bool:
        """Whether somebody listens."""
        return self._open > 0

    def check(self, topic: str) -> str:
        """Return a topic that can be listened to now; ConfigError otherwise."""
        if self.client is None:
            raise ConfigError("no system is connected; look at the live view")
        if self._open >= TAPS_MAX:
            raise ConfigError("too many pages listen; close one")
        return check_topic(topic)

    async def stream(self, topic: str) -> AsyncGenerator[bytes, None]:
        """What passes there, until the page goes away or the connection is lost."""
        client = self.client
        assert client is not None
        tap = _Tap()
        self._open += 1
        interest = None
        try:
            interest = await client.service.subscribe(frozenset({events_on(topic)}), tap.hear)
            yield message("listening", {"topic": topic})
            while client is self.client and not self.is_closed:
                with suppress(TimeoutError):
                    async with asyncio.timeout(QUIET_S):
                        await tap.heard.wait()
                yield message("passed", tap.take())
                await asyncio.sleep(PACE_S)
        finally:
            self._open -= 1
            if interest is not None:  # not here: whoever is cancelled cannot wait
                ending = asyncio.create_task(_end(client, interest))
                self._ending.add(ending)
                ending.add_done_callback(self._ending.discard)


async def _end(client: Client, interest: Interest) -> None:
    with suppress(UnisonoError, ConnectionError):
        await client.service.unsubscribe(interest)


class _Tap:
    """What has passed since it was told last."""

    def __init__(self) -> None:
        self.heard = asyncio.Event()
        self._clocks = Lengthener()
        self._kept: deque[dict[str, Any]] = deque(maxlen=KEPT_MAX)
        self._passed = 0

    def hear(self, frame: object) -> None:
        """A frame with notifications."""
        assert isinstance(frame, bytes)
        with suppress(FrameError):
            for note in decode_notes(frame):
                if isinstance(note, Stamped):
                    self._add(note)
                elif isinstance(note, (StampedBundle, Delta)):
                    whole = self._clocks.lengthen(note)
                    if isinstance(whole, StampedBundle):  # else its stamps are not known
                        for event in run_of(whole).events():
                            self._add(event)

    def _add(self, event: Stamped) -> None:
        publication = event.publication
        self._passed += 1
        self._kept.append(
            {
                "event": str(publication.id),
                "topic": publication.topic,
                "number": event.number,
                "epoch": event.epoch,
                "stamp": event.entries,
                "published_at": publication.published_at,
                "heard_at": time.time(),
                "bytes": len(publication.body),
            }
        )
        self.heard.set()

    def take(self) -> dict[str, Any]:
        """Some of what has passed, and how much did."""
        told = {"events": list(self._kept), "passed": self._passed}
        self._kept.clear()
        self._passed = 0
        self.heard.clear()
        return told
