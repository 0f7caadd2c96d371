"""What a bus does to publish: events of one turn of the event loop fly together, and wait where there is no room."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from threading import get_ident

from unisono.model.errors import (
    BackPressureError,
    ClosedError,
    ConfigError,
    PayloadError,
    UnconfirmedError,
    UnisonoError,
)
from unisono.model.frames import RAW, Publication, count_topics
from unisono.model.ids import check_topic
from unisono.model.payloads import encode
from unisono.runtime.counts import Counts
from unisono.runtime.deadline.broker import DeadlineBroker
from unisono.runtime.exchange import Exchange
from unisono.runtime.handlers import log
from unisono.runtime.observer import Observer
from unisono.runtime.options import check_extras
from unisono.runtime.receipts import FLIGHT_EVENTS_MAX, Flight, Receipt, unconfirmed
from unisono.runtime.recorder import Recorder


class Publishing:
    """The half of a bus that publishes."""

    def __init__(
        self,
        name: str,
        direct: DeadlineBroker,
        recorder: Recorder | None,
        outbox: int,
        payload_max: int,
        publish_timeout: float,
        observer: Observer | None,
    ) -> None:
        self.name = name
        self._direct = direct
        self._recorder = recorder
        self._observer = observer
        self._outbox_max = outbox
        self._payload_max = payload_max
        self._publish_timeout = publish_timeout
        self._state = "new"
        self._hub: Exchange | None = None
        self._incarnation = 0  # which life of this name it is; given when it opens
        self._n = 0
        self._nth = Counts()
        self._flights: deque[Flight] = deque()
        self._flight = Flight()  # the one now boarding
        self._waiting = 0  # publications that have not departed
        self._scheduled = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = 0
        self._flushing: deque[tuple[int, asyncio.Future[None]]] = deque()  # until so many have departed

    def _opened(self) -> Exchange:
        if self._hub is None or self._state != "open":
            raise ClosedError(f"bus '{self.name}' is not open; use 'async with bus:'")
        return self._hub

    async def publish(
        self,
        topic: str,
        data: object,
        *,
        id: str | None = None,
        headers: Mapping[str, str] | None = None,
        deadline: float | None = None,
    ) -> Receipt:
        """Publish one event and return when it has its place in the order.

        Retrying with the same `id` never makes a second event. UnconfirmedError: no confirmation in time. `deadline` is
        how many seconds it is of use: subscribers with order="causal" and a deadline get it within them, or not at all.
        """
        receipt = None
        try:
            async with asyncio.timeout(self._publish_timeout):
                await self._room()
                receipt = self.publish_nowait(topic, data, id=id, headers=headers, deadline=deadline)
                return await receipt
        except TimeoutError:
            raise unconfirmed(receipt, topic, 1, self._publish_timeout, self._trouble()) from None

    async def publish_many(
        self, events: Iterable[tuple[str, object]], *, deadline: float | None = None
    ) -> list[Receipt]:
        """Publish (topic, data) pairs in this order, all with one deadline; return when all have their places.

        An event that is refused ends it there: those before it are published.
        """
        receipts: list[Receipt] = []
        topic = ""
        try:
            for event in events:
                try:
                    topic, data = event
                except (TypeError, ValueError):
                    raise ConfigError(f"publish_many takes (topic, data) pairs, not {event!r:.80}") from None
                if self._waiting >= self._outbox_max:
                    async with asyncio.timeout(self._publish_timeout):
                        await self._room()
                receipts.append(self.publish_nowait(topic, data, deadline=deadline))
            if receipts:
                async with asyncio.timeout(self._publish_timeout):
                    for flight in {receipt._flight: None for receipt in receipts}:
                        await flight.arrival()
        except TimeoutError:
            last = receipts[-1] if receipts else None
            raise unconfirmed(last, topic, len(receipts), self._publish_timeout, self._trouble()) from None
        return receipts

    def _trouble(self) -> str:
        return "" if self._hub is None else self._hub.trouble

    async def _room(self) -> None:
        while self._waiting >= self._outbox_max:
            await self.flush()

    def publish_nowait(
        self,
        topic: str,
        data: object,
        *,
        id: str | None = None,
        headers: Mapping[str, str] | None = None,
        deadline: float | None = None,
    ) -> Receipt:
        """Publish one event without waiting; `await` the receipt, or `flush` now and then, to keep in step."""
        if self._state != "open":
            raise ClosedError(
                f"bus '{self.name}' is {self._state}: it takes no events; use 'async with bus:'"
            )
        if self._waiting >= self._outbox_max:
            raise BackPressureError(f"{self._waiting} events wait to be sent; 'await bus.flush()' makes room")
        if not self._scheduled and get_ident() != self._thread:  # checked once a turn: it costs
            raise UnisonoError(
                "a bus is not shared between threads; use asyncio.run_coroutine_threadsafe(bus.publish(…), loop)"
            )
        if type(data) is bytes:
            body, content = data, RAW
        else:
            body, content = encode(data)
        if len(body) > self._payload_max:
            raise PayloadError(
                f"a payload of {len(body)} bytes is over the limit of {self._payload_max}; "
                "send less, or connect with a higher payload_max="
            )
        try:
            nth = self._nth[topic]
        except (KeyError, TypeError):
            check_topic(topic)
            nth = self._new_topic()
        if id is not None or headers is not None or deadline is not None:
            check_extras(id, headers, deadline)
            if deadline is not None:
                self._direct.deadlines.check(deadline)
            known = None if id is None else self._opened().ids.find(topic, id)
            if known is not None:
                return known
        self._nth[topic] = nth = nth + 1
        self._n += 1
        flight = self._flight
        publications = flight.publications
        receipt = Receipt(flight, len(publications))
        now = time.time()
        publications.append(
            Publication(
                self.name,
                self._incarnation,
                self._n,
                topic,
                body,
                content,
                now,
                nth,
                id,
                None if headers is None else dict(headers),
                None if deadline is None else now + deadline,
            )
        )
        if deadline is not None:
            flight.timed = True
        self._waiting += 1
        if id is not None:
            flight.keyed.append(len(publications) - 1)
            self._opened().ids.remember(topic, id, receipt)
        if self._recorder is not None:
            self._recorder.published(publications[-1])
        if len(publications) == FLIGHT_EVENTS_MAX:
            self._flights.append(flight)
            self._flight = Flight()
        if not self._scheduled:
            self._schedule()
        return receipt

    def _schedule(self) -> None:
        """See to it that what waits departs."""
        exchange, loop = self._hub, self._loop
        assert exchange is not None
        assert loop is not None
        if exchange.is_quiet:
            self._depart()  # while little is published nobody waits, not even for the end of this turn
            return
        self._scheduled = True
        if linger_s := exchange.linger_s:
            loop.call_later(linger_s, self._depart)
        else:
            loop.call_soon(self._depart)  # with whatever else this turn brings

    def _new_topic(self) -> int:
        """How many events a new topic counts as having had."""
        if self._nth.is_full:
            hub, waiting = self._opened(), self._outbox()
            self._nth.forget(lambda topic: not hub.is_held(topic) and not waiting[topic])
        return self._nth.floor

    async def flush(self) -> None:
        """Return when every event published so far has been sent, and slow subscribers have caught up."""
        self._opened()
        target = self._n
        self._depart()
        await asyncio.sleep(0)  # let the subscribers have them
        if self._n - self._waiting < target:
            departed = asyncio.get_running_loop().create_future()
            self._flushing.append((target, departed))
            await departed
        self._opened()  # it may have been closed meanwhile

    def _depart(self) -> None:
        """Send everything that waits, as far as no subscriber holds us up."""
        self._scheduled = False
        if self._state != "open":
            return
        hub = self._hub
        assert hub is not None
        while self._waiting:
            if hub.is_full:
                self._scheduled = True
                hub.park(self._depart)
                break
            if self._flights:
                flight = self._flights.popleft()
            else:
                flight, self._flight = self._flight, Flight()
            self._waiting -= len(flight.publications)
            try:
                self._direct.depart(flight)
                hub.depart(flight)
            except Exception as error:
                log.exception("bus '%s' could not send %d events", self.name, len(flight.publications))
                flight.crash(
                    UnconfirmedError(f"the service did not take the event: {error}; retry with its id")
                )
            if self._observer is not None:
                self._observer.departed(flight)
            if self._recorder is not None:
                flight.when_landed(self._recorder.sequenced)
        if self._flushing:
            self._wake_flushers()

    def _wake_flushers(self) -> None:
        departed = self._n - self._waiting
        while self._flushing and self._flushing[0][0] <= departed:
            _, waiter = self._flushing.popleft()
            if not waiter.done():
                waiter.set_result(None)

    def departed(self, topics: frozenset[str]) -> dict[str, int]:
        """How many events of each topic this bus has sent; what waits in the outbox has not been."""
        waiting = self._outbox()
        return {
            f"{topic} {self.name} {self._incarnation}": self._nth.setdefault(topic, self._nth.floor)
            - waiting[topic]
            for topic in topics
        }

    def _outbox(self) -> Counter[str]:
        """How many events of each topic wait to be sent."""
        return count_topics(p for flight in (*self._flights, self._flight) for p in flight.publications)
