"""Durable subscribers: their places are kept, one session holds each, and nothing is skipped."""

import asyncio
import json
from contextlib import asynccontextmanager

import msgspec
import pytest
from remote_kit import QUICK, connect, nodes, run, take
from shell_kit import heard
from typer.testing import CliRunner

from unisono import ClosedError, ConfigError, GapError
from unisono.cli.main import app
from unisono.engines.effects import Lose, Tend
from unisono.ens.local_store import LocalStore, Shelf
from unisono.model.errors import HeldError, QuotaError
from unisono.model.places import Claim, Place, Placed, Save
from unisono.runtime.remote.admin import remove_place, survey_places
from unisono.runtime.remote.door import Door
from unisono.runtime.remote.places import Places


async def until(condition, timeout=10):
    async with asyncio.timeout(timeout):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


def test_a_place_is_begun_and_kept(nats_url):
    async def main():
        async with nodes(nats_url, "n1"), connect(nats_url, "p") as bus:
            async with bus.subscribe("a", "b", name="desk", ack="auto") as events:
                for n in range(40):
                    await bus.publish("ab"[n % 2], n)
                got = await take(events, 40)
                assert [event.data for event in got] == list(range(40))
                assert not any(event.redelivered for event in got)
                assert events.position.acknowledged == 39  # the last one is still being dealt with
                await until(lambda: events.position.kept == 39)
                assert events.position.clock == {"a": 20, "b": 19}
            assert events.position.kept == 40

    run(main())


def test_the_same_name_twice_is_refused_or_taken_as_asked(nats_url):
    async def main():
        async with (
            nodes(nats_url, "n1", "n2"),
            connect(nats_url, "p") as one,
            connect(nats_url, "q") as two,
            one.subscribe("a", name="desk", ack="auto") as events,
        ):
            with pytest.raises(HeldError, match=r"is held by 'p.place.*', which is alive; .* held='take'"):
                await two.subscribe("a", name="desk", ack="auto").open()
            await one.publish("a", 1)
            assert (await events.get_one(timeout=5)).data == 1
            with pytest.raises(ConfigError, match="keeps a place in a, not in b: subscribe to these"):
                await two.subscribe("b", name="desk", ack="auto", held="take").open()

    run(main())


def test_what_a_durable_subscription_does_not_do(nats_url):
    async def main():
        async with (
            nodes(nats_url, "n1"),
            connect(nats_url, "p") as bus,
            bus.subscribe("a", name="desk", ack="manual") as events,
            bus.subscribe("a", name="plain") as plain,
        ):
            for change in (events.add, events.remove):
                with pytest.raises(ConfigError, match="'desk' is durable: its topics stay as they are"):
                    await change("b")
            await bus.publish("a", 1)
            event = await plain.get_one(timeout=5)
            with pytest.raises(ConfigError, match="subscription 'plain' keeps no place"):
                await plain.ack(event)
            with pytest.raises(ConfigError, match="was not handed out by subscription 'desk'"):
                await events.ack(event)

    run(main())


def test_manual_acknowledgements_are_kept_when_they_return(nats_url):
    async def main():
        async with (
            nodes(nats_url, "n1"),
            connect(nats_url, "p") as bus,
            bus.subscribe("a", "b", name="desk", ack="manual") as events,
        ):
            await bus.publish_many([("ab"[n % 2], n) for n in range(10)])
            got = await take(events, 10)
            assert events.position.acknowledged == 0
            await events.ack(got[4])
            done = {topic: [event.topic for event in got[:5]].count(topic) for topic in "ab"}
            assert (events.position.kept, events.position.clock) == (5, done)
            await events.ack(got[2])  # long done
            assert events.position.kept == 5
            events.ack_nowait(got[9])
            await until(lambda: events.position.kept == 10)

    run(main())


