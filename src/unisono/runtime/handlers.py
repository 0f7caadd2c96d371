"""Serving `@bus.on` handlers: one event at a time per handler, because concurrency would undo the order.

A handler that raises, or that runs over its time, is reported and the next event follows; nobody else notices.
`async def` handlers run in the event loop and can be cancelled, but not while they block it. `def` handlers run
in a thread of their own, which can be abandoned but not stopped.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import queue
import threading
import typing
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from unisono.model.errors import ConfigError, HandlerTimeoutError, UnisonoError
from unisono.model.event import Event
from unisono.runtime.subscription import Subscription

Function: TypeAlias = Callable[[Event[Any]], Awaitable[None] | None]
log = logging.getLogger("unisono")


@dataclass(frozen=True, slots=True)
class Handler:
    """A function and the subscription it wants."""

    function: Function
    topics: tuple[str, ...]
    options: dict[str, Any]
    concurrency: int
    timeout: float | None

    def __post_init__(self) -> None:
        if self.concurrency < 1:
            raise ConfigError(f"concurrency={self.concurrency!r}; it is at least 1")
        if self.timeout is not None and not self.timeout > 0:
            raise ConfigError(f"handler_timeout={self.timeout!r}; it is a positive number of seconds or None")


def payload_type(function: Function) -> Any:
    """The payload type that a handler's signature asks for: `event: Event[Order]` asks for Order."""
    try:
        hints = typing.get_type_hints(function)
        parameters = list(inspect.signature(function).parameters.values())
    except (NameError, TypeError, ValueError) as error:
        raise ConfigError(f"the signature of handler '{name_of(function)}' cannot be read: {error}") from None
    if len([p for p in parameters if p.default is p.empty and p.kind in (0, 1)]) != 1:
        raise ConfigError(f"handler '{name_of(function)}' must take exactly one argument, the event")
    hint = hints.get(parameters[0].name)
    if typing.get_origin(hint) is Event:
        return typing.get_args(hint)[0]
    return Any


def name_of(function: Any) -> str:
    """What a handler is called in messages."""
    return getattr(function, "__qualname__", repr(function))


async def serve(handler: Handler, events: Subscription, report: Callable[[Exception], None]) -> None:
    """Hand every event of the subscription to the handler until the subscription ends."""
    if inspect.iscoroutinefunction(handler.function):
        call: Callable[[Event[Any]], Awaitable[None]] = handler.function
        workers: list[_Thread] = []
    else:
        threads = _Threads(handler.function)
        call, workers = threads.call, threads.live
    try:
        await asyncio.gather(*(_lane(handler, call, events, report) for _ in range(handler.concurrency)))
    except UnisonoError as error:  # the subscription itself failed
        report(error)
    finally:
        for worker in workers:
            worker.stop()


async def _lane(
    handler: Handler,
    call: Callable[[Event[Any]], Awaitable[None]],
    events: Subscription,
    report: Callable[[Exception], None],
) -> None:
    async for event in events:
        try:
            async with asyncio.timeout(handler.timeout) as limit:
                await call(event)
        except TimeoutError as error:
            if not limit.expired():
                report(error)
                continue
            name = name_of(handler.function)
            report(HandlerTimeoutError(f"handler '{name}' took over {handler.timeout:g} s for {event!r}"))
        except Exception as error:
            report(error)


class _Threads:
    """Threads for a `def` handler: one per call under way, new ones for those that never return."""

    def __init__(self, function: Function) -> None:
        self._function = function
        self.live: list[_Thread] = []
        self._idle: list[_Thread] = []

    async def call(self, event: Event[Any]) -> None:
        """Run the handler in a thread; when cancelled, leave the thread behind."""
        if not self._idle:
            self._idle.append(_Thread(self._function))
            self.live.append(self._idle[-1])
        thread = self._idle.pop()
        try:
            await thread.call(event)
        except asyncio.CancelledError:
            thread.stop()
            self.live.remove(thread)
            raise
        except BaseException:
            self._idle.append(thread)
            raise
        self._idle.append(thread)


class _Thread:
    """A daemon thread that runs a handler for one event after the other."""

    def __init__(self, function: Function) -> None:
        self._function = function
        self._work: queue.SimpleQueue[tuple[Event[Any], asyncio.Future[None]] | None] = queue.SimpleQueue()
        threading.Thread(target=self._run, name="unisono-handler", daemon=True).start()

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            event, done = work
            error = None
            try:
                self._function(event)
            except BaseException as raised:
                error = raised
            try:
                done.get_loop().call_soon_threadsafe(_settle, done, error)
            except RuntimeError:
                return  # the loop is gone, and with it whoever waited

    async def call(self, event: Event[Any]) -> None:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._work.put((event, done))
        await done

    def stop(self) -> None:
        self._work.put(None)


def _settle(done: asyncio.Future[None], error: BaseException | None) -> None:
    if done.done():
        return
    if error is None:
        done.set_result(None)
    else:
        done.set_exception(error if isinstance(error, Exception) else RuntimeError(repr(error)))
