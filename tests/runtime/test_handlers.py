"""`@bus.on` handlers: one event at a time, typed by annotation, and each a danger to nobody but itself."""

import asyncio
import contextlib
import functools
import logging
import threading
import time
from dataclasses import dataclass

import msgspec
import pydantic
import pytest
from bus_kit import run, until

import unisono
from unisono import ClosedError, ConfigError, Event, HandlerTimeoutError, PayloadError, UnisonoError
from unisono.runtime import handlers


@pytest.fixture(autouse=True)
def _quiet(caplog):
    caplog.set_level(logging.CRITICAL + 1, "unisono")


@dataclass
class Order:
    id: int


class Struct(msgspec.Struct):
    id: int


class Model(pydantic.BaseModel):
    id: int


def test_async_and_plain_functions_get_every_event_in_order():
    async def main():
        bus = unisono.connect()
        in_loop, in_thread = [], []

        @bus.on("a", "b")
        async def handle(event):
            in_loop.append(event.data)
            assert threading.current_thread() is threading.main_thread()

        @bus.on("a", "b")
        def handle_blocking(event):
            in_thread.append(event.data)
            assert threading.current_thread() is not threading.main_thread()

        async with bus:
            await bus.publish_many([("ab"[n % 2], n) for n in range(200)])
        assert in_loop == in_thread == list(range(200))
        assert not bus.errors

    run(main)


def test_the_annotation_decides_the_payload_type():
    async def main():
        bus = unisono.connect()
        got = {}

        @bus.on("dataclass")
        async def one(event: Event[Order]):
            got["dataclass"] = event.data

        @bus.on("struct")
        def two(event: "Event[Struct]") -> None:
            got["struct"] = event.data

        @bus.on("model")
        async def three(event: Event[Model]):
            got["model"] = event.data

        @bus.on("builtin")
        async def four(event: Event[list[int]]):
            got["builtin"] = event.data

        @bus.on("plain")
        async def five(event: Event):
            got["plain"] = event.data

        @bus.on("given", type=Order)
        async def six(event):
            got["given"] = event.data

        async with bus:
            await bus.publish_many(
                [
                    ("dataclass", Order(1)),
                    ("struct", Struct(2)),
                    ("model", Model(id=3)),
                    ("builtin", [4]),
                    ("plain", {"id": 5}),
                    ("given", {"id": 6}),
                ]
            )
        assert got == {
            "dataclass": Order(1),
            "struct": Struct(2),
            "model": Model(id=3),
            "builtin": [4],
            "plain": {"id": 5},
            "given": Order(6),
        }

    run(main)


def test_a_payload_that_does_not_fit_is_the_handlers_error():
    async def main():
        bus = unisono.connect()
        good = []

        @bus.on("t")
        async def handle(event: Event[Order]):
            good.append(event.data.id)

        async with bus:
            await bus.publish_many([("t", {"id": 1}), ("t", "nonsense"), ("t", {"id": 2})])
        assert good == [1, 2]
        assert [type(error) for error in bus.errors] == [PayloadError]

    run(main)


def test_every_kind_of_callable_will_do():
    async def main():
        bus = unisono.connect()
        got = []

        class Callable:
            def __call__(self, event: Event[Order]):
                got.append(("object", event.data))

            async def method(self, event: Event[Order]):
                got.append(("method", event.data))

        async def partial(kind, event: Event[Order]):
            got.append((kind, event.data))

        def plain_wrapper(function):
            @functools.wraps(function)
            def wrapper(event):
                return function(event)  # a coroutine: not an async function, and yet to be awaited

            return wrapper

        bus.on("t")(Callable())
        bus.on("t")(Callable().method)
        bus.on("t")(functools.partial(partial, "partial"))

        @bus.on("t")
        @plain_wrapper
        async def wrapped(event: Event[Order]):
            got.append(("wrapped", event.data))

        async with bus:
            await bus.publish("t", Order(1))
        assert sorted(got) == [(kind, Order(1)) for kind in ("method", "object", "partial", "wrapped")]
        assert not bus.errors

    run(main)


def _no_argument():
    pass


def _two_arguments(event, more):
    pass


def _keyword_only(event, *, needed):
    pass


def _unknown_annotation(event: "Event[Nowhere]"):  # noqa: F821
    pass


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (_no_argument, "must take exactly one argument, the event"),
        (_two_arguments, "must take exactly one argument, the event"),
        (_keyword_only, "must take exactly one argument, the event"),
        (_unknown_annotation, "'Nowhere' is not defined; import what they name at run time, or give type="),
        ("not a function", "a handler is a function"),
    ],
)
def test_what_cannot_be_a_handler_is_refused_where_it_is_decorated(function, says):
    with pytest.raises(ConfigError) as refused:
        unisono.connect().on("t")(function)
    assert says in str(refused.value)


