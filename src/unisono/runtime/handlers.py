"""Serving `@bus.on` handlers: one event at a time per handler, because concurrency would undo the order.

A handler that raises, or that runs over its time, is reported and the next event follows; nobody else notices.
`async def` handlers run in the event loop and can be cancelled, but not while they block it. `def` handlers run
in a thread of their own, which can be abandoned but not stopped.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import logging
import queue
import threading
import typing
from collections.abc import Awaitable, Callable
from contextvars import Context, copy_context
from dataclasses import dataclass
from typing import Any, TypeAlias

from unisono.model.errors import ConfigError, HandlerTimeoutError, UnisonoError
from unisono.model.event import Event
from unisono.runtime.options import check_number
from unisono.runtime.subscription import Subscription

Function: TypeAlias = Callable[[Event[Any]], Awaitable[None] | None]
log = logging.getLogger("unisono")

STUCK_THREADS_MAX = 32


class StuckHandlerError(UnisonoError):
    """So many calls of a `def` handler never returned that it is not called any more."""


@dataclass(frozen=True, slots=True)
class Handler:
    """A function and the subscription it wants."""

    function: Function
    topics: tuple[str, ...]
    options: dict[str, Any]
    concurrency: int
    timeout: float | None

    def __post_init__(self) -> None:
        check_number("concurrency", self.concurrency, whole=True, least=1)
        if self.timeout is not None:
            check_number("handler_timeout", self.timeout, positive=True)


def payload_type(function: Function) -> Any:
    """The payload type that a handler's signature asks for: `event: Event[Order]` asks for Order."""
    name = name_of(function)
    if not callable(function):
        raise ConfigError(f"a handler is a function, not {name}")
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except ValueError as error:
        raise ConfigError(f"the signature of handler '{name}' cannot be read: {error}") from None
    taken = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    needed = [
        p for p in parameters if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    ]
    if not taken or needed != taken[:1]:
        raise ConfigError(f"handler '{name}' must take exactly one argument, the event")
    try:
        hint = typing.get_type_hints(_annotated(function)).get(taken[0].name)
    except (NameError, TypeError) as error:
        raise ConfigError(
            f"the annotations of handler '{name}' cannot be read: {error}; "
            "import what they name at run time, or give type="
        ) from None
    if typing.get_origin(hint) is Event:
        return typing.get_args(hint)[0]
    return Any


def _annotated(function: Any) -> Any:
    """What carries the annotations: partials and callable objects wrap it."""
    while isinstance(function, functools.partial):
        function = function.func
    return function if inspect.isroutine(function) else type(function).__call__


def name_of(function: Any) -> str:
    """What a handler is called in messages."""
    return getattr(function, "__qualname__", repr(function))


async def serve(
    handler: Handler,
    events: Subscription,
    report: Callable[[Exception], None],
    lanes: set[asyncio.Task[None]],
) -> None:
    """Hand every event of the subscription to the handler until the subscription ends.

    `lanes` holds the tasks that do so, while they do.
    """
    threads = None if inspect.iscoroutinefunction(handler.function) else _Threads(handler.function)
    call = handler.function if threads is None else threads.call
    if events.observer is not None and events.observer.tracing is not None:
        call = events.observer.around(call, events)
    mine = [asyncio.create_task(_lane(handler, call, events, report)) for _ in range(handler.concurrency)]
    lanes.update(mine)
    try:
        for outcome in await asyncio.gather(*mine, return_exceptions=True):
            if isinstance(outcome, Exception):  # the subscription itself failed, for all lanes alike
                report(outcome)
                break
    finally:
        lanes.difference_update(mine)
        if threads is not None:
            threads.stop()
        await events.close()  # nobody takes its events any more: it must not hold up the others


async def _lane(
    handler: Handler, call: Function, events: Subscription, report: Callable[[Exception], None]
) -> None:
    task = asyncio.current_task()
    assert task is not None
    name = name_of(handler.function)
    async for event in events:
        try:
            async with asyncio.timeout(handler.timeout) as limit:
                await call(event)  # type: ignore[misc]
        except StuckHandlerError:
            raise
        except TimeoutError as error:
            if not limit.expired():
                report(error)
                continue
            report(HandlerTimeoutError(f"handler '{name}' took over {handler.timeout:g} s for {event!r}"))
        except asyncio.CancelledError:
            if task.cancelling():
                raise
            # Not we were cancelled, but something the handler waited for.
            report(UnisonoError(f"handler '{name}' let a CancelledError escape for {event!r}"))
        except Exception as error:
            report(error)


class _Threads:
    """Threads for a `def` handler: one per call under way, new ones for those that never return."""

    def __init__(self, function: Function) -> None:
        self._function = function
        self._live: set[_Thread] = set()
        self._idle: list[_Thread] = []
        self._stuck: set[_Thread] = set()

    async def call(self, event: Event[Any]) -> None:
        """Run the handler in a thread; when cancelled, leave the thread behind."""
        if not self._idle:
            self._idle.append(self._start())
        thread = self._idle.pop()
        try:
            result = await thread.call(event)
        except asyncio.CancelledError:
            thread.stop()
            self._live.discard(thread)
            self._stuck.add(thread)
            raise
        except BaseException:
            self._idle.append(thread)
            raise
        self._idle.append(thread)
        if inspect.isawaitable(result):
            await result  # a `def` in front of an `async def`, as many decorators make it

    def _start(self) -> _Thread:
        self._stuck = {thread for thread in self._stuck if thread.is_alive}
        if len(self._stuck) >= STUCK_THREADS_MAX:
            raise StuckHandlerError(
                f"{len(self._stuck)} calls of handler '{name_of(self._function)}' never returned; "
                "it is not called any more. Give what it waits for a time limit"
            )
        thread = _Thread(self._function)
        self._live.add(thread)
        return thread

    def stop(self) -> None:
        """Let every thread end when its call does."""
        for thread in self._live:
            thread.stop()


class _Thread:
    """A daemon thread that runs a handler for one event after the other."""

    def __init__(self, function: Function) -> None:
        self._function = function
        self._work: queue.SimpleQueue[tuple[Event[Any], Context, asyncio.Future[Any]] | None]
        self._work = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="unisono-handler", daemon=True)
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            event, context, done = work
            result: Any = None
            error: BaseException | None = None
            try:
                result = context.run(self._function, event)
            except BaseException as raised:
                error = raised
            try:
                done.get_loop().call_soon_threadsafe(_settle, done, result, error)
            except RuntimeError:
                return  # the loop is gone, and with it whoever waited

    async def call(self, event: Event[Any]) -> Any:
        done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._work.put((event, copy_context(), done))
        return await done

    def stop(self) -> None:
        self._work.put(None)


def _settle(done: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if done.done():
        if inspect.iscoroutine(result):
            result.close()
    elif error is None:
        done.set_result(result)
    elif isinstance(error, Exception) and not isinstance(error, StopIteration):
        done.set_exception(error)
    else:  # a future takes no StopIteration, and a handler's SystemExit ends the handler only
        done.set_exception(RuntimeError(repr(error)))