def test_an_application_that_acknowledges_nothing_is_held_up(nats_url, monkeypatch):
    monkeypatch.setattr("unisono.runtime.remote.durable.UNACKNOWLEDGED_MAX", 5)

    async def main():
        async with (
            nodes(nats_url, "n1"),
            connect(nats_url, "p") as bus,
            bus.subscribe("a", name="desk", ack="manual") as events,
        ):
            await bus.publish_many([("a", n) for n in range(8)])
            got = await take(events, 5)
            with pytest.raises(TimeoutError):
                await events.get_one(timeout=0.2)
            await events.ack(got[1])
            assert [event.data for event in await take(events, 2)] == [5, 6]
            with pytest.raises(TimeoutError):
                await events.get_one(timeout=0.2)

    run(main())


def test_no_more_places_than_nodes_take(nats_url):
    few = msgspec.structs.replace(QUICK, node=msgspec.structs.replace(QUICK.node, places_max=1))

    async def main():
        async with (
            nodes(nats_url, "n1", options=few),
            connect(nats_url, "p") as bus,
            bus.subscribe("a", name="desk", ack="auto"),
        ):
            with pytest.raises(QuotaError, match="there are 1 durable subscribers"):
                await bus.subscribe("a", name="other", ack="auto").open()

    run(main())


def test_a_fast_application_is_not_held_up(nats_url):
    """Windows grow with the pace: 20,000 events cost a few saves."""

    async def main():
        async with (
            nodes(nats_url, "n1") as (node,),
            connect(nats_url, "p") as bus,
            bus.subscribe("a", name="desk", ack="auto") as events,
        ):
            count = 5000
            publishing = asyncio.create_task(bus.publish_many([("a", n) for n in range(count)]))
            got = 0
            async for event in events:
                assert event.data == got
                got += 1
                if got == count:
                    break
            await publishing
            assert node._places.tended < 100

    run(main())


@pytest.mark.parametrize("option", [{"ack": "auto", "name": "desk"}, {"start": "earliest"}], ids=str)
def test_a_system_without_a_past_keeps_nothing(nats_url, option):
    nothing = msgspec.structs.replace(QUICK, node=msgspec.structs.replace(QUICK.node, retain_records=0))

    async def main():
        async with nodes(nats_url, "n1", options=nothing), connect(nats_url, "p") as bus:
            with pytest.raises(
                ConfigError, match="this system was begun with retain_records=0, and keeps no"
            ):
                bus.subscribe("a", **option)

    run(main())


@pytest.mark.parametrize("option", [{"ack": "auto", "name": "desk"}, {"start": "earliest"}], ids=str)
def test_mqtt_keeps_nothing(mqtt_broker, option):
    url = f"{mqtt_broker.url}?prefix=durable/"

    async def main():
        async with nodes(url, "n1"), connect(url, "p") as bus:
            with pytest.raises(ConfigError, match="has no store that nodes share"):
                bus.subscribe("a", **option)

    run(main())


def test_it_goes_on_where_it_was(nats_url):
    async def main():
        async with nodes(nats_url, "n1", "n2"), connect(nats_url, "p") as bus:
            got, sent = [], 0
            for _ in range(4):
                async with bus.subscribe("a", "b", name="desk", ack="auto") as events:
                    for _ in range(30):
                        await bus.publish("ab"[sent % 2], sent)
                        sent += 1
                    got += await take(events, 20)
                for _ in range(10):
                    await bus.publish("ab"[sent % 2], sent)
                    sent += 1
            async with bus.subscribe("a", "b", name="desk", ack="auto") as events:
                got += await take(events, sent - len(got))
                with pytest.raises(TimeoutError):
                    await events.get_one(timeout=0.2)
        assert [event.data for event in got] == list(range(sent))
        assert not any(event.redelivered for event in got)

    run(main())