@pytest.mark.parametrize(
    "options",
    [
        {"concurrency": 0},
        {"concurrency": True},
        {"concurrency": 1.5},
        {"concurrency": "2"},
        {"handler_timeout": 0},
        {"handler_timeout": -1},
        {"handler_timeout": float("nan")},
        {"handler_timeout": True},
        {"handler_timeout": "1"},
    ],
)
def test_bad_handler_options(options):
    (name,) = options
    with pytest.raises(ConfigError, match=f"{name}="):
        unisono.connect().on("t", **options)(lambda event: None)


def test_on_without_topics_or_too_late_is_refused():
    bus = unisono.connect()
    with pytest.raises(unisono.TopicError, match="at least one topic"):
        bus.on()
    with pytest.raises(unisono.TopicError, match="not function"):
        bus.on(lambda event: None)  # @bus.on without its parentheses

    async def main():
        async with bus:
            with pytest.raises(ClosedError, match="comes too late: the bus is open"):
                bus.on("t")(lambda event: None)

    run(main)


@pytest.mark.parametrize("is_async", [True, False], ids=["async", "def"])
@pytest.mark.parametrize("error", [ValueError("no"), StopIteration(), TimeoutError("mine"), SystemExit(1)])
def test_a_handler_that_raises_is_reported_and_the_next_event_follows(is_async, error):
    if is_async and isinstance(error, SystemExit):
        pytest.skip("ends the process, as everywhere")

    async def main():
        bus = unisono.connect()
        got, neighbour = [], []

        def body(event):
            got.append(event.data)
            if event.data == 1:
                raise error

        async def async_body(event):
            body(event)

        bus.on("t")(async_body if is_async else body)
        bus.on("t")(lambda event: neighbour.append(event.data))
        async with bus:
            await bus.publish_many([("t", n) for n in range(4)])
        assert got == neighbour == [0, 1, 2, 3]
        assert len(bus.errors) == 1
        assert not isinstance(bus.errors[0], HandlerTimeoutError)

    run(main)


def test_a_handler_whose_own_task_was_cancelled_goes_on():
    async def main():
        bus = unisono.connect()
        got = []

        @bus.on("t")
        async def handle(event):
            got.append(event.data)
            task = asyncio.create_task(asyncio.sleep(10))
            task.cancel()
            await task

        async with bus:
            await bus.publish_many([("t", 1), ("t", 2)])
        assert got == [1, 2]
        assert ["CancelledError" in str(error) for error in bus.errors] == [True, True]

    run(main)


@pytest.mark.parametrize("is_async", [True, False], ids=["async", "def"])
def test_a_handler_that_never_returns_is_left_behind(is_async):
    async def main():
        bus = unisono.connect()
        got, neighbour, release = [], [], threading.Event()

        async def never(event):
            got.append(event.data)
            if event.data == 1:
                await asyncio.Event().wait()

        def never_blocking(event):
            got.append(event.data)
            if event.data == 1:
                release.wait()

        bus.on("t", handler_timeout=0.03)(never if is_async else never_blocking)
        bus.on("t")(lambda event: neighbour.append(event.data))
        async with bus:
            await bus.publish_many([("t", n) for n in range(5)])
            await until(lambda: len(neighbour) == 5)  # not held up
        release.set()
        assert got == neighbour == list(range(5))
        (error,) = bus.errors
        assert isinstance(error, HandlerTimeoutError)
        assert "took over 0.03 s" in str(error)

    run(main)


def test_threads_that_never_return_are_bounded(monkeypatch):
    monkeypatch.setattr(handlers, "STUCK_THREADS_MAX", 3)

    async def main():
        bus = unisono.connect()
        release, got = threading.Event(), []
        bus.on("t", handler_timeout=0.005)(lambda event: release.wait())
        bus.on("t")(lambda event: got.append(event.data))
        before = threading.active_count()
        async with bus:
            for n in range(10):
                await bus.publish("t", n)
            await until(lambda: len(bus.errors) == 4)
            assert threading.active_count() <= before + 3 + 1
        release.set()
        assert got == list(range(10))
        assert [type(error) for error in bus.errors][:3] == [HandlerTimeoutError] * 3
        assert "3 calls of handler" in str(bus.errors[-1])
        await until(lambda: threading.active_count() <= before)

    run(main)


def test_concurrency_gives_up_order_and_no_event():
    async def main():
        bus = unisono.connect()
        got, running, most = [], 0, 0

        @bus.on("t", concurrency=4)
        async def handle(event):
            nonlocal running, most
            running += 1
            most = max(most, running)
            await asyncio.sleep(0.001)
            running -= 1
            got.append(event.data)

        async with bus:
            await bus.publish_many([("t", n) for n in range(20)])
            await bus.publish_many([("t", n) for n in range(20, 40)])
        assert sorted(got) == list(range(40))
        assert most == 4

    run(main)


def test_one_lane_handles_one_event_at_a_time():
    async def main():
        bus = unisono.connect()
        running = 0

        @bus.on("t")
        async def handle(event):
            nonlocal running
            running += 1
            await asyncio.sleep(0)
            assert running == 1
            running -= 1

        async with bus:
            await bus.publish_many([("t", n) for n in range(50)])
        assert not bus.errors

    run(main)


