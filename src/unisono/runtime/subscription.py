"""A subscription as the application sees it: one ordered lane of events, with room for so many."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from operator import length_hint
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from unisono.engines.contract import Engine
from unisono.engines.effects import Deliver, DeliverRun, Drop, Effect, Fail, Lose, Reject, Send
from unisono.engines.fifo import FifoSubscriber
from unisono.engines.inputs import TICK, Input, Notified, Received
from unisono.engines.topic_managers.subscriber import Subscriber
from unisono.ens.port import Interest
from unisono.history.record import Kind
from unisono.model.errors import ClosedError, SlowConsumerError, UnisonoError
from unisono.model.event import Event
from unisono.model.frames import Batch, Heartbeat, Message, Notification, Publication, Run, Stamped
from unisono.runtime.options import Options, check_number
from unisono.runtime.timer import EngineTimer

if TYPE_CHECKING:
    from unisono.runtime.hub import Hub
    from unisono.runtime.recorder import Recorder

log = logging.getLogger("unisono")
_NO_EVENTS: Iterator[Event[Any]] = iter(())


class Subscription:
    """Events of some topics, in the promised order: `async for event in subscription`."""

    def __init__(
        self,
        hub: Hub,
        process: str,
        name: str,
        topics: frozenset[str],
        options: Options,
        recorder: Recorder | None,
    ) -> None:
        self.name = name
        self.topics = topics
        self.options = options
        self.dropped = 0  # events this subscription lost to its own slowness or to the `skip` policy
        self.lost = 0  # events declared lost by the sequencer
        self.rejected = 0  # frames that made no sense
        self.on_open: Callable[[Subscription], object] | None = None  # may refuse by raising
        self.on_close: Callable[[Subscription], object] | None = None
        self._hub = hub
        self._process = process
        self._recorder = recorder
        self._settings = options.settings(hub.service.capabilities)
        self._engine: Engine | None = None
        self._timer: EngineTimer | None = None
        self._interest: Interest | None = None
        self._early: list[object] | None = []  # frames that came before the engine was ready
        self._queue: deque[list[Event[Any]]] = deque()
        self._size = 0
        self._current: Iterator[Event[Any]] = _NO_EVENTS
        self._waiters: list[asyncio.Future[None]] = []
        self._missed = 0
        self._slow_timer: asyncio.TimerHandle | None = None
        self._taken = 0  # events that have left the queue, to tell slow from stuck
        self._closed = False
        self._error: UnisonoError | None = None

    # Opening and closing.

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def open(self) -> None:
        """Start listening: every event sequenced from here on is owed."""
        if self._closed:
            raise ClosedError(f"subscription '{self.name}' is closed; make a new one")
        if self._interest is not None:
            return
        if self.on_open is not None:
            self.on_open(self)
        self._early = []
        # Listen first: what is sequenced between the two is held by the engine or older than its floor.
        interest = await self._hub.service.subscribe(self.topics, self._notify)
        try:
            if self._closed:
                raise ClosedError(f"subscription '{self.name}' was closed while it opened; make a new one")
            floors = self._hub.admit(self)
        except BaseException:
            await self._hub.service.unsubscribe(interest)
            raise
        self._interest = interest
        if self.options.is_total:
            self._engine = Subscriber(self.name, floors, self._settings)
        elif self.options.order == "fifo" and not self._hub.service.capabilities.multicast:
            self._engine = FifoSubscriber(
                self.name, self.topics, self._settings, self._hub.streams(self.topics)
            )
        if self._engine is not None and (self._settings.repair or self._settings.max_hold is not None):
            self._timer = EngineTimer(self._engine, self._tick)
        for topic, floor in floors.items():
            self._record(
                Kind.SUBSCRIBED,
                topic=topic,
                number=floor,
                order=self.options.order,
                on_gap=self.options.on_gap,
            )
        early, self._early = self._early or [], None
        for frame in early:
            self._notify(frame)

    async def close(self) -> None:
        """Stop listening; events not yet taken are discarded."""
        if self._closed:
            return
        self._closed = True
        self._end()
        self._queue.clear()
        self._size = 0
        self._current = _NO_EVENTS
        self._wake()
        if self.on_close is not None:
            self.on_close(self)
        if self._interest is not None:
            for topic in sorted(self.topics):
                self._record(Kind.UNSUBSCRIBED, topic=topic)
            await self._hub.service.unsubscribe(self._interest)

    def _end(self) -> None:
        """Owe and be owed nothing any more; what is queued stays for the application."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._slow_timer is not None:
            self._slow_timer.cancel()
            self._slow_timer = None
        self._hub.dismiss(self)

    @property
    def waiting(self) -> int:
        """Events that wait for the application."""
        return self._size + length_hint(self._current)

    @property
    def is_behind(self) -> bool:
        """Whether events that have been sequenced are still on their way to this subscription."""
        if not isinstance(self._engine, Subscriber) or self._error is not None or self._closed:
            return False
        reached, sequenced = self._engine.reached, self._hub.sequenced
        return any(reached[topic] < sequenced(topic) for topic in self.topics)

    def is_idle(self, lanes: int = 1) -> bool:
        """Whether the application has taken everything and all its lanes wait for more."""
        return not self._queue and (len(self._waiters) >= lanes or self._closed or self._error is not None)

    # From the network.

    def _notify(self, frame: object) -> None:
        if self._error is not None or self._closed:
            return
        if self._early is not None:
            self._early.append(frame)
        elif self._engine is not None:
            self._take_in(frame)
        elif isinstance(frame, Batch):
            everything = frame.by_topic.keys() <= self.topics
            self._put(self._views(frame, None if everything else frame.places(self.topics)))
        elif isinstance(frame, Publication):
            self._put([self._event(frame)])
        elif isinstance(frame, Stamped):
            self._put([self._event(frame.publication, frame.entries)])
        elif not isinstance(frame, Heartbeat):
            self.rejected += 1

    def _take_in(self, frame: object) -> None:
        """Let the engine have a frame, unless it cannot be one of ours."""
        try:
            is_ours = isinstance(frame, Notification) and not self._hub.is_invented(frame)
        except Exception:  # it has the right name and the wrong insides
            is_ours = False
        if is_ours:
            self._handle(Notified(frame))  # type: ignore[arg-type]
        else:
            self.rejected += 1

    def _handle(self, input: Input) -> None:
        """Let the engine take an input; one that makes it stumble is rejected like any other nonsense."""
        assert self._engine is not None
        try:
            effects = self._engine.handle(input, asyncio.get_running_loop().time())
        except Exception:
            self.rejected += 1
            log.exception("subscription '%s' could not make sense of %.200r", self.name, input)
            return
        self._carry_out(effects)

    def receive(self, message: Message) -> None:
        """A message from the managers for this subscription."""
        if self._engine is not None and self._error is None and not self._closed:
            self._handle(Received("", message))

    def _tick(self) -> None:
        if self._engine is not None and self._error is None and not self._closed:
            self._handle(TICK)

    def _carry_out(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case DeliverRun(run, places):
                    self._put(self._views(run, places))
                case Deliver(events, in_order):
                    self._put([self._event(e.publication, e.entries, in_order) for e in events])
                case Drop(event, reason):
                    self._dropped(event.publication, event.entries, reason)
                case Lose(topic, numbers):
                    self.lost += len(numbers)
                    self._missed += len(numbers)
                    for number in numbers:
                        self._record(
                            Kind.LOST, topic=topic, number=number, reason="no ring holds it any more"
                        )
                case Send(_, message):
                    self._hub.send(self.name, message)
                case Reject():
                    self.rejected += 1
                case Fail(error):
                    self._fail(error)
        if self._timer is not None:
            self._timer.reset()

    # Views of events.

    def _views(self, batch: Batch, places: list[int] | None) -> list[Event[Any]]:
        """The events at these places; all subscriptions that want raw bytes share one view of a batch."""
        type_, publications = self.options.type, batch.publications
        source = batch if isinstance(batch, Run) else None
        if type_ is Any and not self._missed:
            return self._hub.views(batch, places)
        chosen = range(len(publications)) if places is None else places
        return [Event(publications[i], source, i, _type=type_) for i in chosen]

    def _event(
        self, publication: Publication, entries: dict[str, int] | None = None, in_order: bool = True
    ) -> Event[Any]:
        stamp = entries if self.options.is_total else None
        return Event(publication, stamp, 0, in_order, _type=self.options.type)

    # The queue.

    def _put(self, events: list[Event[Any]]) -> None:
        if not events or self._error is not None:
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
        if self._size >= self.options.queue and self.options.slow == "wait":
            self._hub.full[self] = None
            if self._slow_timer is None:
                self._watch(self._progress)
        self._wake()

    def _dropped(self, publication: Publication, entries: dict[str, int], reason: str) -> None:
        self.dropped += 1
        self._missed += 1
        number = entries.get(publication.topic, 0)
        self._record(
            Kind.DROPPED, event=str(publication.id), topic=publication.topic, number=number, reason=reason
        )

    @property
    def _progress(self) -> int:
        """How many events the application has taken since it opened."""
        return self._taken - length_hint(self._current)

    def _watch(self, taken: int) -> None:
        loop = asyncio.get_running_loop()
        self._slow_timer = loop.call_later(self.options.slow_timeout, self._too_slow, taken)

    def _too_slow(self, taken: int) -> None:
        self._slow_timer = None
        if self not in self._hub.full:
            return
        if self._progress > taken:
            self._watch(self._progress)
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
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    def _next_batch(self) -> list[Event[Any]] | None:
        if not self._queue:
            return None
        batch = self._queue.popleft()
        self._size -= len(batch)
        self._taken += len(batch)
        if self in self._hub.full and self._size <= self.options.queue // 2:
            self._hub.make_room(self)
        return batch

    async def _more(self) -> bool:
        """Wait until there is something in the queue; False when nothing will ever be."""
        while not self._queue:
            if self._error is not None:
                raise self._error
            if self._closed:
                return False
            if self._interest is None:
                raise ClosedError(f"subscription '{self.name}' is not open; use 'async with'")
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            try:
                await waiter
            finally:
                self._waiters.remove(waiter)
        return True

    # For the application.

    def __aiter__(self) -> AsyncIterator[Event[Any]]:
        return self._iterate() if self._recorder is None else self._iterate_recorded()

    async def _iterate(self) -> AsyncIterator[Event[Any]]:
        while True:
            current = self._current  # kept in self: a loop that breaks can be taken up again
            for event in current:
                yield event
            if self._current is not current:
                continue  # somebody else took events while we were away
            batch = self._next_batch()
            if batch is not None:
                self._current = iter(batch)
            elif not await self._more():
                return

    async def _iterate_recorded(self) -> AsyncIterator[Event[Any]]:
        async for event in self._iterate():
            self._record_delivery(event)
            yield event

    def batches(self, limit: int = 1024) -> AsyncIterator[list[Event[Any]]]:
        """Events many at a time, as they come: at least one, at most `limit`."""
        check_number("limit", limit, whole=True, least=1)
        return self._batches(limit)

    async def _batches(self, limit: int) -> AsyncIterator[list[Event[Any]]]:
        while True:
            batch = [event for _, event in zip(range(limit), self._current, strict=False)]
            if batch:
                for event in batch:
                    self._record_delivery(event)
                yield batch
                continue
            fresh = self._next_batch()
            if fresh is not None:
                self._current = iter(fresh)
            elif not await self._more():
                return

    async def get_one(self, timeout: float | None = None) -> Event[Any]:
        """The next event; TimeoutError if none comes within `timeout` seconds."""
        if timeout is not None:
            check_number("timeout", timeout)
        async with asyncio.timeout(timeout):
            while True:
                for event in self._current:
                    self._record_delivery(event)
                    return event
                fresh = self._next_batch()
                if fresh is not None:
                    self._current = iter(fresh)
                elif not await self._more():
                    raise ClosedError(f"subscription '{self.name}' is closed")

    # Recording.

    def _record(self, kind: Kind, **fields: Any) -> None:
        if self._recorder is not None:
            self._recorder.write(kind, self._process, subscription=self.name, **fields)

    def _record_delivery(self, event: Event[Any]) -> None:
        if self._recorder is not None:
            stamp = event.stamp
            self._record(
                Kind.DELIVERED,
                event=str(event._publication.id),
                topic=event.topic,
                number=stamp.get(event.topic, 0),
                stamp=stamp or None,
                in_order=event.in_order,
            )
