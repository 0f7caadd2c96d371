"""Bad input: a named error that says what to do, and nobody else notices."""

import asyncio
from datetime import UTC, datetime

import msgspec
import pytest
from bus_kit import numbers, run, take

import unisono
from unisono import ConfigError, PayloadError, TopicError, UnisonoError

BAD_TOPICS = [
    ("", "cannot be empty; topics are dot-separated words"),
    ("a b", "topic 'a b' has a space; topics are dot-separated words"),
    (" a", "has a space"),
    ("a\n", "has a space"),
    (".a", "has an empty word; topics are words with single dots between"),
    ("a.", "has an empty word"),
    ("a..b", "has an empty word"),
    (".", "has an empty word"),
    ("a.>.b", "'>' before its end"),
    ("a*", "misplaced wildcard in 'a*'"),
    ("a.b>", "misplaced wildcard in 'b>'"),
    ("a\x00b", r"topic 'a\x00b' has a character that is not allowed"),
    ("a\x1b[31m", "not allowed"),
    ("a/b", "not allowed in 'a/b'"),
    ("a+", "not allowed"),
    ("a#", "not allowed"),
    ("a\u200bb", "cannot be printed"),
    ("\ud800", "cannot be printed"),
    ("x" * 300, "is over the limit of 255 bytes"),
    ("é" * 128, "is over the limit of 255 bytes"),
    (None, "a topic is a string, not NoneType"),
    (7, "a topic is a string, not int"),
    (b"bytes", "a topic is a string, not bytes"),
    (["list"], "a topic is a string, not list"),
    ({}, "a topic is a string, not dict"),
]


def reads_as_a_sentence(error):
    """One line, printable, more than a word."""
    text = str(error)
    assert text.isprintable(), text
    assert len(text.split()) >= 4, text


@pytest.mark.parametrize(("topic", "says"), BAD_TOPICS, ids=lambda x: ascii(x)[:20])
def test_bad_topics(topic, says):
    async def main():
        bus = unisono.connect()
        async with bus, bus.subscribe("good") as events:
            calls = [
                lambda: bus.publish_nowait(topic, 1),
                lambda: bus.subscribe("good2", topic),
                lambda: bus.on(topic),
            ]
            for n, call in enumerate(calls):
                with pytest.raises(TopicError) as refused:
                    call()
                reads_as_a_sentence(refused.value)
                if n or ">" not in says:
                    assert says in str(refused.value)
            with pytest.raises(TopicError):
                await bus.publish(topic, 1)
            await bus.publish("good", 1)
            assert numbers(await take(events, 1)) == [1]

    run(main)


@pytest.mark.parametrize("topic", ["*", ">", "a.*", "a.>", "*.b"])
def test_wildcards_are_refused_where_they_mean_nothing(topic):
    async def main():
        bus = unisono.connect()
        async with bus:
            with pytest.raises(TopicError, match="has a wildcard; events are published on one exact topic"):
                bus.publish_nowait(topic, 1)

    run(main)


@pytest.mark.parametrize("topic", ["a", "orders.eu.new", "x" * 255, "ünï.日本", "a-b_c:d@e"])
def test_good_topics(topic):
    async def main():
        bus = unisono.connect()
        async with bus, bus.subscribe(topic) as events:
            await bus.publish(topic, 1)
            assert (await events.get_one(timeout=1)).topic == topic

    run(main)