def test_drain_waits_for_what_handlers_publish():
    async def main():
        bus = unisono.connect("memory://?jitter_ms=3")
        got = []

        @bus.on("first")
        async def relay(event):
            await bus.publish("second", event.data + 1)

        @bus.on("second")
        def last(event):
            time.sleep(0.001)
            got.append(event.data)

        async with bus:
            await bus.publish_many([("first", n) for n in range(20)])
        assert sorted(got) == list(range(1, 21))

    run(main)


@pytest.mark.parametrize("order", ["none", "fifo", "total"])
def test_drain_waits_for_what_is_still_on_its_way(order):
    async def main():
        bus = unisono.connect("memory://?jitter_ms=20")
        got = []
        bus.on("t", order=order)(lambda event: got.append(event.data))
        async with bus:
            await bus.publish_many([("t", n) for n in range(50)])
        assert sorted(got) == list(range(50))

    run(main)


def test_drain_waits_for_repair():
    async def main():
        bus = unisono.connect("memory://?loss=0.5&seed=3")
        got = []
        bus.on("t")(lambda event: got.append(event.data))
        async with bus:
            await bus.publish_many([("t", n) for n in range(50)])
        assert got == list(range(50))

    run(main)


def test_drain_gives_up_after_its_time(caplog):
    caplog.set_level(logging.WARNING, "unisono")

    async def main():
        bus = unisono.connect()

        @bus.on("t")
        async def never(event):
            await asyncio.Event().wait()

        async with bus:
            await bus.publish_many([("t", 1), ("t", 2)])
            await bus.drain(timeout=0.02)
            await bus.close()
        assert "gave up draining after 0.02 s, 1 events unhandled" in caplog.text
        for bad in (-1, float("nan"), True, None):
            with pytest.raises(ConfigError, match="timeout="):
                await bus.drain(timeout=bad)

    run(main)


@pytest.mark.parametrize("method", ["drain", "close"])
def test_a_handler_cannot_wait_for_itself(method):
    async def main():
        bus = unisono.connect()

        @bus.on("t")
        async def handle(event):
            await getattr(bus, method)()

        async with bus:
            await bus.publish("t", 1)
            await until(lambda: bus.errors)
        (error,) = bus.errors
        assert isinstance(error, UnisonoError)
        assert "call bus.stop() instead" in str(error)

    run(main)


@pytest.mark.parametrize("is_async", [True, False], ids=["async", "def"])
def test_run_serves_until_a_handler_stops_it(is_async):
    async def main():
        bus = unisono.connect("memory://run")
        got = []

        def body(event):
            got.append(event.data)
            if event.data == 2:
                bus.stop()

        async def async_body(event):
            body(event)

        bus.on("t")(async_body if is_async else body)
        running = asyncio.create_task(bus.run())
        async with unisono.connect("memory://run") as other:
            await until(lambda: bus._state == "open")
            await other.publish_many([("t", n) for n in range(5)])
            await running  # drained: what was published before is handled
        assert got == [0, 1, 2, 3, 4]
        assert bus._state == "closed"

    run(main)


def test_stop_before_run_and_close_during_run():
    async def main():
        bus = unisono.connect()
        bus.stop()
        await bus.run()  # returns at once

        bus = unisono.connect()
        async with bus:
            running = asyncio.create_task(bus.run())
            await asyncio.sleep(0)
            await bus.close()
            await running

    run(main)


def test_cancelling_run_closes_the_bus():
    async def main():
        bus = unisono.connect()
        bus.on("t")(lambda event: None)
        running = asyncio.create_task(bus.run())
        await until(lambda: bus._state == "open")
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        assert running.cancelled()
        assert bus._state == "closed"

    run(main)


def test_a_handler_that_defies_cancellation_does_not_hold_up_close(monkeypatch):
    monkeypatch.setattr("unisono.runtime.bus.CLOSE_S", 0.02)

    async def main():
        bus = unisono.connect()
        release = asyncio.Event()

        @bus.on("t", handler_timeout=None)
        async def stubborn(event):
            while not release.is_set():
                with contextlib.suppress(asyncio.CancelledError):
                    await release.wait()

        async with bus:
            await bus.publish("t", 1)
            await until(lambda: bus._lanes)
            await asyncio.sleep(0.002)
            await bus.close()
        release.set()
        await asyncio.sleep(0.01)

    run(main)


def test_a_handler_whose_subscription_fails_is_reported_and_holds_up_nobody():
    async def main():
        bus = unisono.connect()
        got, gate = [], asyncio.Event()

        @bus.on("t", slow="fail", queue=1)
        async def slow(event):
            await gate.wait()

        @bus.on("t")
        async def fast(event):
            got.append(event.data)

        async with bus:
            for n in range(5):
                await bus.publish("t", n)
                await asyncio.sleep(0)
            gate.set()
            await until(lambda: bus.errors)
            await until(lambda: len(bus._service._by_topic["t"]) == 1)  # it does not stay subscribed
            for n in range(5, 10):
                await bus.publish("t", n)
        assert got == list(range(10))
        assert [type(error) for error in bus.errors] == [unisono.SlowConsumerError]

    run(main)