def test_whoever_takes_over_begins_behind_what_was_acknowledged(nats_url):
    async def main():
        async with (
            nodes(nats_url, "n1", "n2"),
            connect(nats_url, "p") as one,
            connect(nats_url, "q") as two,
            one.subscribe("a", "b", name="desk", ack="manual") as old,
        ):
            for n in range(40):
                await one.publish("ab"[n % 2], n)
            seen = await take(old, 10)
            await old.ack(seen[3])
            await until(lambda: not old._window.is_asking)
            mark = old._place.handed
            assert 10 <= mark < 30
            async with two.subscribe("a", "b", name="desk", ack="auto", held="take") as new:
                got = await take(new, 36)
                assert [event.data for event in got] == list(range(4, 40))
                assert [event.data for event in got if event.redelivered] == list(range(4, mark))
                await until(lambda: old._error is not None)  # when it next renews its place
                with pytest.raises(HeldError, match=r"'desk' was taken over by 'q\.place"):
                    await old.get_one(timeout=5)  # though something waits for it
                with pytest.raises(ClosedError, match="taken over"):
                    await old.ack(seen[9])
                assert new.position.acknowledged == 39

    run(main())


def test_a_handler_is_durable_too(nats_url):
    async def main():
        handled = []

        def desk():
            bus = connect(nats_url)

            @bus.on("a", name="desk", ack="auto", start="earliest")
            async def handle(event):
                handled.append((event.data, event.redelivered))
                if event.data % 10 == 9:
                    bus.stop()

            return bus

        async with nodes(nats_url, "n1"), connect(nats_url, "p") as publisher:
            for i in range(3):
                await publisher.publish_many([("a", n) for n in range(10 * i, 10 * i + 10)])
                await desk().run()
        assert handled == [(n, False) for n in range(30)]

    run(main())


def test_an_application_that_fails_is_handed_its_event_again(nats_url):
    async def main():
        async with nodes(nats_url, "n1"), connect(nats_url, "p") as bus:
            await bus.publish_many([("a", n) for n in range(5)])

            async def fail_at(number):
                async with bus.subscribe("a", name="desk", ack="auto", start="earliest") as events:
                    async for event in events:
                        if event.data == number:
                            raise ZeroDivisionError

            with pytest.raises(ZeroDivisionError):
                await fail_at(3)
            async with bus.subscribe("a", name="desk", ack="auto") as events:
                got = await take(events, 2)
                assert [(event.data, event.redelivered) for event in got] == [(3, True), (4, False)]

    run(main())


def test_places_outlive_their_nodes(nats_url):
    async def life(first, count):
        async with (
            nodes(nats_url, "n1"),
            connect(nats_url, "p") as bus,
            bus.subscribe("a", "b", name="desk", ack="auto") as events,
        ):
            for n in range(first, first + count):
                await bus.publish("ab"[n % 2], n)
            return [event.data for event in await take(events, count)]

    async def lives():
        assert await life(0, 10) == list(range(10))
        assert await life(10, 10) == list(range(10, 20))

    run(lives())


def test_killed_at_any_moment_it_goes_on_at_least_once_and_in_order(shell, nats_url):
    """`kill -9` of the subscriber, again and again, while events flow."""
    words = ("sub", "a", "b", "--name", "desk", "--ack", "auto", "--start", "earliest", "--held", "take")
    count, sessions = 3000, []

    async def publish(bus):
        for n in range(count):
            await bus.publish("ab"[n % 2], n)

    async def listen(is_enough):
        sessions.append(shell(*words, "--json"))
        await asyncio.to_thread(sessions[-1].wait_for, is_enough)
        sessions[-1].process.kill()
        sessions[-1].process.wait()

    async def main():
        async with (
            nodes(nats_url, "n1", "n2"),
            connect(nats_url, "p") as bus,
            bus.subscribe("a", "b") as reference,
        ):
            publishing = asyncio.create_task(publish(bus))
            for enough in (100, 300):
                await listen(lambda lines, enough=enough: len(lines) > enough)
            await publishing
            everything = [event.id for event in await take(reference, count)]
            await listen(lambda lines: any(everything[-1] in line for line in lines))
            return everything

    everything = run(main())
    seen = 0  # how many of everything some session has printed
    for session in sessions:
        events = heard(session)
        places = [everything.index(event["id"]) for event in events]
        assert places == list(range(places[0], places[0] + len(places)))  # in order, nothing skipped
        assert places[0] <= seen
        again = [place for place, event in zip(places, events, strict=True) if event["redelivered"]]
        assert set(again) >= {place for place in places if place < seen}  # nothing comes again unmarked
        assert again == places[: len(again)]  # the window, and nothing behind it
        seen = max(seen, places[-1] + 1)
    assert seen == count


