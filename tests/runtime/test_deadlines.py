"""Deadlines in one process: causes before effects, in time or not at all, whoever is subscribed in whatever way."""

import asyncio
import time
from contextlib import AsyncExitStack

import pytest
from bus_kit import assert_held, run, until

import unisono
from unisono import ConfigError, Deadlines
from unisono.engines.deadline_causal.frames import Multicast
from unisono.history import Kind
from unisono.runtime import options
from unisono.runtime.deadline import wire

QUICK = Deadlines(round_s=0.01, skew_s=0.01, longest_s=5.0)
CALM = Deadlines(round_s=0.1, skew_s=0.0, longest_s=5.0)  # a busy machine must not make a difference
BAD = "memory://{}?jitter_ms=40&loss=0.05&duplicate=0.05&seed=3"


def connect(url, name, **more):
    return unisono.connect(url, name=name, deadlines=QUICK, **more)


def judged(records):
    """The promises about deadlines, of what was recorded; on a busy machine something may be slept over."""
    assert_held(records, "causal_order", "publisher_fifo", "no_duplication", "no_creation")
    for record in records:
        if record.kind is Kind.DELIVERED:
            assert record.at <= record.deadline
        if record.kind is Kind.DROPPED:
            assert record.reason in ("too late", "overtaken", "stalled")


def test_a_reply_is_never_handed_over_before_its_question():
    async def main():
        records, url = [], BAD.format("questions")
        async with AsyncExitStack() as stack:
            buses = [await stack.enter_async_context(connect(url, n, record=records)) for n in "abc"]
            _, replies, listens = [
                await stack.enter_async_context(bus.subscribe("a", "b", order="causal", deadline=2.0))
                for bus in buses
            ]
            heard = []

            async def reply():
                async for event in replies:
                    if event.topic == "a":
                        buses[1].publish_nowait("b", event.data, deadline=2.0)

            async def listen():
                async for event in listens:
                    heard.append(event)  # noqa: PERF401 (it is cancelled in the middle)

            tasks = [asyncio.create_task(reply()), asyncio.create_task(listen())]
            for n in range(150):
                await buses[0].publish("a", n, deadline=2.0)
                await asyncio.sleep(0.002)
            await until(lambda: listens.received >= 295 and not listens.is_behind)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            assert len(heard) > 250  # 5 % of the letters are lost, and gossip brings most of them back
            assert not any(event.late for event in heard)
            assert any(event.waited > 0 for event in heard)
        judged(sorted(records, key=lambda r: (r.process, r.seq)))
        told = [r for r in records if r.kind is Kind.TOLD]
        assert any(len(r.stamp) == 2 for r in told)  # replies follow questions
        assert all(r.deadline is not None for r in told)

    run(main)


def test_nobody_misses_anybody():
    """With a deadline or without: both kinds of subscriptions hear both kinds of events."""

    async def main():
        async with (
            connect("memory://both", "p") as p,
            connect("memory://both", "s") as s,
            s.subscribe("a", order="causal", deadline=4.0) as fresh,
            s.subscribe("a", order="total") as everything,
        ):
            before = time.time()
            await p.publish("a", 1)
            await p.publish("a", 2, deadline=2.0)
            got = [await fresh.get_one(timeout=2) for _ in range(2)]
            assert [e.data for e in got] == [1, 2]
            assert 3.9 < got[0].deadline - before < 5.0
            assert 1.9 < got[1].deadline - before < 3.0
            assert [
                (e.data, e.deadline is None) for e in [await everything.get_one(timeout=2) for _ in "ab"]
            ] == [
                (1, True),
                (2, False),
            ]

    run(main)


async def _deaf_to(bus, topic):
    """Let a bus hear nothing but multicasts of other topics; returns what makes it hear again."""
    direct = bus._direct
    arrived = direct._arrived

    def filtered(where, data):
        frames = wire.decode(where, data).frames
        if all(isinstance(f, Multicast) and f.event.topic != topic for f in frames):
            arrived(where, data)

    names = direct._interest.topics
    await direct._aside.unsubscribe(direct._interest)
    direct._interest = await direct._aside.subscribe(names, filtered, with_topic=True)

    async def hear():
        await direct._aside.unsubscribe(direct._interest)
        direct._interest = await direct._aside.subscribe(names, arrived, with_topic=True)

    return hear


