"""A subscription whose events are sequenced in this process."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from unisono.engines.effects import DeliverRun, Effect, Send
from unisono.engines.fifo import FifoSubscriber
from unisono.engines.inputs import TICK, Input, Notified, Received
from unisono.engines.topic_managers.colocated import ColocatedSubscriber
from unisono.ens.port import Interest
from unisono.model.errors import ClosedError
from unisono.model.event import Event
from unisono.model.frames import (
    Batch,
    EpochNotice,
    Heartbeat,
    Message,
    Notification,
    Publication,
    Stamped,
)
from unisono.runtime.options import Options, check_fewer, check_more, check_topics
from unisono.runtime.receipts import Flight
from unisono.runtime.subscription import Subscription
from unisono.runtime.timer import EngineTimer
from unisono.runtime.views import shared_views, views

if TYPE_CHECKING:
    from unisono.runtime.hub import Hub
    from unisono.runtime.recorder import Recorder

log = logging.getLogger("unisono")


class LocalSubscription(Subscription):
    """Events of some topics, in the order that the managers in this process give them."""

    def __init__(
        self,
        hub: Hub,
        name: str,
        asked: frozenset[str],
        options: Options,
        recorder: Recorder | None,
    ) -> None:
        super().__init__(hub, name, asked, options, recorder)
        self._hub = hub
        self._settings = options.settings(hub.service.capabilities)
        self._engine: ColocatedSubscriber | FifoSubscriber | None = None
        self._timer: EngineTimer | None = None
        self._interest: Interest | None = None
        self._early: list[object] | None = []  # frames that came before the engine was ready

    # Opening and closing.

    async def open(self) -> None:
        """Start listening: every event sequenced from here on is owed."""
        if self._interest is not None and not self._closed:
            return
        self._check_may_open()
        self._early = []
        # Listen first: what is sequenced between the two is held by the engine or older than its floor.
        interest = await self._listen()
        try:
            if self._closed:
                raise ClosedError(f"subscription '{self.name}' was closed while it opened; make a new one")
            self._hub.admit(self)
        except BaseException:
            await self._hub.service.unsubscribe(interest)
            raise
        self._interest, self._opened = interest, True
        if self.options.is_total:
            self._engine = ColocatedSubscriber(self.name, {}, self._settings)
        elif self.options.order == "fifo" and not self._hub.service.capabilities.multicast:
            self._engine = FifoSubscriber(self.name, frozenset(), self._settings)
        if self._engine is not None and (self._settings.repair or self._settings.holds):
            self._timer = EngineTimer(self._engine, self._tick)
        self._join(self.asked.difference(self.patterns))
        early, self._early = self._early or [], None
        for frame in early:
            self._notify(frame)

    async def _listen(self) -> Interest:
        service, where = self._hub.service, self.options.where
        if service.capabilities.sequenced or where is None:
            return await service.subscribe(self.asked, self._notify)
        return await service.subscribe(self.asked, self._notify, where=where)  # type: ignore[call-arg]

    async def close(self) -> None:
        """Stop listening; events not yet taken are discarded."""
        if self._closed:
            return
        self._closed = True
        self._end()
        self._empty()
        if self._interest is not None:
            self._record_left(self.topics)
        if self.on_close is not None:
            self.on_close(self)
        if self._interest is not None:
            await self._hub.service.unsubscribe(self._interest)

    def _end(self) -> None:
        """Owe and be owed nothing any more; what is queued stays for the application."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._hub.dismiss(self)
        super()._end()

    @property
    def is_behind(self) -> bool:
        """Whether events that have been sequenced are still on their way to this subscription."""
        if not isinstance(self._engine, ColocatedSubscriber) or self._error is not None or self._closed:
            return False
        reached, sequenced = self._engine.reached, self._hub.sequenced
        return any(reached[topic] < sequenced(topic) for topic in self.topics)

    @property
    def buffered(self) -> int:
        """Events that are held back for earlier ones."""
        engine = self._engine.inner if isinstance(self._engine, FifoSubscriber) else self._engine
        return 0 if engine is None else len(engine.held)

    # Changing.

    async def add(self, *topics: str) -> None:
        """Listen to more topics or patterns: every event of them sequenced from here on is owed."""
        more = check_topics(topics)
        async with self._changing:
            interest = self._listening()
            check_more(self.name, self.asked, more)
            await self._hub.service.change(interest, self.asked | more)
            self._listening()  # it may have ended meanwhile
            self._ask(self.asked | more)
            self._join(more.difference(self.patterns, self.topics))

    async def remove(self, *topics: str) -> None:
        """Do not listen to some topics or patterns any more; what waits of them is discarded."""
        fewer = check_topics(topics)
        async with self._changing:
            interest = self._listening()
            check_fewer(self.name, self.asked, self.patterns, fewer)
            self._ask(self.asked - fewer)
            self._leave(frozenset(topic for topic in self.topics if not self.wants(topic)))
            await self._hub.service.change(interest, self.asked)

    def _listening(self) -> Interest:
        """Where it listens; raises ClosedError if it does not."""
        self._check_listening()
        assert self._interest is not None
        return self._interest

    def _ask(self, asked: frozenset[str]) -> None:
        super()._ask(asked)
        self._hub.watch(self)

    def meet(self, topics: frozenset[str], flight: Flight) -> None:
        """Hold these topics that a pattern matches, before the first of their events in `flight` is numbered."""
        self._join(topics, flight)

    def _join(self, topics: frozenset[str], flight: Flight | None = None) -> None:
        """Hold more topics, all at once, between two events."""
        floors = self._hub.join(self, topics)
        self.topics |= topics
        if isinstance(self._engine, ColocatedSubscriber):
            for topic, floor in floors.items():
                self._engine.admit(topic, floor)
        elif self._engine is not None:
            self._engine.admit(topics, self._hub.streams(topics, flight), self._hub.newest_life)
        self._record_joined(floors)

    def _leave(self, topics: frozenset[str]) -> None:
        """Hold some topics no longer: let go of what waited for them, discard what waits of them."""
        self.topics -= topics
        self._record_left(topics)
        self._hub.leave(self, topics)
        self._discard(lambda event: event.topic in topics)
        if isinstance(self._engine, ColocatedSubscriber):
            for topic in sorted(topics):
                self._carry_out(self._engine.dismiss(topic))
        elif self._engine is not None:
            self._carry_out(self._engine.dismiss(topics))

    # From the network.

    def _notify(self, frame: object) -> None:
        if self._error is not None or self._closed:
            return
        if self._early is not None:
            self._early.append(frame)
            return
        if not self._hub.service.capabilities.sequenced:
            self._meet_topic_of(frame)
        if self._engine is not None:
            self._take_in(frame)
        elif isinstance(frame, Batch):
            everything = frame.by_topic.keys() <= self.topics
            self._put(self._views(frame, None if everything else frame.places(self.topics)))
        elif isinstance(frame, Publication):
            if frame.topic in self.topics:
                self._put([self._event(frame)])
        elif isinstance(frame, Stamped):
            if frame.topic in self.topics:
                self._put([self._event(frame.publication, frame.entries)])
        elif not isinstance(frame, Heartbeat | EpochNotice):
            self.rejected += 1

    def _meet_topic_of(self, frame: object) -> None:
        """Where others publish past this process, their topics are met when something of them comes."""
        if isinstance(frame, Publication) and frame.topic not in self.topics and self.wants(frame.topic):
            self._join(frozenset({frame.topic}))

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
                case Send(_, message):
                    self._hub.send(self.name, message)
                case _:
                    self._do(effect)
        if self._timer is not None:
            self._timer.reset()

    # Views of events.

    def _views(self, batch: Batch, places: list[int] | None) -> list[Event[Any]]:
        """The events at these places; all subscriptions that want raw bytes share one view of a batch."""
        type_ = self.options.type
        if type_ is Any and not self._missed and self.options.deadline is None:
            return shared_views(batch, places)
        return views(batch, places, type_)