async def command(url, *words):
    """What a command prints, and its exit code; nodes may live in this process."""
    done = await asyncio.to_thread(CliRunner().invoke, app, words, env={"UNISONO_URL": url})
    return done.exit_code, done.exception, json.loads(done.stdout) if done.stdout else None


def test_places_are_shown_and_removed(nats_url):
    async def main():
        async with nodes(nats_url, "n1"), connect(nats_url, "p") as bus:
            async with bus.subscribe("a", "b", name="desk", ack="auto") as events:
                await bus.publish_many([("ab"[n % 2], n) for n in range(10)])
                await take(events, 10)
                _, error, _ = await command(nats_url, "places", "remove", "desk")
                assert "'desk' is held by 'p.place" in str(error)
            code, _, place = await command(nats_url, "places", "show", "desk", "--json")
            assert code == 0
            assert (place["acknowledged"], place["handed"], place["held_by"]) == (10, 10, None)
            assert (place["topics"], place["clock"]) == (["a", "b"], {"a": 5, "b": 5})
            assert (await command(nats_url, "places", "remove", "desk", "--json"))[2] == {"removed": "desk"}
            assert (await command(nats_url, "places", "list", "--json"))[2] == {"places": []}
            for words in (("show", "desk"), ("remove", "desk")):
                _, error, _ = await command(nats_url, "places", *words)
                assert "there is no durable subscriber 'desk'" in str(error)
            async with bus.subscribe("a", "b", name="desk", ack="auto") as events:
                assert events.position.acknowledged == 0

    run(main())


def test_many_places_are_listed_in_pages(nats_url, monkeypatch):
    monkeypatch.setattr("unisono.runtime.remote.places.SURVEYED_MAX", 2)

    async def main():
        async with nodes(nats_url, "n1"), connect(nats_url, "p") as bus:
            for name in "edcba":
                async with bus.subscribe("t", name=name, ack="auto"):
                    pass
            assert [place.name for place in await survey_places(nats_url)] == list("abcde")

    run(main())


def test_ids_on_stdin_acknowledge(shell, nats_url):
    words = ("sub", "a", "--name", "desk", "--ack", "manual", "--start", "earliest", "--json")

    async def main():
        async with nodes(nats_url, "n1"), connect(nats_url, "p") as bus:
            await bus.publish_many([("a", n) for n in range(10)])
            session = shell(*words, stdin="", open_stdin=True)
            await asyncio.to_thread(session.wait_for, lambda lines: len(lines) == 11)
            events = heard(session)
            session.process.stdin.write(events[5]["id"] + "\n")
            session.process.stdin.flush()
            while [place.acknowledged for place in await survey_places(nats_url)] != [6]:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
            session.process.kill()
            async with bus.subscribe("a", name="desk", ack="auto", held="take") as again:
                rest = await take(again, 4)
                assert [(e.id, e.redelivered) for e in rest] == [(e["id"], True) for e in events[6:]]

    run(main())


FORGETFUL = msgspec.structs.replace(
    QUICK,
    node=msgspec.structs.replace(QUICK.node, retain_records=64, lane_records_max=40, lane_records_kept=10),
)


