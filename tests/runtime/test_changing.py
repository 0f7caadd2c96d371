"""Topics added and removed while events flow: the papers' counter-examples, and what is refused."""

import asyncio

import pytest
from bus_kit import assert_held, numbers, run, take, until

import unisono
from unisono import ClosedError, TopicError

TNO = ("no_creation", "no_duplication", "total_notification_order")
ORDERS = ["none", "fifo", "causal", "total", "total_causal"]
URLS = [
    "memory://",
    "memory://?jitter_ms=3&seed=1",
    "memory://?jitter_ms=3&duplicate=0.3&seed=2",
    "memory://?jitter_ms=3&loss=0.2&seed=3",
]


class Stage:
    """A bus whose notifications arrive when the test says so, for one subscription after the other."""

    def __init__(self):
        self.records = []
        self.bus = unisono.connect("memory://?jitter_ms=60000", record=self.records)

    async def __aenter__(self):
        await self.bus.__aenter__()
        return self

    async def __aexit__(self, *_):
        await self.bus.close()

    async def open(self, name, *topics, **options):
        events = self.bus.subscribe(*topics, name=name, **options)
        await events.open()
        return events

    async def publish(self, topic, data):
        await self.bus.publish(topic, data)

    def arrive(self, events, *wanted):
        """Let these events, or else everything on its way to a subscription, arrive now, newest first."""
        late = self.bus._service._late
        for sent, handle in sorted(late.items(), reverse=True):
            _, interest, topics, frame = handle._args
            body = frame.publication.body
            if interest is events._interest and (not wanted or body in wanted):
                handle.cancel()
                self.bus._service._arrive(sent, interest, topics, frame)

    def heard(self, events):
        return [event.data for batch in events._queue for event in batch if event.in_order]

    async def judge(self, *subscriptions):
        for events in subscriptions:
            await take(events, events.waiting)
        assert_held(self.records, *TNO)


POLICIES = [{}, {"on_gap": "tag"}, {"on_gap": "tag", "buffer": 5}, {"order": "total_causal"}]


@pytest.mark.parametrize("options", POLICIES, ids=str)
def test_ce7_what_was_delivered_before_a_join_stays_before_it(options):
    async def main():
        async with Stage() as stage:
            s1 = await stage.open("s1", "T1", "T2", **options)
            s2 = await stage.open("s2", "T2", **options)
            await stage.publish("T2", b"b")
            stage.arrive(s2)
            await s2.add("T1")
            await stage.publish("T1", b"a")
            stage.arrive(s2)
            assert stage.heard(s2) == [b"b", b"a"]
            stage.arrive(s1, b"a")
            stage.arrive(s1, b"b")
            if options.get("on_gap") != "tag":
                assert stage.heard(s1) == [b"b", b"a"]
            await stage.judge(s1, s2)

    run(main)


@pytest.mark.parametrize("options", POLICIES, ids=str)
def test_ce8_a_join_moves_no_clock_backwards(options):
    async def main():
        async with Stage() as stage:
            s1 = await stage.open("s1", "T1", **options)
            s2 = await stage.open("s2", "T1", "T2", **options)
            await stage.publish("T1", b"a1")
            await stage.publish("T1", b"a2")
            stage.arrive(s1, b"a1")
            before = dict(s1._engine.clock)
            await s1.add("T2")
            assert s1._engine.clock == before | {"T2": 0}
            await stage.publish("T2", b"b")
            for events in (s1, s2):
                stage.arrive(events)
            await stage.judge(s1, s2)
            if options.get("on_gap") != "tag":
                assert numbers(await take(s1, 0)) == []

    run(main)


@pytest.mark.parametrize("options", POLICIES, ids=str)
def test_ce9_a_leave_does_not_free_others_to_disagree(options):
    async def main():
        async with Stage() as stage:
            s1 = await stage.open("s1", "T1", "T2", **options)
            s2 = await stage.open("s2", "T1", "T2", **options)
            await stage.publish("T1", b"a")
            stage.arrive(s2)
            assert numbers(await take(s2, 1)) == [b"a"]
            await s2.remove("T1")
            await stage.publish("T2", b"b")
            stage.arrive(s2)
            assert stage.heard(s2) == [b"b"]
            stage.arrive(s1, b"b")
            stage.arrive(s1, b"a")
            if options.get("on_gap") != "tag":
                assert stage.heard(s1) == [b"a", b"b"]
            await stage.judge(s1, s2)

    run(main)


@pytest.mark.parametrize("options", POLICIES, ids=str)
def test_ce14_leaving_lets_go_what_waited(options):
    async def main():
        async with Stage() as stage:
            s1 = await stage.open("s1", "T1", "T2", **options)
            s2 = await stage.open("s2", "T1", "T2", **options)
            await stage.publish("T1", b"a")
            await stage.publish("T2", b"b")
            stage.arrive(s1, b"b")
            if options.get("on_gap") != "tag":
                assert stage.heard(s1) == []  # it follows a, which is not here
            await s1.remove("T1")
            assert stage.heard(s1) == [b"b"]
            stage.arrive(s1)
            stage.arrive(s2)
            assert stage.heard(s1) == [b"b"]  # a comes too late: nobody wants it
            s1._engine.check()
            await stage.judge(s1, s2)

    run(main)