def test_an_effect_goes_at_its_deadline_and_its_cause_is_overtaken():
    async def main():
        records = []
        async with (
            unisono.connect("memory://late", name="p", deadlines=CALM) as p,
            unisono.connect("memory://late", name="s", deadlines=CALM, record=records) as s,
            s.subscribe("cause", "effect", order="causal", deadline=5.0) as events,
        ):
            hear = await _deaf_to(s, "cause")
            began = time.time()
            await p.publish("cause", 1, deadline=2.0)
            await p.publish("effect", 2, deadline=0.8)
            effect = await events.get_one(timeout=2)
            assert effect.data == 2
            assert 0.3 < time.time() - began <= 0.8  # it waited for its cause, and no longer than it could
            assert 0.3 < effect.waited < 0.8
            await hear()
            await until(lambda: events.dropped == 1)
            await p.publish("effect", 3, deadline=2.0)
            assert (await events.get_one(timeout=2)).missed == 1
        assert [(r.topic, r.reason) for r in records if r.kind is Kind.DROPPED] == [("cause", "overtaken")]

    run(main)


def test_what_the_application_did_not_take_in_time_is_not_handed_over():
    async def main():
        records = []
        async with (
            connect("memory://slow", "p", record=records) as p,
            p.subscribe("a", order="causal", deadline=0.6) as events,
        ):
            await p.publish("a", 1)
            await p.publish("a", 2)
            await until(lambda: events.waiting == 2)
            await asyncio.sleep(0.6)
            with pytest.raises(TimeoutError):
                await events.get_one(timeout=0.05)
            await p.publish("a", 3)
            third = await events.get_one(timeout=1)
            assert (third.data, third.missed) == (3, 2)
        judged(records)
        assert [r.reason for r in records if r.kind is Kind.DROPPED] == ["too late"] * 2

    run(main)


def test_topics_come_and_go_and_patterns_match():
    async def main():
        async with (
            connect("memory://names", "p") as p,
            connect("memory://names", "s") as s,
            s.subscribe("orders.*", order="causal", deadline=1.0) as events,
        ):
            await p.publish("orders.eu", 1, deadline=1.0)
            await p.publish("orders.us", 2)  # no deadline: but somebody wants it with one
            assert [(await events.get_one(timeout=2)).data for _ in range(2)] == [1, 2]
            await events.add("payments")
            await p.publish("payments", 3, deadline=1.0)
            assert (await events.get_one(timeout=2)).data == 3
            await events.remove("orders.*")
            await p.publish("orders.eu", 4, deadline=1.0)
            await p.publish("payments", 5, deadline=1.0)
            assert (await events.get_one(timeout=2)).data == 5
            assert events.topics == {"payments"}

    run(main)


def test_an_event_that_is_published_again_under_its_id_comes_once():
    async def main():
        async with (
            connect("memory://twice", "p") as p,
            connect("memory://twice", "q") as q,
            connect("memory://twice", "s") as s,
            s.subscribe("a", "b", order="causal", deadline=2.0) as events,
        ):
            await p.publish("a", 1, id="one", deadline=2.0)
            await q.publish("a", 1, id="one", deadline=2.0)  # somebody else, after a crash
            await q.publish("b", 1, id="one", deadline=2.0)  # another topic: another event
            await q.publish("a", 2, deadline=2.0)
            got = [(e.topic, e.data) for e in [await events.get_one(timeout=2) for _ in range(3)]]
            assert got == [("a", 1), ("b", 1), ("a", 2)]

    run(main)


def test_a_handler_is_called_in_time():
    async def main():
        bus, got = connect("memory://handled", "p"), []

        @bus.on("a", order="causal", deadline=1.0, where="n > 1")
        async def handle(event: unisono.Event[dict]) -> None:
            got.append(event.data["n"])

        async with bus:
            await bus.publish_many([("a", {"n": n}) for n in range(5)], deadline=1.0)
            await until(lambda: got == [2, 3, 4])

    run(main)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"order": "total"}, "on_gap='wait' waits for what may never come"),
        ({"order": "total", "on_gap": "fail"}, "use on_gap='tag' or 'skip'"),
        ({"order": "fifo"}, "knows no deadline; use order='causal'"),
        ({"order": "causal", "on_gap": "tag"}, "leave out on_gap="),
        ({"order": "causal", "buffer": 3, "on_gap": "skip"}, "leave out on_gap="),
        ({"order": "causal", "name": "x", "ack": "auto"}, "about fresh events"),
        ({"order": "causal", "deadline": 0.001}, "here it is 0.05 to 5 seconds"),
        ({"order": "causal", "deadline": 60}, "here it is 0.05 to 5 seconds"),
        ({"order": "causal", "deadline": -1}, "positive and finite"),
        ({"order": "causal", "deadline": "soon"}, "not a number"),
    ],
)
def test_contradictions_are_refused_by_name(asked, message):
    async def main():
        async with connect("memory://", "p") as bus:
            with pytest.raises(ConfigError, match=message):
                bus.subscribe("a", **{"deadline": 1.0, **asked})

    run(main)