@pytest.mark.parametrize("gone", ["fail", "skip"])
def test_who_is_away_for_too_long_is_told_what_is_missing(nats_url, gone):
    async def main():
        async with nodes(nats_url, "n1", options=FORGETFUL), connect(nats_url, "p") as bus:
            place = {"name": "desk", "ack": "auto", "gone": gone}
            async with bus.subscribe("a", "b", **place) as events:
                for n in range(10):
                    await bus.publish("ab"[n % 2], n)
                await take(events, 10)
            for n in range(10, 600):
                await bus.publish("ab"[n % 2], n)
            events = bus.subscribe("a", "b", **place)
            if gone == "fail":
                with pytest.raises(
                    GapError, match=r"events 6-\d+ of 'a', 6-\d+ of 'b' are not kept any more"
                ):
                    async with events:
                        await events.get_one(timeout=10)
                assert [p.acknowledged for p in await survey_places(nats_url)] == [10]
                return
            async with events:
                first = await events.get_one(timeout=10)
                assert first.missed == first.data - 10 > 0
                rest = await take(events, 599 - first.data)
                assert [event.data for event in rest] == list(range(first.data + 1, 600))
                assert not any(event.missed for event in rest)
                assert events.lost == first.missed
            async with bus.subscribe("a", "b", **place) as events:  # and that is behind it
                await bus.publish("a", 600)
                assert (await events.get_one(timeout=10)).data == 600

    run(main())


@pytest.mark.parametrize("gone", ["fail", "skip"])
def test_what_is_lost_in_the_present_is_named_too(nats_url, gone):
    async def main():
        async with (
            nodes(nats_url, "n1"),
            connect(nats_url, "p") as bus,
            bus.subscribe("a", name="desk", ack="auto", gone=gone) as events,
        ):
            events._carry_out(Lose("a", (1, 2, 3)))
            if gone == "fail":
                with pytest.raises(GapError, match="events 1-3 of 'a' are lost; gone='skip' goes on"):
                    await events.get_one(timeout=5)
            else:
                assert events.position.clock == {"a": 3}
                assert events.lost == 3

    run(main())


def test_who_is_told_the_past_too_slowly_is_told_so(nats_url):
    async def main():
        async with nodes(nats_url, "n1", options=FORGETFUL), connect(nats_url, "p") as bus:
            for n in range(50):
                await bus.publish("ab"[n % 2], n)
            async with bus.subscribe("a", "b", name="desk", ack="auto", start="earliest", queue=1) as events:
                first = await events.get_one(timeout=10)
                for n in range(50, 400):
                    await bus.publish("ab"[n % 2], n)
                last = first.data
                try:
                    async for event in events:  # nothing is left out without a word
                        assert event.data == last + 1
                        last = event.data
                        if last == 399:
                            break
                except GapError as error:
                    print(error)

    run(main())


def test_a_node_that_goes_takes_no_place_with_it(nats_url):
    async def main():
        async with connect_with_nodes(nats_url) as (bus, crew), bus.subscribe("a", "b") as reference:
            async with bus.subscribe("a", "b", name="desk", ack="auto") as events:
                publishing = asyncio.create_task(
                    bus.publish_many([("ab"[n % 2], n) for n in range(2000)]),
                )
                got = await take(events, 500)
                await crew[0].close()  # as if it had been killed: it gives nothing away
                got += await take(events, 1500)
                await publishing
                wanted = [event.id for event in await take(reference, 2000)]
                assert [event.id for event in got] == wanted
                await until(lambda: events.position.kept >= 1999)
            assert [p.acknowledged for p in await survey_places(nats_url)] == [2000]

    run(main())


@asynccontextmanager
async def connect_with_nodes(url):
    async with nodes(url, "n1", "n2") as crew, connect(url, "p") as bus:
        yield bus, crew