BAD_SUBSCRIPTIONS = [
    ((), {}, "at least one topic"),
    (("a", "a"), {}, "topic 'a' is named twice"),
    (
        ("a",),
        {"order": "random"},
        "order='random' is unknown; use one of none, fifo, causal, total, total_causal",
    ),
    (("a",), {"order": None}, "order=None is unknown"),
    (("a",), {"order": ["total"]}, "order=['total'] is unknown"),
    (("a",), {"on_gap": "panic"}, "on_gap='panic' is unknown; use one of wait, tag, skip, fail"),
    (("a",), {"slow": "nap"}, "slow='nap' is unknown; use one of wait, drop, fail"),
    (("a",), {"speed": 9}, "no option 'speed'; it has order, on_gap"),
    (("a",), {"on_gap": "wait", "buffer": 3}, "on_gap='wait' holds as long as it takes"),
    (("a",), {"on_gap": "wait", "max_hold": 1}, "on_gap='wait' holds as long as it takes"),
    (("a",), {"on_gap": "fail", "buffer": 3}, "on_gap='fail' takes max_hold, not buffer"),
    (("a",), {"order": "none", "on_gap": "tag"}, "order='none' knows no gaps"),
    (("a",), {"order": "none", "buffer": 3}, "order='none' knows no gaps"),
    (("a",), {"order": "none", "max_hold": 1}, "order='none' knows no gaps"),
    (("a",), {"deadline": 0.5}, "deadline=0.5: on_gap='wait' waits for what may never come"),
    (("a",), {"where": 7}, "where= is a text"),
    (("a",), {"start": "earliest"}, "start='earliest': a bus inside one process keeps no history"),
    (("a",), {"start": {"a": 3}}, "start={'a': 3}: a bus inside one process keeps no history"),
    (("a",), {"start": "later"}, "start='later' is none; use 'new', 'earliest', a datetime"),
    (("a",), {"start": -1.0}, "start=-1.0 is none"),
    (("a",), {"start": True}, "start=True is none"),
    (("a",), {"start": {}}, "start={} is none"),
    (("a",), {"start": {"a b": 1}}, "is no stamp: topic 'a b' has a space"),
    (("a",), {"start": {"a": "1"}}, "is no stamp: '1' is not a number of 'a'"),
    (("a",), {"start": datetime(2026, 1, 1)}, "has no time zone"),
    (("a",), {"start": datetime(2026, 1, 1, tzinfo=UTC)}, "keeps no history"),
    (("a",), {"start": "earliest", "order": "fifo"}, "order='fifo' has none; use order='total'"),
    (("a",), {"start": "earliest", "on_gap": "tag"}, "leave out on_gap='tag'"),
    (("a",), {"start": 7, "slow": "drop"}, "leaves nothing out; use slow='wait'"),
    (
        ("a",),
        {"ack": "manual"},
        "ack='manual' keeps a place for a durable subscriber; say which one with name=",
    ),
    (("a",), {"ack": "auto", "name": "desk"}, "ack='auto': a bus inside one process keeps no places"),
    (("a",), {"ack": "often", "name": "desk"}, "ack='often' is unknown; use one of auto, manual"),
    (("a",), {"ack": "auto", "name": "two words"}, "a durable subscriber is named like a topic"),
    (("a",), {"ack": "auto", "name": "desk", "order": "none"}, "order='none' has none"),
    (("a",), {"ack": "auto", "name": "desk", "on_gap": "skip"}, "leave out on_gap='skip'"),
    (
        ("a",),
        {"ack": "auto", "name": "desk", "held": "share"},
        "held='share' is unknown; use one of refuse, take",
    ),
    (("a",), {"held": "take"}, "held= is about the name of a durable subscriber"),
    (("a",), {"gone": "skip"}, "gone= is about events that are kept"),
    (("a",), {"name": ""}, "name"),
    (("a",), {"name": 7}, "name"),
    (("a",), {"queue": 0}, "queue=0 is out of range; it is at least 1"),
    *[
        (("a",), {"on_gap": "tag", option: bad}, f"{option}={bad!r}")
        for option in ("buffer", "max_hold", "queue", "slow_timeout")
        for bad in (-1, float("nan"), float("inf"), True, "1")
    ],
    (("a",), {"buffer": 1.5, "on_gap": "tag"}, "buffer=1.5 is not a whole number"),
]


@pytest.mark.parametrize(("topics", "options", "says"), BAD_SUBSCRIPTIONS, ids=str)
def test_bad_subscriptions(topics, options, says):
    async def main():
        bus = unisono.connect()
        async with bus, bus.subscribe("good") as events:
            for method in (bus.subscribe, bus.on):
                with pytest.raises(UnisonoError) as refused:
                    method(*topics, **options)
                assert isinstance(refused.value, ConfigError | TopicError)
                assert says in str(refused.value)
                reads_as_a_sentence(refused.value)
            await bus.publish("good", 1)
            assert numbers(await take(events, 1)) == [1]

    run(main)


@pytest.mark.parametrize("type_", [{"not": "a type"}, [1], "int"])
def test_a_type_that_is_none(type_):
    async def main():
        async with unisono.connect() as bus:
            with pytest.raises(PayloadError, match="cannot be a payload type"):
                bus.subscribe("t", type=type_)

    run(main)


BAD_BUSES = [
    *[{"name": bad} for bad in ("", " x", "a/b", 7, True)],
    *[
        {option: bad}
        for option in ("outbox", "payload_max")
        for bad in (0, -1, True, 1.5, "1", None, float("nan"))
    ],
    *[{"publish_timeout": bad} for bad in (0, -1, True, "1", None, float("nan"), float("inf"))],
]


@pytest.mark.parametrize("options", BAD_BUSES, ids=str)
def test_bad_buses(options):
    (name,) = options
    with pytest.raises(ConfigError, match=f"{name}=") as refused:
        unisono.connect(**options)
    reads_as_a_sentence(refused.value)


class _Cycle:
    pass


def _endless():
    loop = []
    loop.append(loop)
    return loop