def test_one_bus_has_one_deadline_for_a_topic():
    async def main():
        async with connect("memory://", "p") as bus, bus.subscribe("a.*", order="causal", deadline=1.0):
            with pytest.raises(ConfigError, match=r"holds 'a\.b' with deadline=1; use the same"):
                await bus.subscribe("a.b", order="causal", deadline=0.5).open()
            async with bus.subscribe("b", order="causal", deadline=0.5) as events:
                with pytest.raises(ConfigError, match=r"holds 'a\.>' with deadline=1"):
                    await events.add("a.>")

    run(main)


@pytest.mark.parametrize("deadline", [0.01, 9.0, float("nan"), "1"])
def test_a_deadline_that_cannot_be_kept_is_refused(deadline):
    async def main():
        async with connect("memory://", "p") as bus:
            with pytest.raises(ConfigError, match="deadline="):
                await bus.publish("a", 1, deadline=deadline)

    run(main)


def test_buses_with_other_clocks_do_not_hear_each_other_and_say_so(caplog):
    async def main():
        async with (
            connect("memory://pace", "p") as p,
            unisono.connect("memory://pace", name="s") as s,
            s.subscribe("a", order="causal", deadline=1.0) as events,
        ):
            await p.publish("a", 1, deadline=1.0)
            with pytest.raises(TimeoutError):
                await events.get_one(timeout=0.2)
            assert "'s' does not hear 'p~" in caplog.text

    run(main)


def test_letters_that_make_no_sense_are_counted_and_nothing_else():
    async def main():
        async with (
            connect("memory://junk", "p") as p,
            p.subscribe("a", order="causal", deadline=1.0) as events,
        ):
            direct = p._direct
            good = wire.encode(wire.Letter("q~1", QUICK.pace, ()))
            for where, data in [
                ("d.q.e.a", b"junk"),
                ("d.q.e.a", b""),
                ("d.mallory.e.a", good),  # in somebody else's name
                ("d.q.e.a", good[:-3]),
            ]:
                direct._aside.publish((where,), data)
            assert direct.rejected == 4
            await p.publish("a", 1, deadline=1.0)
            assert (await events.get_one(timeout=1)).data == 1

    run(main)


@pytest.mark.parametrize("on_gap", ["tag", "skip"])
def test_in_total_order_a_deadline_bounds_the_wait_and_never_reorders(on_gap, monkeypatch):
    """The first event is lost for a while: what follows it goes at its deadline, in order; the first is late."""
    monkeypatch.setattr(options, "GRACE_S", 0.3)  # a busy machine must not make a difference

    async def main():
        records, kept = [], []
        async with (
            connect(f"memory://{on_gap}", "p") as p,
            connect(f"memory://{on_gap}", "s", record=records) as s,
            s.subscribe("a", "b", order="total", on_gap=on_gap, deadline=1.0) as events,
            p.subscribe("a", "b", order="total") as exact,
        ):
            notify, s_events = events._notify, events._interest
            s_events.notify = kept.append
            await p.publish("a", 1)
            s_events.notify = notify
            began = time.time()
            await p.publish("b", 2)
            await p.publish("a", 3, deadline=0.6)
            got = [await events.get_one(timeout=2) for _ in range(2)]
            assert 0.2 < time.time() - began < 0.6  # in time for the third, which had the nearer deadline
            assert [(e.data, e.in_order, e.late) for e in got] == [(2, True, False), (3, True, False)]
            assert got[1].deadline - got[0].deadline == pytest.approx(-0.4, abs=0.1)
            await asyncio.sleep(0.8)
            for frame in kept:
                notify(frame)  # the first comes after all, too late
            await p.publish("b", 4)
            last = await events.get_one(timeout=2)
            if on_gap == "tag":
                assert (last.data, last.in_order, last.late) == (1, False, True)
                last = await events.get_one(timeout=2)
            assert (last.data, last.in_order, last.late) == (4, True, False)
            assert [e.data for e in [await exact.get_one(timeout=2) for _ in range(4)]] == [1, 2, 3, 4]
        assert_held(records, "tags" if on_gap == "tag" else "no_duplication")

    run(main)


def test_in_total_order_what_the_application_takes_late_is_tagged_or_left_out():
    async def main():
        async with (
            connect("memory://", "p") as p,
            p.subscribe("a", order="total", on_gap="tag", deadline=0.5) as tags,
            p.subscribe("a", order="total", on_gap="skip", deadline=0.5) as skips,
            p.subscribe("a", order="total") as asks_nothing,
        ):
            await p.publish("a", 1)
            await asyncio.sleep(0.55)
            await p.publish("a", 2)
            got = [await tags.get_one(timeout=1) for _ in range(2)]
            assert [(e.data, e.late) for e in got] == [(1, True), (2, False)]
            second = await skips.get_one(timeout=1)
            assert (second.data, skips.dropped) == (2, 1)
            assert [(await asks_nothing.get_one(timeout=1)).late for _ in range(2)] == [False, False]

    run(main)
