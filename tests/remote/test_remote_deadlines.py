"""Deadlines between processes, on every broker: from bus to bus, with nodes and without."""

import asyncio
import subprocess
import sys
import time

import pytest
from remote_kit import connect, nodes, run, take
from shell_kit import heard

from unisono import ConfigError, Deadlines

QUICK = Deadlines(round_s=0.02, skew_s=0.02)


def test_a_reply_comes_after_its_question_and_nobody_sequences(url):
    async def main():
        options = {"nodes": False, "deadlines": QUICK}
        async with (
            connect(url, "asks", **options) as asks,
            connect(url, "replies", **options) as replies,
            connect(url, "listens", **options) as listens,
            replies.subscribe("a", order="causal", deadline=5.0) as questions,
            listens.subscribe("a", "b", order="causal", deadline=5.0) as everything,
        ):

            async def reply():
                for event in await take(questions, 50):
                    replies.publish_nowait("b", event.data, deadline=5.0)

            replying = asyncio.create_task(reply())
            for n in range(50):
                await asks.publish("a", n, deadline=5.0)
            got = [(event.topic, event.data) for event in await take(everything, 100)]
            await replying
            assert [n for topic, n in got if topic == "a"] == list(range(50))
            for n in range(50):
                assert got.index(("a", n)) < got.index(("b", n))

    run(main())


def test_with_nodes_everybody_hears_everything(nats_url):
    async def main():
        async with (
            nodes(nats_url, "n1"),
            connect(nats_url, "p", deadlines=QUICK) as p,
            connect(nats_url, "s", deadlines=QUICK) as s,
            s.subscribe("a", "b", order="causal", deadline=5.0) as fresh,
            s.subscribe("a", "b") as everything,
        ):
            receipt = await p.publish("a", 1, deadline=5.0)
            assert receipt.stamp["a"] == 1
            await p.publish("b", 2)
            for events in (fresh, everything):
                assert [event.data for event in await take(events, 2)] == [1, 2]
            with pytest.raises(ConfigError, match="needs nodes"):
                async with connect(nats_url, "q", nodes=False) as q:
                    q.subscribe("a")

    run(main())


def test_total_order_with_a_deadline_leaves_out_what_is_taken_late(nats_url):
    async def main():
        async with (
            nodes(nats_url, "n1"),
            connect(nats_url, "p") as p,
            p.subscribe("a", "b", on_gap="skip", deadline=1.0) as skips,
            p.subscribe("a", "b", on_gap="tag", deadline=1.0) as tags,
        ):
            await p.publish("a", 1)
            await asyncio.sleep(1.1)
            await p.publish("b", 2)
            assert [(e.data, e.missed) for e in await take(skips, 1)] == [(2, 1)]
            assert skips.dropped == 1
            assert [(e.data, e.late) for e in await take(tags, 2)] == [(1, True), (2, False)]

    run(main())


def test_from_the_shell_without_nodes(shell):
    listener = shell(
        "sub", "a", "b", "--order", "causal", "--deadline", "8", "--no-nodes", "--count", "3", "--json"
    )
    listener.wait_for_line("ready")
    lines = "".join(f'{{"topic": "{topic}", "data": {n}}}\n' for n, topic in enumerate("aba"))
    assert shell("pub", "--stdin", "--no-nodes", "--deadline", "8", stdin=lines).end() == 0
    assert listener.end() == 0
    events = heard(listener)
    assert [event["data"] for event in events] == [0, 1, 2]
    for event in events:
        assert event["late"] is False
        assert event["waited"] >= 0
        assert 7 < event["deadline"] - event["published_at"] <= 8


TALKER = """
import asyncio, sys, unisono

async def main():
    async with unisono.connect(sys.argv[1], name="talker", nodes=False) as bus:
        while True:
            bus.publish_nowait("a", 0, deadline=3.0)
            await asyncio.sleep(0.005)

asyncio.run(main())
"""


def test_who_is_left_goes_on_in_time_when_a_publisher_is_killed(nats_url):
    talker = subprocess.Popen([sys.executable, "-c", TALKER, nats_url])

    async def main():
        async with (
            connect(nats_url, "p", nodes=False) as p,
            connect(nats_url, "q", nodes=False) as q,
            p.subscribe("a", order="causal", deadline=8.0) as mine,
            q.subscribe("a", "b", order="causal", deadline=8.0) as theirs,
        ):
            await take(mine, 50)
            talker.kill()
            for n in range(10):  # each follows whatever has come of the dead
                await p.publish("b", n, deadline=5.0)
                while (event := await theirs.get_one(timeout=6)).topic == "a":
                    pass
                assert event.data == n
                assert time.time() <= event.deadline

    try:
        run(main())
    finally:
        talker.kill()
        talker.wait()
