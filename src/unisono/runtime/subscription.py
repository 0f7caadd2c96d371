"""A subscription as the application sees it: topics in a promised order, which may be added and removed."""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from unisono.engines.effects import Deliver, DeliverRun, Drop, Effect, Fail, Lose, Reject
from unisono.history.record import Kind
from unisono.model.errors import ClosedError, ConfigError
from unisono.model.event import Event, RawEvent
from unisono.model.frames import RAW, Publication
from unisono.model.ids import is_pattern, matches
from unisono.runtime.freshness import TOO_LATE, Fresh
from unisono.runtime.lane import Lane
from unisono.runtime.options import Options

if TYPE_CHECKING:
    from unisono.runtime.exchange import Exchange
    from unisono.runtime.recorder import Recorder


class Subscription(Lane, ABC):
    """Events of some topics, in the promised order: `async for event in subscription`."""

    def __init__(
        self,
        exchange: Exchange,
        name: str,
        asked: frozenset[str],
        options: Options,
        recorder: Recorder | None,
    ) -> None:
        super().__init__(exchange, name, options, recorder)
        self.asked = asked  # topics and patterns, as the application named them
        self.patterns = tuple(sorted(filter(is_pattern, asked)))
        self.topics: frozenset[str] = frozenset()  # those it holds now, also through patterns
        self.lost = 0  # events declared lost by the sequencer
        self.rejected = 0  # frames that made no sense
        self.deferred = 0  # frames that were not taken while the application lagged; they are asked for again
        self.tagged = 0  # events delivered with in_order=False
        self.held = 0  # events that had to wait for earlier ones; counted where somebody observes
        self.voided = 0  # numbers that were declared to have no event
        self.repaired = 0  # events that came because they were asked for again
        self.joins = self.leaves = 0  # topics
        self.on_open: Callable[[Subscription], object] | None = None  # may refuse by raising
        self.on_close: Callable[[Subscription], object] | None = None
        self._is_total = options.is_total
        self._left_out = 0  # events dropped when they were about to be taken, and not told of yet
        self._changing = asyncio.Lock()

    # Opening and closing.

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @abstractmethod
    async def open(self) -> None:
        """Start listening: every event sequenced from here on is owed."""

    @abstractmethod
    async def close(self) -> None:
        """Stop listening; events not yet taken are discarded."""

    @property
    @abstractmethod
    def is_behind(self) -> bool:
        """Whether events that have been sequenced are still on their way to this subscription."""

    # Changing.

    @property
    @abstractmethod
    def buffered(self) -> int:
        """Events that are held back for earlier ones."""

    @abstractmethod
    async def add(self, *topics: str) -> None:
        """Listen to more topics or patterns: every event of them sequenced from here on is owed."""

    @abstractmethod
    async def remove(self, *topics: str) -> None:
        """Do not listen to some topics or patterns any more; what waits of them is discarded."""

    async def ack(self, event: Event[Any]) -> None:
        """This event and all before it have been dealt with; returns when that is kept."""
        self.ack_nowait(event)

    def ack_nowait(self, event: Event[Any]) -> None:
        """This event and all before it have been dealt with; that is kept in a moment."""
        raise ConfigError(f"subscription '{self.name}' keeps no place; subscribe with name= and ack=")

    def wants(self, topic: str) -> bool:
        """Whether it asks for a topic, by its name or by a pattern."""
        return topic in self.asked or any(matches(pattern, topic) for pattern in self.patterns)

    def _ask(self, asked: frozenset[str]) -> None:
        self.asked = asked
        self.patterns = tuple(sorted(filter(is_pattern, asked)))

    def _check_listening(self) -> None:
        """Raise ClosedError unless it is open."""
        if self._error is not None:
            raise ClosedError(f"subscription '{self.name}' has ended: {self._error}") from self._error
        if self._closed:
            raise ClosedError(f"subscription '{self.name}' is closed; make a new one")
        if not self._opened:
            raise ClosedError(f"subscription '{self.name}' is not open; use 'async with'")

    def _check_may_open(self) -> None:
        if self._closed:
            raise ClosedError(f"subscription '{self.name}' is closed; make a new one")
        if self.on_open is not None:
            self.on_open(self)

    # What its engine asks for.

    def _do(self, effect: Effect) -> None:
        """Carry out an effect that concerns the application."""
        match effect:
            case Deliver(events, in_order):
                if not in_order:
                    self.tagged += len(events)
                self._put([self._event(e.publication, e.entries, in_order, e.epoch) for e in events])
            case DeliverRun():
                events = effect.events
                self._put([self._event(e.publication, e.entries, True, e.epoch) for e in events])
            case Drop(event, reason):
                self.received += 1
                self._dropped(event.publication, event.entries, reason)
            case Lose(topic, numbers):
                self.lost += len(numbers)
                self._missed += len(numbers)
                for number in numbers:
                    self._record(Kind.LOST, topic=topic, number=number, reason="no ring holds it any more")
            case Reject():
                self.rejected += 1
            case Fail(error):
                self._fail(error)

    def _event(
        self,
        publication: Publication,
        entries: dict[str, int] | None = None,
        in_order: bool = True,
        epoch: int = 0,
    ) -> Event[Any]:
        source, type_ = entries if self._is_total else None, self.options.type
        if publication.content == RAW and type_ is Any:
            return RawEvent(publication, source, 0, publication.body, in_order, _epoch=epoch)
        return Event(publication, source, in_order=in_order, _type=type_, _epoch=epoch)

    # Deadlines.

    def _fresh(self, batch: list[Event[Any]]) -> list[Event[Any]]:
        return batch if self.options.deadline is None else Fresh(self, batch)

    def _is_too_late(self, event: Event[Any]) -> bool:
        """Whether an event about to be taken must be left out; with on_gap="tag" it is tagged instead."""
        if event.deadline is None or time.time() <= event.deadline:
            return False
        if self.options.on_gap == "tag":
            event.late = True
            return False
        self._leave_out(event)
        return True

    def _leave_out(self, event: Event[Any]) -> None:
        """Drop an event that was about to be taken; the next one that is taken tells of it."""
        self._dropped(event._publication, event.stamp, TOO_LATE)
        self._missed -= 1
        self._left_out += 1

    # Recording.

    def _record_joined(self, floors: dict[str, int]) -> None:
        self.joins += len(floors)
        for topic, floor in floors.items():
            self._record(
                Kind.SUBSCRIBED,
                topic=topic,
                number=floor,
                order=self.options.order,
                on_gap=self.options.on_gap,
                deadline=self.options.deadline,
            )

    def _record_left(self, topics: frozenset[str]) -> None:
        self.leaves += len(topics)
        for topic in sorted(topics):
            self._record(Kind.UNSUBSCRIBED, topic=topic)
