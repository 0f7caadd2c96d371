"""A subscription to events with deadlines: causes before effects, fresh or not at all."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from unisono.model.errors import ClosedError
from unisono.model.event import Event
from unisono.model.frames import Publication
from unisono.runtime.options import Options, check_fewer, check_more, check_topics
from unisono.runtime.subscription import Subscription

if TYPE_CHECKING:
    from unisono.runtime.deadline.broker import DeadlineBroker
    from unisono.runtime.exchange import Exchange
    from unisono.runtime.recorder import Recorder


class DeadlineSubscription(Subscription):
    """Events of some topics, handed over in causal order and never after their deadlines.

    The hold-back is that of the bus: all its subscriptions with deadlines are one receiver.
    """

    def __init__(
        self,
        broker: DeadlineBroker,
        exchange: Exchange,
        name: str,
        asked: frozenset[str],
        options: Options,
        recorder: Recorder | None,
    ) -> None:
        assert options.deadline is not None
        broker.deadlines.check(options.deadline)
        # Nobody waits for a slow application: what waits for it becomes too late.
        slow = "drop" if options.slow == "wait" else options.slow
        super().__init__(exchange, name, asked, replace(options, on_gap="skip", slow=slow), recorder)
        self._broker = broker

    # Opening and closing.

    async def open(self) -> None:
        """Start listening: every event that is told from here on is owed, if it comes in time."""
        if self._opened and not self._closed:
            return
        self._check_may_open()
        self._hold(frozenset(topic for topic in self.asked if topic not in self.patterns))
        await self._broker.admit(self)
        if self._closed:
            raise ClosedError(f"subscription '{self.name}' was closed while it opened; make a new one")
        self._opened = True

    async def close(self) -> None:
        """Stop listening; events not yet taken are discarded."""
        if self._closed:
            return
        self._closed = True
        self._end()
        self._empty()
        if self._opened:
            self._record_left(self.topics)
        if self.on_close is not None:
            self.on_close(self)
        if self._opened:
            await self._broker.listen()

    def _end(self) -> None:
        self._broker.dismiss(self)
        super()._end()

    @property
    def is_behind(self) -> bool:
        """Whether something is held back for it."""
        return not self._closed and self.buffered > 0

    @property
    def buffered(self) -> int:
        """Events that are held back for earlier ones."""
        engine = self._broker.engine
        return 0 if engine is None else sum(key[1] in self.topics for key in engine.hold.pending)

    # Changing.

    async def add(self, *topics: str) -> None:
        """Listen to more topics or patterns."""
        more = check_topics(topics)
        async with self._changing:
            self._check_listening()
            check_more(self.name, self.asked, more)
            self._broker.check_deadline(self, more)
            self._ask(self.asked | more)
            self._hold(frozenset(topic for topic in more if topic not in self.patterns) - self.topics)
            await self._broker.listen()

    async def remove(self, *topics: str) -> None:
        """Do not listen to some topics or patterns any more; what waits of them is discarded."""
        fewer = check_topics(topics)
        async with self._changing:
            self._check_listening()
            check_fewer(self.name, self.asked, self.patterns, fewer)
            self._ask(self.asked - fewer)
            gone = frozenset(topic for topic in self.topics if not self.wants(topic))
            self.topics -= gone
            self._record_left(gone)
            self._discard(lambda event: event.topic in gone)
            await self._broker.listen()

    def meet(self, topics: frozenset[str]) -> None:
        """Hold these topics that a pattern stands for."""
        self._hold(topics)

    def _hold(self, topics: frozenset[str]) -> None:
        self.topics |= topics
        self._record_joined(dict.fromkeys(sorted(topics), 0))

    # From the broker.

    def view(self, publication: Publication, waited: float) -> Event[Any]:
        """An event as the application sees it."""
        return Event(publication, None, _type=self.options.type, waited=waited)

    def put(self, events: list[Event[Any]]) -> None:
        """Events are delivered; if there is no room for them, what has become too late makes some."""
        if self._size + len(events) > self.options.queue:
            late = {id(event) for batch in self._queue for event in batch if self._is_too_late(event)}
            self._discard(lambda event: id(event) in late)
        self._put(events)

    def discard(self, publication: Publication, reason: str) -> None:
        """An event will never be delivered."""
        self.received += 1
        self._dropped(publication, {}, reason)

    def _is_too_late(self, event: Event[Any]) -> bool:
        """Whether it must not be handed over any more; if so, it is dropped."""
        assert event.deadline is not None
        settings = self._broker.settings
        if settings.round_at(time.time()) <= settings.last_round(event.deadline):
            return False
        self._leave_out(event)
        return True
