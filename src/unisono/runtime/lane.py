"""One ordered lane of events for an application, with room for so many, and what happens when it is full."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from operator import length_hint
from typing import TYPE_CHECKING, Any

from unisono.history.record import Kind
from unisono.model.errors import ClosedError, SlowConsumerError, UnisonoError
from unisono.model.event import Event
from unisono.model.frames import Publication
from unisono.runtime.options import Options, check_number
from unisono.runtime.wanting import UNWANTED, Wanting

if TYPE_CHECKING:
    from unisono.runtime.exchange import Exchange
    from unisono.runtime.observer import Observer
    from unisono.runtime.recorder import Recorder

_NO_EVENTS: Iterator[Event[Any]] = iter(())


class Lane:
    """What waits for the application, and how it takes it: `async for event in lane`."""

    def __init__(self, exchange: Exchange, name: str, options: Options, recorder: Recorder | None) -> None:
        self.name = name
        self.options = options
        self.dropped = 0  # events this subscription lost to its own slowness or to the `skip` policy
        self.received = 0  # events that came to it, those dropped among them
        self.filtered = 0  # events that were not what `where` asks for
        self.observer: Observer | None = None
        self.is_handled = False  # whether a handler is called with its events
        self._wants = None if options.where is None else Wanting(options.where)
        self._exchange = exchange
        self._recorder = recorder
        self._queue: deque[list[Event[Any]]] = deque()
        self._since: deque[int] = deque()  # when each of them was queued, if somebody observes
        self._size = 0
        self._current: Iterator[Event[Any]] = _NO_EVENTS
        self._waiters: list[asyncio.Future[bool]] = []  # some may have been cancelled
        self._is_plain = self._wants is None and options.deadline is None  # nothing but the order matters
        self._missed = 0
        self._slow_timer: asyncio.TimerHandle | None = None
        self._taken = 0  # events that have left the queue, to tell slow from stuck
        self._opened = False
        self._closed = False
        self._error: UnisonoError | None = None

    @property
    def waiting(self) -> int:
        """Events that wait for the application."""
        return self._size + length_hint(self._current)

    @property
    def fill(self) -> float:
        """How full it is, from 0 to 1."""
        return min(1.0, self.waiting / self.options.queue)

    def until(self, publication: Publication) -> float | None:
        """The deadline of an event here: its own, or that of this subscription if it is earlier."""
        if self.options.deadline is None:
            return publication.deadline
        until = publication.published_at + self.options.deadline
        return until if publication.deadline is None else min(until, publication.deadline)

    def is_idle(self, lanes: int = 1) -> bool:
        """Whether the application has taken everything and all its lanes wait for more."""
        if self._queue:
            return False
        waiting = sum(not waiter.done() for waiter in self._waiters)
        return waiting >= lanes or self._closed or self._error is not None

    def _end(self) -> None:
        """Hold nobody up any more; what is queued stays for the application."""
        if self._slow_timer is not None:
            self._slow_timer.cancel()
            self._slow_timer = None
        self._exchange.make_room(self)

    def _empty(self) -> None:
        """Discard what the application has not taken."""
        self._taken = self.taken
        self._queue.clear()
        self._since.clear()
        self._size = 0
        self._current = _NO_EVENTS
        self._wake()

    def _discard(self, is_unwanted: Callable[[Event[Any]], bool]) -> None:
        """Discard some of what the application has not taken. Lists are shared: none is changed."""
        # A loop may be in the middle of the current list: emptied, it makes the loop look for the next one.
        current, queue = list(self._current), list(self._queue)
        self._current = iter([event for event in current if not is_unwanted(event)])
        self._taken -= len(current) - length_hint(self._current)
        kept = [[event for event in batch if not is_unwanted(event)] for batch in queue]
        self._queue = deque(filter(None, kept))
        self._since = deque(at for at, batch in zip(self._since, kept, strict=False) if batch)
        self._size = sum(map(len, self._queue))
        gone = [event for batch in (current, *queue) for event in batch if is_unwanted(event)]
        self._missed += sum(event.missed for event in gone)  # the next one will tell
        self._make_room()

    # The queue.

    def _put(self, events: list[Event[Any]]) -> None:
        if not events or self._error is not None:
            return
        count = len(events)
        self.received += count
        if (
            self._is_plain
            and not self._missed
            and self.observer is None
            and self._size + count < self.options.queue
        ):
            self._queue.append(events)  # mostly nothing else is to be done
            self._size += count
            if self._waiters:
                self._wake()
            return
        if self.options.deadline is not None:
            for event in events:
                event._until = self.until(event._publication)
        if self._wants is not None and not (events := self._only_wanted(events)):
            return
        missed = self._missed  # before these; what is dropped of them was missed by the next
        room = self.options.queue - self._size
        if len(events) > room and self.options.slow != "wait":
            if self.options.slow == "fail":
                self._fail(
                    SlowConsumerError(
                        f"'{self.name}' has {self.waiting} events waiting and slow='fail'; "
                        "take them faster, or allow a longer queue="
                    )
                )
                return
            for event in events[max(0, room) :]:
                self._dropped(event._publication, event.stamp, "the application is too slow")
            events = events[: max(0, room)]
            if not events:
                return
        if missed:
            events[0].missed = missed  # nobody shares a view with whoever has missed something
            self._missed -= missed
        self._queue.append(events)
        self._size += len(events)
        if self.observer is not None:
            self._since.append(self._observe(self.observer, events))
        if self._size >= self.options.queue and self.options.slow == "wait":
            self._exchange.full[self] = None
            if self._slow_timer is None:
                self._watch(self.taken)
        self._wake()

    def _only_wanted(self, events: list[Event[Any]]) -> list[Event[Any]]:
        """Leave out what `where` does not ask for: it had its place in the order like any other."""
        assert self._wants is not None
        wanted: list[Event[Any]] = []
        for event in events:
            if self._wants(event):
                wanted.append(event)
            else:
                self._unwanted(event)
        return wanted

    def _unwanted(self, event: Event[Any]) -> None:
        self.filtered += 1
        if self._recorder is not None:
            number, id = event.stamp.get(event.topic, 0), str(event._publication.id)
            self._record(Kind.DROPPED, event=id, topic=event.topic, number=number, reason=UNWANTED)

    def _dropped(self, publication: Publication, entries: dict[str, int], reason: str) -> None:
        self.dropped += 1
        self._missed += 1
        number = entries.get(publication.topic, 0)
        self._record(
            Kind.DROPPED,
            event=str(publication.id),
            topic=publication.topic,
            number=number,
            reason=reason,
            deadline=self.until(publication),
        )

    def _observe(self, observer: Observer, events: list[Event[Any]]) -> int:
        """Events have come, and were queued now."""
        return observer.came(events, self)

    def observe(self, observer: Observer | None) -> None:
        """Let somebody look on from now on, or nobody."""
        self.observer = observer
        self._since = deque(() if observer is None else [time.time_ns()] * len(self._queue))

    @property
    def taken(self) -> int:
        """How many events the application has taken since it opened."""
        return self._taken - length_hint(self._current)

    def _watch(self, taken: int) -> None:
        loop = asyncio.get_running_loop()
        self._slow_timer = loop.call_later(self.options.slow_timeout, self._too_slow, taken)

    def _too_slow(self, taken: int) -> None:
        self._slow_timer = None
        if self not in self._exchange.full:
            return
        if self.taken > taken:
            self._watch(self.taken)
            return
        seconds = self.options.slow_timeout
        self._fail(
            SlowConsumerError(
                f"'{self.name}' took no event for {seconds:g} s while {self.waiting} waited and publishers with them; "
                "take them faster, or choose slow='drop'"
            )
        )

    def _fail(self, error: UnisonoError) -> None:
        if self._error is None:
            self._error = error
            self._end()
            self._wake()

    def _wake(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(True)

    def _next_batch(self) -> list[Event[Any]]:
        """What the queue, which is not empty, begins with."""
        batch = self._queue.popleft()
        count = len(batch)
        self._size -= count
        self._taken += count
        if self._since:
            assert self.observer is not None
            self.observer.taken(batch, self._since.popleft(), self)
        if self._exchange.full:
            self._make_room()
        return batch if self._is_plain else self._fresh(batch)

    def _fresh(self, batch: list[Event[Any]]) -> list[Event[Any]]:
        """What of a batch is handed over only if it is not too late by then."""
        return batch

    def _make_room(self) -> None:
        if self in self._exchange.full and self._size <= self.options.queue // 2:
            self._exchange.make_room(self)

    def _more(self) -> asyncio.Future[bool]:
        """True when there may be something in the queue, which is empty; False when nothing will ever be."""
        if self._error is not None:
            raise self._error
        if not self._opened and not self._closed:
            raise ClosedError(f"subscription '{self.name}' is not open; use 'async with'")
        waiter: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        if self._closed:
            waiter.set_result(False)
        elif self._waiters:
            self._waiters = [*(other for other in self._waiters if not other.done()), waiter]
        else:
            self._waiters.append(waiter)
        return waiter

    # For the application.

    def __aiter__(self) -> AsyncIterator[Event[Any]]:
        return self._iterate()

    async def _iterate(self) -> AsyncIterator[Event[Any]]:
        while True:
            current = self._current  # kept in self: a loop that breaks can be taken up again
            for event in current if self._recorder is None else self._noted(current, self._recorder):
                yield event
            if self._current is not current:
                continue  # somebody else took events while we were away
            if self._queue:
                self._current = iter(self._next_batch())
            elif not await self._more():
                return

    def _noted(self, events: Iterator[Event[Any]], recorder: Recorder) -> Iterator[Event[Any]]:
        for event in events:
            recorder.delivered(self.name, event)
            yield event

    def batches(self, limit: int = 1024) -> AsyncIterator[list[Event[Any]]]:
        """Events many at a time, as they come: at least one, at most `limit`."""
        check_number("limit", limit, whole=True, least=1)
        return self._batches(limit)

    async def _batches(self, limit: int) -> AsyncIterator[list[Event[Any]]]:
        while True:
            batch = [event for _, event in zip(range(limit), self._current, strict=False)]
            if batch:
                if self._recorder is not None:
                    self._recorder.delivered_many(self.name, batch)
                yield batch
                continue
            if self._queue:
                self._current = iter(self._next_batch())
            elif not await self._more():
                return

    async def get_one(self, timeout: float | None = None) -> Event[Any]:
        """The next event; TimeoutError if none comes within `timeout` seconds."""
        if timeout is not None:
            check_number("timeout", timeout)
        async with asyncio.timeout(timeout):
            while True:
                for event in self._current:
                    if self._recorder is not None:
                        self._recorder.delivered(self.name, event)
                    return event
                if self._queue:
                    self._current = iter(self._next_batch())
                elif not await self._more():
                    raise ClosedError(f"subscription '{self.name}' is closed")

    # Recording.

    def _record(self, kind: Kind, **fields: Any) -> None:
        if self._recorder is not None:
            self._recorder.write(kind, self.name, **fields)
