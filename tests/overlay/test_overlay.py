"""Dispatchers and leaves on real sockets: trees that form and heal, content that decides, losses that come back."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import unisono
from unisono import ConfigError, Event, PayloadError
from unisono.engines.filters import parse
from unisono.history import Kind, Record
from unisono.model.frames import Publication
from unisono.model.payloads import encode
from unisono.runtime.overlay.key import VARIABLE, key_for
from unisono.runtime.overlay.matching import ASKED_MAX, Matching
from unisono.runtime.overlay.service import seen_by_filters
from unisono.runtime.overlay.site import Site
from unisono.runtime.overlay.wire import name_at, place_of

KEY = key_for("127.0.0.1", None)
BOUND_S = 30.0


@asynccontextmanager
async def dispatchers(count: int, loss: float = 0.0, key: bytes = KEY) -> AsyncIterator[list[Site]]:
    async with AsyncExitStack() as stack:
        sites: list[Site] = []
        for n in range(count):
            site = Site(key, lambda clients, event: None, loss=loss, seed=n)
            sites.append(await site.open("127.0.0.1", 0))
            stack.callback(site.close)
            site.join([sites[0].name, sites[n // 2].name])
        await until(lambda: is_one_tree(sites))
        yield sites


def is_one_tree(sites: list[Site]) -> bool:
    """Whether all hang together, both ends of every link know of it, and nothing goes in a circle."""
    names = {site.name for site in sites}
    links = {
        (site.name, other)
        for site in sites
        for other in site.neighbours
        if other in names or not other.startswith("~")
    }
    if any((there, here) not in links for here, there in links) or len(links) != 2 * (len(sites) - 1):
        return False
    reached, todo = set(), [sites[0].name]
    while todo:
        here = todo.pop()
        if here not in reached:
            reached.add(here)
            todo += [there for one, there in links if one == here]
    return reached == names


async def until(condition: Callable[[], bool], bound_s: float = BOUND_S) -> None:
    async with asyncio.timeout(bound_s):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.02)


def run(scene: Any) -> None:
    asyncio.run(asyncio.wait_for(scene, 60))


def test_content_decides_who_hears_what() -> None:
    async def scene() -> None:
        async with (
            dispatchers(3) as sites,
            unisono.connect(f"udp://{sites[1].name}") as near,
            unisono.connect(f"udp://{sites[2].name}") as far,
            near.subscribe("trades", order="none", where="price > 100") as dear,
            far.subscribe("trades", "news.*", order="none") as everything,
            unisono.connect(f"udp://{sites[0].name}") as publisher,
        ):
            await until(lambda: any("news" in p.text for p in sites[0].dispatcher.table.patterns.values()))
            for n in range(20):
                await publisher.publish("trades", {"n": n, "price": 91 + n})
            await publisher.publish("news.merger", {"n": 20})
            await publisher.publish("weather", {"n": 21})
            got: list[Event[Any]] = [await everything.get_one(timeout=10) for _ in range(21)]
            assert sorted(event.data["n"] for event in got) == list(range(21))
            assert {event.topic for event in got} == {"trades", "news.merger"}
            some: list[Event[Any]] = [await dear.get_one(timeout=10) for _ in range(10)]
            assert sorted(event.data["n"] for event in some) == list(range(10, 20))
            assert dear.filtered == 0  # what it does not want never came
            assert publisher.durability == "none"

    run(scene())


def test_what_one_link_in_ten_loses_comes_back_once_each_and_in_fifo_order() -> None:
    async def scene() -> None:
        async with (
            dispatchers(6, loss=0.1) as sites,
            unisono.connect(f"udp://{sites[5].name}?loss=0.1") as far,
            far.subscribe("t", order="fifo", on_gap="skip", max_hold=5) as events,
        ):
            await until(lambda: bool(sites[0].dispatcher.table.patterns))
            async with unisono.connect(f"udp://{sites[0].name}?loss=0.1") as publisher:
                for n in range(300):
                    publisher.publish_nowait("t", n)
                    await asyncio.sleep(0.003)
                got = [(await events.get_one(timeout=20)).data for _ in range(300)]
                assert got == list(range(300))

    run(scene())


def test_the_tree_heals_when_an_inner_dispatcher_is_gone_and_leaves_move_on() -> None:
    async def scene() -> None:
        async with dispatchers(7) as sites:
            leaf = unisono.connect(f"udp://{sites[3].name},{sites[6].name}")
            async with (
                leaf,
                leaf.subscribe("t", order="none") as events,
                unisono.connect(f"udp://{sites[0].name}") as publisher,
            ):
                await until(lambda: bool(sites[0].dispatcher.table.patterns))
                gone = sites.pop(3)
                gone.close()
                began = time.monotonic()
                await publisher.publish("t", "meanwhile")  # nobody knows yet that it is gone
                await until(lambda: is_one_tree(sites))
                assert time.monotonic() - began < 10
                await publisher.publish("t", "after")  # the leaf hangs on nobody yet, or on another one
                got = {(await events.get_one(timeout=10)).data for _ in range(2)}
                assert got == {"meanwhile", "after"}

    run(scene())


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({}, "order='total': nobody sequences on udp://"),
        ({"order": "fifo"}, "cannot wait for what this transport loses"),
        ({"order": "none", "start": "earliest"}, "needs one order to go by"),
    ],
)
def test_what_an_overlay_cannot_give_is_refused(options: dict[str, Any], says: str) -> None:
    async def scene() -> None:
        async with dispatchers(1) as sites, unisono.connect(f"udp://{sites[0].name}") as bus:
            with pytest.raises(ConfigError, match=says.replace("(", r"\(")):
                bus.subscribe("a", **options)

    run(scene())


def test_topics_come_and_go_and_too_much_is_refused() -> None:
    async def scene() -> None:
        async with (
            dispatchers(1) as sites,
            unisono.connect(f"udp://{sites[0].name}") as bus,
            bus.subscribe("a", order="none") as events,
        ):
            await events.add("b")
            await events.remove("a")
            await bus.publish("a", 1)
            await bus.publish("b", 2)
            assert (await events.get_one(timeout=5)).data == 2
            with pytest.raises(PayloadError, match="over the limit of 16000"):
                await bus.publish("b", bytes(16_001))

    run(scene())


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("udp://", "names no dispatcher"),
        ("udp://nowhere", "say host:port"),
        ("udp://127.0.0.1:99999", "say host:port"),
        ("udp://127.0.0.1:7000?speed=9", "no option 'speed'"),
        ("udp://127.0.0.1:7000?loss=2", "loss"),
    ],
)
def test_urls_that_are_none_are_refused(url: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        unisono.connect(url)


def test_nobody_there_and_no_key_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)

    async def scene() -> None:
        with pytest.raises(ConnectionError, match=r"no dispatcher answers at 127\.0\.0\.1:9"):
            async with unisono.connect("udp://127.0.0.1:9?connect_timeout=0.3"):
                pass
        with pytest.raises(ConfigError, match="key_file"):
            async with unisono.connect("udp://192.0.2.1:7000"):
                pass
        async with dispatchers(1, key=b"another key that is long") as sites:
            with pytest.raises(ConnectionError, match="same key"):
                async with unisono.connect(f"udp://{sites[0].name}?connect_timeout=0.5"):
                    pass

    run(scene())


def test_names_are_addresses() -> None:
    for host, port in (("127.0.0.1", 7000), ("::1", 7000), ("edge.local", 1)):
        assert place_of(name_at(host, port)) == place_of(name_at(host, port, leaf=True)) == (host, port)
    with pytest.raises(ConfigError, match="host:port"):
        place_of("7000")


def test_dispatchers_as_commands_and_one_of_them_killed(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("a key for this test only")
    command = [sys.executable, "-m", "unisono", "dispatcher", "--json", "--key-file", str(key), "--listen"]
    processes: list[subprocess.Popen[str]] = []

    def start(*more: str) -> str:
        process = subprocess.Popen([*command, "udp://127.0.0.1:0", *more], stdout=subprocess.PIPE, text=True)
        processes.append(process)
        assert process.stdout is not None
        said = json.loads(process.stdout.readline())
        assert said["ready"]
        return str(said["url"])

    async def scene() -> None:
        first = start()
        second = start("--join", first)
        third = start("--join", first, "--join", second)
        options = f"?key_file={key}"
        async with (
            unisono.connect(third + options) as far,
            far.subscribe("t", order="none") as events,
            unisono.connect(f"{first},{second.removeprefix('udp://')}{options}") as publisher,
        ):
            os.kill(processes[0].pid, signal.SIGKILL)
            n, got = 0, None
            async with asyncio.timeout(BOUND_S):
                while got is None:
                    n += 1
                    publisher.publish_nowait("t", n)
                    try:
                        got = await events.get_one(timeout=0.1)
                    except TimeoutError:
                        continue
            assert 0 < got.data <= n

    try:
        run(scene())
    finally:
        for process in processes:
            process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()


def test_filters_see_the_first_names_of_an_event_that_has_many() -> None:
    many = Publication("p", 1, 1, "t", *encode({f"n{i}": {"deep": i} for i in range(300)}))
    seen = seen_by_filters(many)
    assert len(seen) == 256
    assert (seen["topic"], seen["n0.deep"]) == ("t", 0)
    large = Publication("p", 1, 1, "t", *encode({"a": 1, "b": "x" * 13_000, "c": 2}))
    assert seen_by_filters(large).keys() == {"topic", "publisher", "a"}


def test_causes_come_before_effects_and_in_time_over_datagrams_that_get_lost() -> None:
    async def scene() -> None:
        async with AsyncExitStack() as stack:
            sites = await stack.enter_async_context(dispatchers(3, loss=0.1))
            records: list[Record] = []
            asks, replies, listens = [
                await stack.enter_async_context(
                    unisono.connect(f"udp://{sites[n].name}?loss=0.1", name=f"b{n}", record=records)
                )
                for n in range(3)
            ]
            questions = await stack.enter_async_context(replies.subscribe("a", order="causal", deadline=8.0))
            heard = await stack.enter_async_context(listens.subscribe("a", "b", order="causal", deadline=8.0))
            everything = await stack.enter_async_context(listens.subscribe(">", order="none"))

            async def reply() -> None:
                async for event in questions:
                    replies.publish_nowait("b", event.data, deadline=8.0)

            got: list[Event[Any]] = []

            async def listen() -> None:
                async for event in heard:
                    got.append(event)  # noqa: PERF401 (it is cancelled in the middle)

            tasks = [asyncio.create_task(reply()), asyncio.create_task(listen())]
            for n in range(60):
                await asks.publish("a", n, deadline=8.0)
                await asyncio.sleep(0.005)
            await until(lambda: len(got) >= 115)
            for task in tasks:
                task.cancel()
            told = [await everything.get_one(1) for _ in range(everything.waiting)]
            assert {e.topic for e in told} == {"a", "b"}  # what buses say to each other is nobody's topic
            places = {(e.topic, e.data): i for i, e in enumerate(got)}
            assert len(places) == len(got)
            for (topic, n), place in places.items():
                assert topic == "a" or ("a", n) not in places or places["a", n] < place
        dropped = {r.reason for r in records if r.kind is Kind.DROPPED}
        assert dropped <= {"too late", "overtaken"}
        assert all(r.at <= r.deadline for r in records if r.kind is Kind.DELIVERED and r.deadline)

    run(scene())


def test_order_causal_needs_a_deadline_where_nobody_sequences() -> None:
    async def scene() -> None:
        async with dispatchers(1) as sites, unisono.connect(f"udp://{sites[0].name}") as bus:
            with pytest.raises(ConfigError, match="use order='causal' with deadline="):
                bus.subscribe("a", order="causal")

    run(scene())


def test_many_patterns_are_looked_up_as_few_are_asked() -> None:
    matching = Matching()
    filters = [parse(f"n == {n % 50} and price > {n}") for n in range(3 * ASKED_MAX)]
    for count, wanted in enumerate(filters, 1):
        matching.add(wanted)
        if count in (1, ASKED_MAX, ASKED_MAX + 1, len(filters)):
            for event in ({"n": 7, "price": 100}, {"n": 7}, {"n": 0, "price": 1}):
                asked = {one.hash for one in filters[:count] if one.matches(event)}
                assert matching.matching(event) == asked
    for wanted in filters:
        matching.discard(wanted)
        matching.discard(wanted)
    assert matching.matching({"n": 7, "price": 100}) == set()
