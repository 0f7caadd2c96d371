"""Puts what a broker says on the service, what it says in one turn of the loop together."""

from __future__ import annotations

import asyncio
import logging
from random import Random

from unisono.engines.deadline_causal.effects import EVERYBODY, Send
from unisono.engines.deadline_causal.frames import BrokerFrame, Multicast
from unisono.ens.port import EventNotificationService
from unisono.model.errors import BackPressureError, ClosedError, PayloadError
from unisono.runtime.deadline.settings import Deadlines
from unisono.runtime.deadline.wire import Letter, encode, events_on, for_all, halves, inbox_of

log = logging.getLogger("unisono")


class DeadlinePost:
    """Outgoing letters of one broker."""

    def __init__(
        self, service: EventNotificationService, client: str, broker: str, deadlines: Deadlines
    ) -> None:
        self.refused = 0  # letters that the service did not take; gossip repeats what was in them
        self._service = service
        self._client = client
        self._broker = broker
        self._pace = deadlines.pace
        self._jitter_s = deadlines.jitter_s
        self._loss = deadlines.loss
        self._random = Random()
        self._waiting: dict[str, list[BrokerFrame]] = {}
        self._scheduled = False

    def send(self, effect: Send) -> None:
        """Say something to somebody, or to everybody whom it concerns."""
        to, frame = effect.to, effect.frame
        if isinstance(frame, Multicast):
            where = events_on(self._client, frame.event.topic)
        else:
            where = for_all(self._client) if to == EVERYBODY else inbox_of(self._client, to)
        self._waiting.setdefault(where, []).append(frame)  # type: ignore[arg-type]  # a bus has no seats
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self.flush)

    def flush(self) -> None:
        """Hand over everything that waits."""
        self._scheduled = False
        waiting, self._waiting = self._waiting, {}
        for where, frames in waiting.items():
            self._publish(where, tuple(frames))

    def _publish(self, where: str, frames: tuple[BrokerFrame, ...]) -> None:
        data = encode(Letter(self._broker, self._pace, frames))
        if len(data) > self._service.capabilities.frame_bytes_max:
            half = len(frames) // 2
            parts = (frames[:half], frames[half:]) if half else [(f,) for f in halves(frames[0]) or ()]
            if parts:
                for part in parts:
                    self._publish(where, part)
                return
        if self._loss and self._random.random() < self._loss:
            return
        if self._jitter_s:
            delay_s = self._random.random() * self._jitter_s
            asyncio.get_running_loop().call_later(delay_s, self._hand_over, where, data)
        else:
            self._hand_over(where, data)

    def _hand_over(self, where: str, data: bytes) -> None:
        try:
            self._service.publish((where,), data)
        except (BackPressureError, ClosedError, PayloadError) as error:
            self.refused += 1
            log.debug("a letter on %s was not taken: %s", where, error)
