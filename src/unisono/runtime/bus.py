"""The bus: everything a user does starts here."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from threading import get_ident
from types import TracebackType
from typing import Any, Self, TypeVar

from unisono.engines.plan import Plan, check_plan
from unisono.ens.port import EventNotificationService
from unisono.model.durability import Durability
from unisono.model.errors import ClosedError, UnisonoError
from unisono.runtime.deadline.broker import DeadlineBroker
from unisono.runtime.deadline.settings import Deadlines
from unisono.runtime.deadline.subscription import DeadlineSubscription
from unisono.runtime.exchange import Exchange
from unisono.runtime.handlers import Function, Handler, log, name_of, payload_type, serve
from unisono.runtime.nobody import Nobody
from unisono.runtime.observer import Observer
from unisono.runtime.options import check_handled, check_number, check_topics, make_options
from unisono.runtime.publishing import Publishing
from unisono.runtime.receipts import Flight
from unisono.runtime.recorder import Recorder
from unisono.runtime.subscription import Subscription

F = TypeVar("F", bound=Function)
PAYLOAD_BYTES_MAX = 1024 * 1024
ERRORS_KEPT = 100
CLOSE_S = 5.0  # how long closing waits for handlers that do not let themselves be cancelled


class Bus(Publishing):
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
        deadlines: Deadlines | None = None,
    ) -> None:
        direct = DeadlineBroker(service, name, deadlines or Deadlines(), recorder)
        super().__init__(name, direct, recorder, outbox, payload_max, publish_timeout, observer)
        self.errors: deque[Exception] = deque(maxlen=ERRORS_KEPT)  # what handlers raised, newest last
        self._service = service
        self._make_exchange = exchange
        self._handlers: list[Handler] = []
        self._served: dict[asyncio.Task[None], tuple[Subscription, int]] = {}  # and how many lanes it has
        self._lanes: set[asyncio.Task[None]] = set()
        self._open: dict[Subscription, None] = {}
        self._stop = asyncio.Event()
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
            await self._direct.open(self._incarnation, alone=isinstance(self._hub, Nobody))
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
                await self._direct.flush()
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
                stack.push_async_callback(self._direct.close)
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
        deadline= is for how many seconds an event is of use at most: with order="causal" it comes in time or not at all;
        with total orders on_gap= says what happens to one that is late, tag (event.late) or skip.
        """
        hub = self._opened()
        checked, made = check_topics(topics), make_options(options)
        self._subscribed += 1
        name = made.name or f"{self.name}.{self._subscribed}"
        subscription: Subscription
        if made.is_fresh:
            subscription = DeadlineSubscription(self._direct, hub, name, checked, made, self._recorder)
        else:
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
