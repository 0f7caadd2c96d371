"""The bus: everything a user does starts here."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import AsyncExitStack, suppress
from threading import get_ident
from types import TracebackType
from typing import Any, Self, TypeVar

from unisono.engines.plan import Plan, check_plan
from unisono.ens.port import EventNotificationService
from unisono.model.durability import Durability
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
from unisono.runtime.exchange import Exchange
from unisono.runtime.handlers import Function, Handler, log, name_of, payload_type, serve
from unisono.runtime.observer import Observer
from unisono.runtime.options import check_extras, check_handled, check_number, check_topics, make_options
from unisono.runtime.receipts import FLIGHT_EVENTS_MAX, Flight, Receipt, unconfirmed
from unisono.runtime.recorder import Recorder
from unisono.runtime.subscription import Subscription

F = TypeVar("F", bound=Function)
PAYLOAD_BYTES_MAX = 1024 * 1024
ERRORS_KEPT = 100
CLOSE_S = 5.0  # how long closing waits for handlers that do not let themselves be cancelled


class Bus:
    """Publishes and subscribes; made by `unisono.connect`."""

    def __init__(
        self,
        service: EventNotificationService,
        exchange: Callable[[], Exchange],
        name: str,
        recorder: Recorder | None,
        outbox: int,
        payload_max: int,
        publish_timeout: float,
        observer: Observer | None = None,
    ) -> None:
        self.name = name
        self._observer = observer
        self.errors: deque[Exception] = deque(maxlen=ERRORS_KEPT)  # what handlers raised, newest last
        self._service = service
        self._make_exchange = exchange
        self._recorder = recorder
        self._outbox_max = outbox
        self._payload_max = payload_max
        self._publish_timeout = publish_timeout
        self._handlers: list[Handler] = []
        self._served: dict[asyncio.Task[None], tuple[Subscription, int]] = {}  # and how many lanes it has
        self._lanes: set[asyncio.Task[None]] = set()
        self._open: dict[Subscription, None] = {}
        self._state = "new"
        self._stop = asyncio.Event()
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
        self._subscribed = 0

    # Opening and closing.

    async def __aenter__(self) -> Self:
        if self._state != "new":
            raise ClosedError(f"bus '{self.name}' is {self._state}; connect again for a new one")
        self._state = "opening"
        try:
            await self._service.connect()
        except BaseException:
            self._state = "new"
            raise
        self._loop, self._thread = asyncio.get_running_loop(), get_ident()
        try:
            self._hub = self._make_exchange()
            await self._hub.open()
            self._incarnation = self._hub.welcome(self)
            if self._observer is not None:
                self._observer.open(self, self._hub)
            self._state = "open"
            if self._recorder is not None:
                self._recorder.open(self._report)
            for handler in self._handlers:
                await self._start(handler)
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None and self._state == "open":
                await self.drain()
        finally:
            await self.close()

    async def drain(self, timeout: float = 30.0) -> None:
        """Let everything published be handed over and every handler finish, also what they publish."""
        check_number("timeout", timeout)
        self._opened()
        self._refuse_in_handler("drain")
        try:
            async with asyncio.timeout(timeout):
                await self.flush()
                await self._service.flush()
                while self._is_busy():
                    await asyncio.sleep(0.001)
                    await self.flush()
                await self._service.flush()
        except TimeoutError:
            late = sum(s.waiting for s, _ in self._served.values())
            log.warning("bus '%s' gave up draining after %g s, %d events unhandled", self.name, timeout, late)
        except ClosedError:
            log.warning("bus '%s' was closed while it drained", self.name)

    def _is_busy(self) -> bool:
        unconfirmed = 0 if self._hub is None else self._hub.unconfirmed
        return self._waiting + unconfirmed > 0 or any(
            not task.done() and (subscription.is_behind or not subscription.is_idle(lanes))
            for task, (subscription, lanes) in self._served.items()
        )

    def _refuse_in_handler(self, what: str) -> None:
        if asyncio.current_task() in self._lanes:
            raise UnisonoError(f"{what}() waits for the handlers, and this is one; call bus.stop() instead")

    async def close(self) -> None:
        """Stop at once; what has not been handed over is discarded."""
        self._refuse_in_handler("close")
        if self._state == "closed":
            return
        self._state = "closed"
        self._stop.set()
        error = ClosedError(f"bus '{self.name}' was closed before the event was sent; publish it again")
        for flight in [*self._flights, self._flight]:
            flight.crash(error)
        self._flights.clear()
        self._flight = Flight()
        self._waiting = 0
        self._wake_flushers()
        for task in self._served:
            task.cancel()
        try:
            for subscription in list(self._open):
                await subscription.close()
            if self._served:
                _, stuck = await asyncio.wait(self._served, timeout=CLOSE_S)
                for task in stuck:
                    log.error("bus '%s': handler '%s' does not end", self.name, task.get_name())
        finally:
            async with AsyncExitStack() as stack:  # each of them, whatever the others do; the last one first
                if self._observer is not None:
                    stack.push_async_callback(self._observer.close)
                if self._loop is not None:
                    stack.push_async_callback(self._service.close)
                if self._recorder is not None:
                    stack.push_async_callback(self._recorder.close)
                if self._hub is not None:
                    self._hub.unpark(self._depart)
                    stack.push_async_callback(self._hub.part, self)
                    self._hub = None

    def stop(self) -> None:
        """Make `run` return, after draining. May be called from any thread."""
        if self._loop is None or get_ident() == self._thread:
            self._stop.set()
        else:
            with suppress(RuntimeError):  # the loop is closed: nothing runs any more
                self._loop.call_soon_threadsafe(self._stop.set)

    async def run(self) -> None:
        """Serve the `@bus.on` handlers until `stop` is called, then drain; cancelling it does not drain."""
        if self._state == "new":
            async with self:
                await self.run()
            return
        self._opened()
        await self._stop.wait()
        if self._state == "open":
            await self.drain()

    def _opened(self) -> Exchange:
        if self._hub is None or self._state != "open":
            raise ClosedError(f"bus '{self.name}' is not open; use 'async with bus:'")
        return self._hub

    @property
    def durability(self) -> Durability:
        """What an event survives when `publish` has returned: none, memory, disk or replicated."""
        return self._opened().durability

    # Planning.

    @property
    def plan(self) -> Plan | None:
        """The plan that was applied last to this bus's service, or None."""
        return self._opened().plan

    def apply_plan(self, plan: Plan) -> tuple[str, ...]:
        """Make it the plan of everybody on this bus's service; returns its topics that nobody holds in order here.

        PlanError, and nothing changed, unless it keeps the laws and orders every two topics that are ordered now.
        """
        check_plan(plan)
        return self._opened().apply_plan(plan)

    # Publishing.

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

        Retrying with the same `id` never makes a second event. UnconfirmedError: no confirmation in time.
        """
        receipt = None
        try:
            async with asyncio.timeout(self._publish_timeout):
                await self._room()
                receipt = self.publish_nowait(topic, data, id=id, headers=headers, deadline=deadline)
                return await receipt
        except TimeoutError:
            raise unconfirmed(receipt, topic, 1, self._publish_timeout, self._trouble()) from None

    async def publish_many(self, events: Iterable[tuple[str, object]]) -> list[Receipt]:
        """Publish (topic, data) pairs in this order; return when all have their places.

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
                receipts.append(self.publish_nowait(topic, data))
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
            known = None if id is None else self._opened().ids.find(topic, id)
            if known is not None:
                return known
        self._nth[topic] = nth = nth + 1
        self._n += 1
        flight = self._flight
        publications = flight.publications
        receipt = Receipt(flight, len(publications))
        publications.append(
            Publication(
                self.name,
                self._incarnation,
                self._n,
                topic,
                body,
                content,
                time.time(),
                nth,
                id,
                None if headers is None else dict(headers),
            )
        )
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
            self._scheduled = True
            linger_s = self._opened().linger_s
            if linger_s:
                self._loop.call_later(linger_s, self._depart)  # type: ignore[union-attr]
            else:
                self._loop.call_soon(self._depart)  # type: ignore[union-attr]
        return receipt

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
        hub = self._opened()
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

    # Subscribing.

    def subscribe(self, *topics: str, **options: Any) -> Subscription:
        """A subscription to some topics, to be opened by `async with`.

        order: none, fifo, causal, total (default), total_causal. on_gap: wait (default), tag, skip, fail;
        buffer= and max_hold= bound how much and how long tag and skip hold. type= decodes payloads. queue=,
        slow= (wait, drop, fail) and slow_timeout= say what happens when the application lags. name= must be
        unique; with ack= (auto, manual) it is that of a durable subscriber, whose place is kept, and held= (refuse,
        take) says what happens when somebody else holds it. start= is where it begins: new (default), earliest, a
        datetime, seconds since 1970, or a stamp; gone= (fail, skip) what happens when that is not kept any more.
        where= is a filter on the content (docs/filters.md): events that it does not match are not delivered.
        """
        hub = self._opened()
        checked, made = check_topics(topics), make_options(options)
        self._subscribed += 1
        name = made.name or f"{self.name}.{self._subscribed}"
        subscription = hub.subscription(name, checked, made, self._recorder)
        subscription.observer = self._observer
        subscription.on_open, subscription.on_close = self._admit, self._dismiss
        return subscription

    def _admit(self, subscription: Subscription) -> None:
        self._opened()
        self._open[subscription] = None

    def _dismiss(self, subscription: Subscription) -> None:
        if subscription in self._open:
            del self._open[subscription]
            if self._observer is not None:
                self._observer.part(subscription)

    def on(
        self, *topics: str, concurrency: int = 1, handler_timeout: float | None = 30.0, **options: Any
    ) -> Callable[[F], F]:
        """Decorate a function to be called with every event of these topics, one at a time, in order.

        Takes the options of `subscribe`; `concurrency` above 1 gives up the order of handling.
        """
        check_topics(topics)
        made = make_options(options)
        if self._service.capabilities.carries_objects:
            made.check_kept("a bus inside one process")
        check_handled(made, concurrency)

        def register(function: F) -> F:
            asked = options if "type" in options else options | {"type": payload_type(function)}
            handler = Handler(function, topics, asked, concurrency, handler_timeout)
            if self._state != "new":
                raise ClosedError(f"handler '{name_of(function)}' comes too late: the bus is {self._state}")
            self._handlers.append(handler)
            return function

        return register

    async def _start(self, handler: Handler) -> None:
        subscription = self.subscribe(*handler.topics, **handler.options)
        await subscription.open()
        task = asyncio.create_task(
            serve(handler, subscription, self._report, self._lanes), name=name_of(handler.function)
        )
        self._served[task] = (subscription, handler.concurrency)

    def _report(self, error: Exception) -> None:
        self.errors.append(error)
        details = None if isinstance(error, UnisonoError) else error
        log.error("bus '%s': %s: %s", self.name, type(error).__name__, error, exc_info=details)
