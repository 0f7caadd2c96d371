"""Two nodes, eight topics, four listeners from the shell: what becomes of them when the busiest node is killed or sleeps."""

import asyncio
import json
import time

import msgspec
import pytest

from unisono.lab.faults.brokers import Broker
from unisono.lab.faults.diary import read_diary
from unisono.lab.faults.nursery import Nursery
from unisono.lab.faults.processes import Process
from unisono.lab.faults.publisher import PublisherWork

TOPICS = [f"t{i}" for i in range(1, 9)]
BOUND_S = 60.0


class Stage:
    def __init__(self, folder):
        self.folder, self.nursery = folder, Nursery()
        self.broker = Broker(self.nursery, folder, "nats")
        self.asked = 0

    async def unisono(self, name, *words):
        process = Process(
            self.nursery, name, ["unisono", *words, "--url", self.broker.url, "--json"], self.folder
        )
        await process.start()
        return process

    async def publish(self, name):
        rates = {topic: 30.0 / rank for rank, topic in enumerate(TOPICS, start=1)}
        work = PublisherWork(self.broker.url, name, str(self.folder / f"{name}.jsonl"), rates)
        argv = ["unisono.lab.faults.publisher", msgspec.json.encode(work).decode()]
        process = Process(self.nursery, name, argv, self.folder)
        await process.start()
        return process

    def acknowledged(self, name="p1"):
        return [e for e in read_diary(self.folder / f"{name}.jsonl") if e.what == "acknowledged"]

    async def topics(self):
        self.asked += 1
        asker = await self.unisono(f"ask{self.asked}", "topics")
        assert await asker.ended(20)
        return json.loads(asker.log.read_text())

    def lines(self, process):
        if not process.log.exists():
            return []  # it has just been started
        return [
            json.loads(line) for line in process.log.read_text().splitlines(keepends=True) if line[-1] == "\n"
        ]

    def ids(self, process):
        return [line["id"] for line in self.lines(process) if "id" in line]


async def until(condition, what):
    end = time.monotonic() + BOUND_S
    while not condition():
        assert time.monotonic() < end, f"{what} within {BOUND_S} s"
        await asyncio.sleep(0.05)


async def play(stage, harm):
    await stage.nursery.open(stage.folder / "nursery.log")
    try:
        await stage.broker.start()
        nodes = {name: await stage.unisono(name, "node", "--name", name) for name in ("n1", "n2")}
        await until(lambda: all(stage.lines(node) for node in nodes.values()), "the nodes are ready")
        ears = [await stage.unisono(f"s{i}", "sub", *TOPICS, "--name", f"s{i}") for i in range(1, 5)]
        await until(lambda: all(stage.lines(ear) for ear in ears), "everybody listens")
        publisher = await stage.publish("p1")
        await until(lambda: {e.topic for e in stage.acknowledged()} == set(TOPICS), "everything flows")
        owner = {row["topic"]: row["owner"] for row in (await stage.topics())["topics"]}[TOPICS[0]]
        await harm(stage, nodes, owner)
        begun = time.monotonic()
        await until(
            lambda: {e.topic for e in stage.acknowledged() if e.at > begun} == set(TOPICS), "all goes on"
        )
        publisher.ask_to_stop()
        assert await publisher.ended(BOUND_S)
        ids = {e.id for e in stage.acknowledged()}
        await until(lambda: all(set(stage.ids(ear)) >= ids for ear in ears), "everybody has everything")
        sequences = [stage.ids(ear) for ear in ears]
        assert all(sequence == sequences[0] for sequence in sequences)
        assert len(set(sequences[0])) == len(sequences[0])
        assert set(sequences[0]) == ids
    finally:
        await stage.broker.close()
        await stage.nursery.close()


async def kill(stage, nodes, owner):
    await nodes[owner].kill()


async def sleep_and_wake(stage, nodes, owner):
    """The other takes over; what wakes up finds itself declared dead, and changes nothing."""
    nodes[owner].pause()
    end = time.monotonic() + BOUND_S
    while any(row["owner"] == owner for row in (await stage.topics())["topics"]):
        assert time.monotonic() < end
    count = len(stage.acknowledged())
    await until(lambda: len(stage.acknowledged()) > count + 30, "the other serves")
    nodes[owner].wake()
    count = len(stage.acknowledged())
    await until(lambda: len(stage.acknowledged()) > count + 60, "it goes on when the sleeper wakes")
    assert all(node.is_running for node in nodes.values())


@pytest.mark.parametrize("harm", [kill, sleep_and_wake])
def test_the_busiest_node_is_killed_or_sleeps(harm, tmp_path):
    asyncio.run(play(Stage(tmp_path), harm))