@pytest.mark.parametrize(
    "data",
    [object(), _Cycle(), lambda: None, {1, object()}, 2**64, "\ud800", _endless()],
    ids=lambda d: type(d).__name__,
)
def test_payloads_that_cannot_be_encoded(data):
    async def main():
        bus = unisono.connect()
        async with bus, bus.subscribe("t") as events:
            with pytest.raises(PayloadError, match="cannot be published") as refused:
                await bus.publish("t", data)
            reads_as_a_sentence(refused.value)
            receipt = await bus.publish("t", 1)
            assert receipt.stamp == {"t": 1}  # the refused one left no gap
            assert numbers(await take(events, 1)) == [1]

    run(main)


def test_payloads_over_the_limit():
    async def main():
        bus = unisono.connect(payload_max=100)
        async with bus, bus.subscribe("t") as events:
            await bus.publish("t", b"x" * 100)
            for data in (b"x" * 101, "x" * 101, list(range(200))):
                with pytest.raises(
                    PayloadError, match=r"over the limit of 100; send less, or connect with .*payload_max="
                ):
                    await bus.publish("t", data)
            await bus.publish("t", b"y")
            assert [len(event.body) for event in await take(events, 2)] == [100, 1]

    run(main)


@pytest.mark.parametrize(
    ("extras", "error", "says"),
    [
        ({"headers": {"a": 1}}, PayloadError, "headers are strings; 'a': 1 is not"),
        ({"headers": {1: "a"}}, PayloadError, "headers are strings"),
        ({"headers": [("a", "b")]}, PayloadError, "headers are a mapping of strings, not list"),
        ({"headers": "a=b"}, PayloadError, "headers are a mapping of strings, not str"),
        ({"id": ""}, ConfigError, "an id is a text of 1 to 255 characters"),
        ({"id": 7}, ConfigError, "an id is a text of 1 to 255 characters"),
        ({"id": "x" * 256}, ConfigError, "an id is a text of 1 to 255 characters"),
        ({"id": "half \ud800"}, ConfigError, "an id is a text of 1 to 255 characters"),
        (
            {"headers": {"a": "\ud800"}},
            PayloadError,
            "headers are text; 'a': '\\ud800' has half of a character",
        ),
        ({"headers": {"\ud800": "a"}}, PayloadError, "headers are text"),
        ({"deadline": 100}, ConfigError, "deadline=100: here it is 0.15 to 10 seconds"),
    ],
    ids=str,
)
def test_bad_extras(extras, error, says):
    async def main():
        bus = unisono.connect()
        async with bus, bus.subscribe("t") as events:
            with pytest.raises(error) as refused:
                await bus.publish("t", 1, **extras)
            assert says in str(refused.value)
            await bus.publish("t", 2, headers={}, id="x")
            event = await events.get_one(timeout=1)
            assert (event.data, event.headers, event.stamp) == (2, {}, {"t": 1})

    run(main)


def test_headers_are_taken_as_they_were_when_published():
    async def main():
        bus = unisono.connect()
        async with bus, bus.subscribe("t") as events:
            headers = {"a": "1"}
            bus.publish_nowait("t", 1, headers=headers)
            headers["a"] = "2"
            assert (await events.get_one(timeout=1)).headers == {"a": "1"}

    run(main)


def test_the_lazy_bus_is_opened_once():
    async def main():
        bus = unisono.connect(name="once")
        async with bus:
            with pytest.raises(unisono.ClosedError, match="bus 'once' is open; connect again for a new one"):
                await bus.__aenter__()
        with pytest.raises(unisono.ClosedError, match="bus 'once' is closed; connect again for a new one"):
            await bus.__aenter__()
        await bus.close()  # as often as you like

    run(main)


def test_closing_inside_the_block_is_fine():
    async def main():
        bus = unisono.connect()
        async with bus:
            await bus.publish("t", 1)
            await bus.close()

    run(main)


def test_the_bus_closes_when_its_last_drain_is_cancelled():
    async def main():
        bus = unisono.connect()

        @bus.on("t")
        async def never(event):
            await asyncio.Event().wait()

        async def use():
            async with bus:
                await bus.publish("t", 1)

        task = asyncio.create_task(use())
        await asyncio.sleep(0.02)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert bus._state == "closed"

    run(main)


def test_handlers_that_cannot_start_close_the_bus():
    async def main():
        bus = unisono.connect()
        bus.on("t", name="same")(lambda event: None)
        bus.on("t", name="same")(lambda event: None)
        with pytest.raises(ConfigError, match="named 'same' is already open"):
            async with bus:
                pass
        assert bus._state == "closed"
        assert not bus._service._by_topic

    run(main)


def test_encoding_is_msgspec_all_the_way():
    class Weird(msgspec.Struct):
        pass

    async def main():
        bus = unisono.connect()
        async with bus, bus.subscribe("t") as events:
            await bus.publish("t", Weird())
            assert (await events.get_one(timeout=1)).data == {}

    run(main)