@pytest.mark.parametrize("options", POLICIES, ids=str)
def test_ce22_what_was_held_one_after_the_other_counts_as_held_together(options):
    async def main():
        async with Stage() as stage:
            s1 = await stage.open("s1", "T2", "T3", **options)
            s2 = await stage.open("s2", "T1", "T2", **options)
            await stage.publish("T2", b"b")
            stage.arrive(s1)
            assert numbers(await take(s1, 1)) == [b"b"]
            await s1.remove("T2")
            await s1.add("T1")
            await stage.publish("T1", b"a")
            stage.arrive(s1)
            stage.arrive(s2, b"a")
            stage.arrive(s2, b"b")
            if options.get("on_gap") != "tag":
                assert stage.heard(s2) == [b"b", b"a"]
            await stage.judge(s1, s2)

    run(main)


def test_coming_back_gives_nothing_twice_and_nothing_old():
    async def main():
        async with Stage() as stage:
            events = await stage.open("s", "a", "b")
            await stage.publish("a", b"1")
            await stage.publish("a", b"2")
            stage.arrive(events, b"1")
            assert numbers(await take(events, 1)) == [b"1"]
            await events.remove("a")
            await events.add("a")
            await stage.publish("a", b"3")
            stage.arrive(events)
            assert numbers(await take(events, 1)) == [b"3"]
            assert events.waiting == 0

    run(main)


@pytest.mark.parametrize("url", URLS)
@pytest.mark.parametrize("order", ORDERS)
def test_what_is_added_comes_and_what_is_removed_does_not(order, url):
    lossy = {"on_gap": "skip", "max_hold": 0.01} if order == "fifo" and "loss" in url else {}

    async def main():
        bus = unisono.connect(url)
        async with bus, bus.subscribe("a", order=order, **lossy) as events:
            await bus.publish("b", 0)
            await events.add("b", "c")
            assert events.topics == {"a", "b", "c"}
            for n in range(40):
                bus.publish_nowait("abc"[n % 3], n)
            await bus.flush()
            await bus._service.flush()
            await until(lambda: not events.is_behind)
            got = [event async for event in drained(events)]
            if "loss" not in url or order not in ("none", "fifo"):
                assert {event.data for event in got} == set(range(40))
            assert {event.topic for event in got} == {"a", "b", "c"}
            await bus.publish_many([("abc"[n % 3], n) for n in range(9)])
            await events.remove("b")
            await bus.publish_many([("abc"[n % 3], n) for n in range(9)])
            await bus._service.flush()
            await until(lambda: not events.is_behind)
            assert "b" not in {event.topic async for event in drained(events)}

    run(main)


async def drained(events):
    while events.waiting:
        yield await events.get_one(timeout=1)


def test_a_loop_sees_nothing_of_a_topic_it_has_removed():
    async def main():
        bus = unisono.connect()
        async with bus, bus.subscribe("a", "b") as events, bus.subscribe("a", "b") as other:
            await bus.publish_many([("ab"[n % 2], bytes([n])) for n in range(6)])
            await bus.publish_many([("ab"[n % 2], bytes([n])) for n in range(6, 10)])
            got = []
            async for event in events:
                got.append(event.data[0])
                if event.data[0] == 2:
                    await events.remove("b")
                if event.data[0] == 8:
                    break
            assert got == [0, 1, 2, 4, 6, 8]
            assert [e.data[0] for e in await take(other, 10)] == list(range(10))  # it is nobody else's affair

    run(main)


def test_removing_makes_room_for_publishers():
    async def main():
        bus = unisono.connect()
        async with bus, bus.subscribe("a", "b", queue=10) as events:
            for n in range(30):
                bus.publish_nowait("a", n)
                await asyncio.sleep(0)
            assert events in bus._hub.full
            await events.remove("a")
            await asyncio.wait_for(bus.publish("b", 1), 5)
            assert numbers(await take(events, 1)) == [1]

    run(main)


def test_what_is_refused():
    async def main():
        bus = unisono.connect()
        async with bus:
            events = bus.subscribe("a", "p.*", name="s")
            with pytest.raises(ClosedError, match="not open; use 'async with'"):
                await events.add("b")
            async with events:
                await bus.publish("p.x", 1)
                for call, says in [
                    (events.add("a"), "already holds 'a'"),
                    (events.add("p.*"), "already holds 'p.*'"),
                    (events.add("b", "b"), "named twice"),
                    (events.add(), "at least one topic"),
                    (events.add("b.>.c"), "'>' stands only as the last word"),
                    (events.add("b*"), "misplaced wildcard"),
                    (events.remove("b"), r"does not hold 'b'; it holds a, p\.\*"),
                    (events.remove("p.x"), r"holds 'p\.x' through 'p\.\*'; remove the pattern instead"),
                    (events.remove("a", "p.*"), "nothing would be left .* close it instead"),
                ]:
                    with pytest.raises(TopicError, match=says):
                        await call
                assert events.asked == {"a", "p.*"}
                assert events.topics == {"a", "p.x"}
            for call in (events.add("b"), events.remove("a")):
                with pytest.raises(ClosedError, match="is closed; make a new one"):
                    await call

    run(main)


def test_a_subscription_that_failed_says_why_it_cannot_change():
    async def main():
        bus = unisono.connect()
        async with bus, bus.subscribe("a", queue=1, slow="fail") as events:
            await bus.publish_many([("a", n) for n in range(3)])
            with pytest.raises(ClosedError, match=r"has ended: .*slow='fail'"):
                await events.add("b")

    run(main)


def test_changes_at_one_time_follow_each_other():
    async def main():
        bus = unisono.connect()
        async with bus, bus.subscribe("a") as events:
            await asyncio.gather(events.add("b"), events.remove("a"), events.add("c"), events.add("a"))
            assert events.topics == {"a", "b", "c"} == bus._service._by_topic.keys()
            await bus.publish_many([(topic, topic) for topic in "abc"])
            assert numbers(await take(events, 3)) == ["a", "b", "c"]

    run(main)
