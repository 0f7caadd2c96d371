"""A publisher process dies between publishing and hearing of it; another one publishes the same events again."""

import asyncio
import json
import sys
from contextlib import AsyncExitStack
from itertools import pairwise

import pytest
from remote_kit import nodes, run, take
from test_nodes import crash, crowd

from unisono.runtime.remote.admin import look, rerank

EVENTS = 200
TOPICS = ("orders", "payments")

# Publishes events 0 to EVENTS - 1, each with an id; dies by its own hand when `dies_at` of them are confirmed.
PUBLISHER = """
import asyncio, json, os, signal, sys, unisono

url, name, count, dies_at = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])

async def main():
    confirmed = 0

    async def confirm(n, receipt):
        nonlocal confirmed
        await receipt
        print(json.dumps([n, receipt.stamp, receipt.duplicate]), flush=True)
        confirmed += 1
        if confirmed == dies_at:
            os.kill(os.getpid(), signal.SIGKILL)

    async with unisono.connect(url, name=name) as bus, asyncio.TaskGroup() as group:
        for n in range(count):
            receipt = bus.publish_nowait(["orders", "payments"][n % 2], n, id=f"event-{n}")
            group.create_task(confirm(n, receipt))
            await asyncio.sleep(0.001)

asyncio.run(main())
"""


async def publish(url, name, dies_at=0):
    """Run a publisher process to its end; returns what was confirmed to it: stamp and whether it was a repetition."""
    args = (sys.executable, "-c", PUBLISHER, url, name, str(EVENTS), str(dies_at))
    process = await asyncio.create_subprocess_exec(*args, stdout=asyncio.subprocess.PIPE)
    try:
        out, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
    assert process.returncode == (-9 if dies_at else 0)
    told = [json.loads(line) for line in out.decode().splitlines()]
    return {n: (stamp, duplicate) for n, stamp, duplicate in told}


@pytest.mark.parametrize("victim", [None, "n1", "n2"])
def test_a_new_process_may_publish_everything_again(nats_url, victim):
    async def scenario():
        async with nodes(nats_url, "n1", "n2") as both, AsyncExitStack() as stack:
            listeners = await crowd(stack, nats_url, [TOPICS, TOPICS])
            await rerank(nats_url, TOPICS, dict(zip(TOPICS, ("n1", "n2"), strict=True)))
            first = await publish(nats_url, "old", dies_at=EVENTS // 2)
            assert len(first) == EVENTS // 2
            epoch = (await look(nats_url)).control.epoch
            if victim is not None:
                await crash(next(node for node in both if node.name == victim))
            second = await publish(nats_url, "new")
            assert ((await look(nats_url)).control.epoch > epoch) == (victim is not None)

            assert second.keys() == set(range(EVENTS))
            assert {n: second[n] for n in first} == {n: (stamp, True) for n, (stamp, _) in first.items()}
            assert not all(duplicate for _, duplicate in second.values())
            heard = [await take(events, EVENTS) for events in listeners]
            for events in heard:
                assert sorted(event.data for event in events) == list(range(EVENTS))
                for topic in TOPICS:
                    numbers = [event.stamp[topic] for event in events if event.topic == topic]
                    assert all(a < b for a, b in pairwise(numbers))
            assert [e.data for e in heard[0]] == [e.data for e in heard[1]]
            for event in heard[0]:
                assert second[event.data][0] == event.stamp
            for events in listeners:
                with pytest.raises(TimeoutError):
                    await events.get_one(timeout=0.2)

    run(scenario())
