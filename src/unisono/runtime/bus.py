"""The bus: everything a user does starts here."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from unisono.ens.port import EventNotificationService
from unisono.ens.registry import open_service
from unisono.history.record import Kind, Record
from unisono.model.errors import (
    BackPressureError,
    ClosedError,
    ConfigError,
    PayloadError,
    UnconfirmedError,
    UnisonoError,
)
from unisono.model.frames import RAW, Publication
from unisono.model.ids import check_topic
from unisono.model.payloads import encode
from unisono.runtime.handlers import Function, Handler, log, name_of, payload_type, serve
from unisono.runtime.hub import Hub, hub_of
from unisono.runtime.options import check_topics, make_options
from unisono.runtime.receipts import FLIGHT_EVENTS_MAX, Flight, Receipt
from unisono.runtime.recorder import Recorder
from unisono.runtime.subscription import Subscription

F = TypeVar("F", bound=Function)
PAYLOAD_BYTES_MAX = 1024 * 1024
ERRORS_KEPT = 100


def connect(
    url: str = "memory://",
    *,
    name: str | None = None,
    record: list[Record] | str | Path | None = None,
    outbox: int = 65536,
    payload_max: int = PAYLOAD_BYTES_MAX,
    publish_timeout: float = 30.0,
) -> Bus:
    """A bus on the service behind `url`. Lazy: nothing happens before `async with bus`.

    `name` is who publishes (made up if left out); `record` takes the history, in a list or a file; `outbox` is
    how many events may wait to be sent, `payload_max` how many bytes one may have, `publish_timeout` how many
    seconds `publish` waits for its confirmation.
    """
    if name is not None and (not isinstance(name, str) or not name or "/" in name or name != name.strip()):
        raise ConfigError(f"name={name!r}; a bus has a name without slashes or spaces around it")
    for option, value in (("outbox", outbox), ("payload_max", payload_max)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ConfigError(f"{option}={value!r} is not a positive whole number")
    if (
        isinstance(publish_timeout, bool)
        or not isinstance(publish_timeout, int | float)
        or publish_timeout <= 0
    ):
        raise ConfigError(f"publish_timeout={publish_timeout!r} is not a positive number of seconds")
    service = open_service(url)
    recorder = None if record is None else Recorder(record)
    return Bus(service, name or f"bus-{secrets.token_hex(4)}", recorder, outbox, payload_max, publish_timeout)


class Bus:
    """Publishes and subscribes; made by `unisono.connect`."""

    def __init__(
        self,
        service: EventNotificationService,
        name: str,
        recorder: Recorder | None,
        outbox: int,
        payload_max: int,
        publish_timeout: float,
    ) -> None:
        self.name = name
        self.errors: deque[Exception] = deque(maxlen=ERRORS_KEPT)  # what handlers raised, newest last
        self._service = service
        self._recorder = recorder
        self._outbox_max = outbox
        self._payload_max = payload_max
        self._publish_timeout = publish_timeout
        self._handlers: list[Handler] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._served: dict[Subscription, int] = {}  # and how many lanes of its handler take events
        self._open: dict[Subscription, None] = {}
        self._state = "new"
        self._stop: asyncio.Event | None = None
        self._hub: Hub | None = None
        self._incarnation = time.time_ns() // 1_000_000
        self._n = 0
        self._nth: dict[str, int] = {}
        self._flights: deque[Flight] = deque()
        self._flight = Flight()  # the one now boarding
        self._waiting = 0  # publications that have not departed
        self._scheduled = False
        self._emptied: list[asyncio.Future[None]] = []
        self._subscribed = 0

    # Opening and closing.

    async def __aenter__(self) -> Self:
        if self._state != "new":
            raise ClosedError(f"bus '{self.name}' is {self._state}; connect again for a new one")
        await self._service.connect()
        self._hub = hub_of(self._service)
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        self._state = "open"
        try:
            for handler in self._handlers:
                await self._start(handler)
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            await self.drain()
        await self.close()

    async def drain(self, timeout: float = 30.0) -> None:
        """Let everything published be handed over and every handler finish, also what they publish."""
        self._opened()
        try:
            async with asyncio.timeout(timeout):
                await self.flush()
                while self._waiting or not all(s.is_idle(lanes) for s, lanes in self._served.items()):
                    await asyncio.sleep(0.001)
                    await self.flush()
                await self._service.flush()
        except TimeoutError:
            late = sum(s.waiting for s in self._served)
            log.warning("bus '%s' gave up draining after %g s, %d events unhandled", self.name, timeout, late)

    async def close(self) -> None:
        """Stop at once; what has not been handed over is discarded."""
        if self._state == "closed":
            return
        self._state = "closed"
        for subscription in list(self._open):
            await subscription.close()
        self._open.clear()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for flight in [*self._flights, self._flight]:
            flight.crash(ClosedError(f"bus '{self.name}' was closed before the event was sent"))
        self._flights.clear()
        self._waiting = 0
        self._wake_flushers()
        if self._hub is not None:
            if not self._hub.subscriptions:
                self._hub.close()
            await self._service.close()
        if self._recorder is not None:
            self._recorder.close()
        if self._stop is not None:
            self._stop.set()

    def stop(self) -> None:
        """Make `run` return, after draining."""
        if self._stop is not None:
            self._stop.set()

    async def run(self) -> None:
        """Serve the `@bus.on` handlers until `stop` is called or the task is cancelled; then drain."""
        if self._state == "new":
            async with self:
                await self.run()
            return
        self._opened()
        assert self._stop is not None
        await self._stop.wait()
        if self._state == "open":
            await self.drain()

    def _opened(self) -> Hub:
        if self._hub is None or self._state != "open":
            raise ClosedError(f"bus '{self.name}' is not open; use 'async with bus:'")
        return self._hub

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
        if self._waiting >= self._outbox_max:
            await self.flush()
        receipt = self.publish_nowait(topic, data, id=id, headers=headers, deadline=deadline)
        return await self._confirmed(receipt, 1)

    async def publish_many(self, events: Iterable[tuple[str, object]]) -> list[Receipt]:
        """Publish (topic, data) pairs in this order; return when all have their places."""
        receipts = []
        for topic, data in events:
            if self._waiting >= self._outbox_max:
                await self.flush()
            receipts.append(self.publish_nowait(topic, data))
        if receipts:
            await self._confirmed(receipts[-1], len(receipts))
        return receipts

    async def _confirmed(self, receipt: Receipt, events: int) -> Receipt:
        try:
            async with asyncio.timeout(self._publish_timeout):
                return await receipt
        except TimeoutError:
            raise UnconfirmedError(
                f"no confirmation for {events} event(s) on '{receipt.topic}' within {self._publish_timeout:g} s; "
                f"retry with id={receipt.id!r}, or look for a subscriber that holds everybody up"
            ) from None

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
        if type(data) is bytes:
            body, content = data, RAW
        else:
            body, content = encode(data)
        if len(body) > self._payload_max:
            raise PayloadError(f"a payload of {len(body)} bytes is over the limit of {self._payload_max}")
        nth = self._nth.get(topic)
        if nth is None:
            nth = 0
            check_topic(topic)
        if id is not None or headers is not None or deadline is not None:
            known = self._check_extras(topic, id, headers, deadline)
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
            self._opened().remember(topic, id, receipt)
        if self._recorder is not None:
            self._recorder.write(Kind.PUBLISHED, self.name, event=str(publications[-1].id), topic=topic)
        if len(publications) == FLIGHT_EVENTS_MAX:
            self._flights.append(flight)
            self._flight = Flight()
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._depart)
        return receipt

    def _check_extras(
        self, topic: str, id: str | None, headers: Mapping[str, str] | None, deadline: float | None
    ) -> Receipt | None:
        if deadline is not None:
            raise ConfigError(
                "deadline= belongs to deadline-causal order, which this version does not have yet"
            )
        for key, value in (headers or {}).items():
            if not isinstance(key, str) or not isinstance(value, str):
                raise PayloadError(f"headers are strings; {key!r}: {value!r} is not")
        if id is None:
            return None
        if not isinstance(id, str) or not id or len(id) > 255:
            raise ConfigError(f"id={id!r}; an id is a string of 1 to 255 characters")
        return self._opened().known(topic, id)

    async def flush(self) -> None:
        """Return when every event published so far has been sent, and slow subscribers have caught up."""
        self._opened()
        self._depart()
        await asyncio.sleep(0)  # let the subscribers have them
        while self._waiting:
            emptied = self._loop.create_future()
            self._emptied.append(emptied)
            await emptied

    def _depart(self) -> None:
        """Send everything that waits, as far as no subscriber holds us up."""
        self._scheduled = False
        if self._state != "open":
            return
        hub = self._opened()
        while self._waiting:
            if hub.full:
                self._scheduled = True
                hub.park(self._depart)
                return
            if self._flights:
                flight = self._flights.popleft()
            else:
                flight, self._flight = self._flight, Flight()
            self._waiting -= len(flight.publications)
            hub.depart(flight)
            if self._recorder is not None:
                self._record_sequenced(flight, self._recorder)
        self._wake_flushers()

    def _wake_flushers(self) -> None:
        for emptied in self._emptied:
            if not emptied.done():
                emptied.set_result(None)
        self._emptied.clear()

    def _record_sequenced(self, flight: Flight, recorder: Recorder) -> None:
        for seat, publication in enumerate(flight.publications):
            stamp = Receipt(flight, seat).stamp
            if stamp:
                number, event = stamp[publication.topic], str(publication.id)
                recorder.write(
                    Kind.SEQUENCED,
                    self.name,
                    event=event,
                    topic=publication.topic,
                    number=number,
                    stamp=stamp,
                )

    # Subscribing.

    def subscribe(self, *topics: str, **options: Any) -> Subscription:
        """A subscription to some topics, to be opened by `async with`.

        order: none, fifo, causal, total (default), total_causal. on_gap: wait (default), tag, skip, fail;
        buffer= and max_hold= bound how much and how long tag and skip hold. type= decodes payloads. queue=,
        slow= (wait, drop, fail) and slow_timeout= say what happens when the application lags. name= must be
        unique.
        """
        hub = self._opened()
        checked, made = check_topics(topics), make_options(options)
        self._subscribed += 1
        name = made.name or f"{self.name}.{self._subscribed}"
        subscription = Subscription(hub, self.name, name, checked, made, self._recorder)
        self._open[subscription] = None
        subscription.on_end = lambda: self._open.pop(subscription, None)
        return subscription

    def on(
        self, *topics: str, concurrency: int = 1, handler_timeout: float | None = 30.0, **options: Any
    ) -> Callable[[F], F]:
        """Decorate a function to be called with every event of these topics, one at a time, in order.

        Takes the options of `subscribe`; `concurrency` above 1 gives up the order of handling.
        """
        check_topics(topics)
        make_options(options)

        def register(function: F) -> F:
            asked = {"type": payload_type(function)} | options
            handler = Handler(function, topics, asked, concurrency, handler_timeout)
            if self._state != "new":
                raise ClosedError(f"handler '{name_of(function)}' comes too late: the bus is {self._state}")
            self._handlers.append(handler)
            return function

        return register

    async def _start(self, handler: Handler) -> None:
        subscription = self.subscribe(*handler.topics, **handler.options)
        await subscription.open()
        self._served[subscription] = handler.concurrency
        task = asyncio.create_task(serve(handler, subscription, self._report), name=name_of(handler.function))
        self._tasks.append(task)

    def _report(self, error: Exception) -> None:
        self.errors.append(error)
        details = None if isinstance(error, UnisonoError) else error
        log.error("bus '%s': %s: %s", self.name, type(error).__name__, error, exc_info=details)