@pytest.mark.parametrize("broker", ["nats", "redis"])
def test_a_place_in_a_past_epoch_is_taken_up_where_it_was(request, broker):
    if broker == "nats":
        url = request.getfixturevalue("nats_url")
    else:
        url = f"{request.getfixturevalue('redis_broker').url}?prefix=durable:"

    async def main():
        async with nodes(url, "n1"), connect(url, "p") as bus:
            await bus.publish_many([("ab"[n % 2], n) for n in range(20)])
            async with bus.subscribe("a", "b", start="earliest") as events:  # with an epoch of its own
                everything = [event.id for event in await take(events, 20)]
            got = []
            for count in (0, 10, 10):
                async with bus.subscribe("a", "b", name="desk", ack="auto", start="earliest") as events:
                    got += await take(events, count)
            assert [event.id for event in got] == everything
            assert not any(event.redelivered for event in got)

    run(main())


def test_what_comes_after_the_first_opening_is_owed(nats_url):
    """Also if nothing was ever taken, and the first session died at once."""

    async def main():
        async with nodes(nats_url, "n1"), connect(nats_url, "p") as bus, connect(nats_url, "q") as other:
            first = bus.subscribe("a", name="desk", ack="auto")
            await first.open()
            first._keeping.close()  # it says nothing any more
            await bus.publish("a", 1)
            async with other.subscribe("a", name="desk", ack="auto", held="take") as events:
                assert (await events.get_one(timeout=10)).data == 1

    run(main())


def test_nobody_speaks_for_another_session():
    door = Door(1_000_000)
    place = Place("desk", ("a",), "p.place1-1", True, 5)
    for message in (Claim("desk", "p.place1-1", ("a",)), Save("p.place1-1", place)):
        assert door.refusal("p.place1-1", message, (), 100) is None
        assert "speaks for" in door.refusal("q.place1-1", message, (), 100)
    assert "sends what nodes send" in door.refusal("q.place1-1", Placed("desk", place), (), 100)


def test_the_topics_of_a_place_stay_ordered_while_nobody_listens(nats_url):
    async def main():
        async with nodes(nats_url, "n1"), connect(nats_url, "p") as bus:
            place = {"name": "desk", "ack": "auto"}
            async with bus.subscribe("a", "b", **place):
                pass
            receipts = [await bus.publish("ab"[n % 2], n) for n in range(6)]
            assert [receipt.stamp for receipt in receipts[-2:]] == [{"a": 3, "b": 2}, {"a": 3, "b": 3}]
            async with bus.subscribe("a", "b", **place) as events:
                assert [event.data for event in await take(events, 6)] == list(range(6))
            await remove_place(nats_url, "desk")
            assert (await bus.publish("lonely", 1)).stamp == {"lonely": 1}
            control = bus._hub.control
            assert not control.views

    run(main())


class Shared(LocalStore):
    """One that others see."""

    shared = True


def test_what_a_node_remembers_of_a_place_is_never_told_without_a_look():
    async def main():
        shelf, told = Shelf(), []
        one, two = (Places(Shared(1_000_000, shelf), told.append, QUICK.node) for _ in range(2))

        async def ask(node, message):
            node.carry_out(Tend(message.session, message))
            await until(lambda: told)
            return told.pop().answer.place

        assert (await ask(one, Claim("desk", "s1", ("a",)))).session == "s1"
        second = await ask(two, Claim("desk", "s2", ("a",), over="s1"))
        assert second.session == "s2"
        assert (await ask(one, Claim("desk", "s3", ("a",)))).session == "s2"
        saved = await ask(
            two, Save("s2", msgspec.structs.replace(second, renewed=3, acknowledged=4, handed=9))
        )
        assert (await ask(one, Claim("desk", "s3", ("a",), over="s2"))).acknowledged == 4
        assert (await ask(two, Save("s2", msgspec.structs.replace(saved, renewed=9)))).session == "s3"

    run(main())
