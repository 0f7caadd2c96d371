"""Filters between processes: places of durable subscribers move past what nobody was handed, and the shell takes them."""

from remote_kit import connect, nodes, run, take
from shell_kit import event_lines, heard, start_nodes


def test_a_durable_subscriber_is_handed_what_it_wants_and_its_place_passes_the_rest(nats_url):
    async def main():
        async with nodes(nats_url, "n1"), connect(nats_url, "p") as bus:
            options = {"name": "desk", "ack": "manual", "where": "data in [3, 7]"}
            async with bus.subscribe("a", **options) as events:
                for n in range(12):
                    await bus.publish("a", n)
                first = await events.get_one(timeout=5)
                second = await events.get_one(timeout=5)
                assert [first.data, second.data] == [3, 7]
                assert events.position.clock == {"a": 3}  # what came before the first is dealt with
                await events.ack(first)
                assert events.position.clock == {"a": 7}  # and what came between the two
            async with bus.subscribe("a", **options) as events:
                again = await events.get_one(timeout=5)
                assert (again.data, again.redelivered) == (7, True)
                await events.ack(again)
                await bus.publish("a", 3)
                assert (await events.get_one(timeout=5)).data == 3
                assert events.position.clock == {"a": 12}

    run(main())


def test_more_than_a_window_of_unwanted_events_does_not_stop_a_durable_subscriber(nats_url):
    async def main():
        async with (
            nodes(nats_url, "n1"),
            connect(nats_url, "p") as bus,
            bus.subscribe("a", "b", name="desk", ack="auto", where="data == -1") as events,
        ):
            for n in range(3000):
                bus.publish_nowait("ab"[n % 2], n)
            await bus.flush()
            await bus.publish("a", -1)
            assert (await events.get_one(timeout=20)).data == -1
            assert events.filtered == 3000

    run(main())


def test_subscribers_with_and_without_filters_agree(nats_url):
    async def main():
        async with (
            nodes(nats_url, "n1"),
            connect(nats_url, "p") as bus,
            connect(nats_url, "s") as other,
            bus.subscribe("a", "b", where="third == true") as some,
            other.subscribe("a", "b") as everything,
        ):
            for n in range(200):
                bus.publish_nowait("ab"[n % 2], {"n": n, "third": n % 3 == 0})
            await bus.flush()
            got = await take(everything, 200)
            wanted = [event.id for event in got if event.data["third"]]
            assert [event.id for event in await take(some, len(wanted))] == wanted

    run(main())


def test_the_shell_takes_a_filter_and_shows_where_one_is_wrong(shell):
    start_nodes(shell, 1)
    subscriber = shell("sub", "a", "--json", "--where", "by == 'p' and n > 5", "--count", "2")
    subscriber.wait_for_line('"ready"')
    assert shell("pub", "--stdin", stdin=event_lines(["a"], "p", 8)).end() == 0
    assert subscriber.end() == 0
    assert [line["data"]["n"] for line in heard(subscriber)] == [6, 7]
    wrong = shell("sub", "a", "--where", "n >")
    assert wrong.end() == 2
    assert "line 1, column 4" in "".join(wrong.errors)
