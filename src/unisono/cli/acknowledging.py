"""`unisono sub --ack manual`: whoever reads the events acknowledges them, by their ids on our stdin."""

from __future__ import annotations

import asyncio
import sys
import threading
from contextlib import suppress
from typing import Any

from unisono.cli.output import people
from unisono.model.errors import UnisonoError
from unisono.model.event import Event
from unisono.runtime.subscription import Subscription


class Acknowledger:
    """Acknowledges the event whose id is read, and all before it."""

    def __init__(self, events: Subscription) -> None:
        self._events = events
        self._shown: dict[str, Event[Any]] = {}  # not acknowledged yet, in order
        self._loop = asyncio.get_running_loop()
        threading.Thread(target=self._read, name="unisono-acknowledger", daemon=True).start()

    def shown(self, event: Event[Any]) -> None:
        """An event was printed."""
        self._shown[event.id] = event

    def _read(self) -> None:
        for line in sys.stdin:
            with suppress(RuntimeError):  # the loop is closed: nobody is interested any more
                self._loop.call_soon_threadsafe(self._acknowledge, line.strip())

    def _acknowledge(self, id: str) -> None:
        event = self._shown.get(id)
        if event is None:
            if id:
                people.print(f"[yellow]no event with id {id!r} waits to be acknowledged[/]", soft_wrap=True)
            return
        try:
            self._events.ack_nowait(event)
        except UnisonoError as error:
            people.print(f"[yellow]{error}[/]", soft_wrap=True)
            return
        for other in list(self._shown):
            del self._shown[other]
            if other == id:
                return
