"""Filters on the content of events: what is left out had its place in the order like any other."""

from dataclasses import dataclass

import pytest
from bus_kit import assert_held, run, take

import unisono
from unisono import FilterError
from unisono.history import Kind
from unisono.runtime.wanting import UNWANTED


def connect(records=None):
    return unisono.connect("memory://", record=records)


@dataclass
class Trade:
    symbol: str
    price: float


def test_only_what_matches_comes_in_the_one_order():
    async def main():
        async with (
            connect() as bus,
            bus.subscribe("trades", "news", where="price > 100 or merger == true") as some,
            bus.subscribe("trades", "news") as everything,
        ):
            for n in range(50):
                bus.publish_nowait("trades", {"n": n, "price": 90 + n})
                bus.publish_nowait("news", {"n": n, "merger": n % 10 == 0})
            await bus.flush()
            got = await take(everything, 100)
            wanted = [e.id for e in got if e.data.get("price", 0) > 100 or e.data.get("merger")]
            assert [e.id for e in await take(some, len(wanted))] == wanted
            assert some.filtered == 100 - len(wanted)
            assert some.dropped == 0
            assert some.waiting == 0

    run(main)


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ('topic == "a"', [1, {"x": {"y": 2}}]),
        ("data >= 1", [1]),
        ("x.y == 2", [{"x": {"y": 2}}]),
        ('headers.kind == "odd"', [1]),
        ("not exists x.y", [1, b"raw"]),
        ('publisher starts with "nobody"', []),
    ],
)
def test_names_are_those_of_the_payload_then_of_the_event(where, expected):
    async def main():
        async with connect() as bus, bus.subscribe("a", "b", where=where) as events:
            await bus.publish("a", 1, headers={"kind": "odd"})
            await bus.publish("a", {"x": {"y": 2}})
            await bus.publish("b", b"raw")
            assert [e.data for e in await take(events, len(expected))] == expected
            assert events.filtered == 3 - len(expected)

    run(main)


def test_a_payload_wins_over_the_event_and_types_are_decoded_after():
    async def main():
        async with connect() as bus, bus.subscribe("a", where='topic == "mine"') as events:
            await bus.publish("a", {"topic": "mine"})
            assert (await events.get_one(timeout=5)).data == {"topic": "mine"}
        async with connect() as bus, bus.subscribe("a", where="price > 1", type=Trade) as events:
            await bus.publish("a", Trade("X", 1.0))
            await bus.publish("a", {"price": "high"})
            await bus.publish("a", Trade("Y", 2.0))
            assert (await events.get_one(timeout=5)).data == Trade("Y", 2.0)

    run(main)


@pytest.mark.parametrize("order", ["none", "fifo", "causal", "total", "total_causal"])
def test_every_order_takes_filters(order):
    async def main():
        async with connect() as bus, bus.subscribe("a", where="data in [2, 4]", order=order) as events:
            for n in range(6):
                await bus.publish("a", n)
            assert [e.data for e in await take(events, 2)] == [2, 4]

    run(main)


def test_what_is_left_out_takes_no_room_and_the_history_says_why():
    records = []

    async def main():
        async with connect(records) as bus, bus.subscribe("a", where="data == 999", queue=10) as events:
            for n in range(1000):
                await bus.publish("a", n)
            assert [e.data for e in await take(events, 1)] == [999]
            assert (events.received, events.filtered) == (1000, 999)

    run(main)
    left = [r for r in records if r.kind is Kind.DROPPED]
    assert len(left) == 999
    assert {r.reason for r in left} == {UNWANTED}
    assert_held(records, "nothing_lost")


def test_handlers_take_filters():
    got = []

    async def main():
        bus = connect()

        @bus.on("a", where="data > 2")
        async def heard(event):
            got.append(event.data)

        async with bus:
            for n in range(6):
                await bus.publish("a", n)
            await bus.drain()

    run(main)
    assert got == [3, 4, 5]


def test_a_text_that_is_none_is_refused_before_anything_happens():
    async def main():
        async with connect() as bus:
            with pytest.raises(FilterError, match=r"\^"):
                bus.subscribe("a", where="price >> 3")
            with pytest.raises(FilterError, match="never"):
                bus.subscribe("a", where='x == 1 and x == "one"')

    run(main)
