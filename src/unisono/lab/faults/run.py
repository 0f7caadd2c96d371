"""One run: a broker, nodes, publishers and subscribers as processes, faults under load, healing, and the judgement."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from unisono.lab.faults.brokers import Broker, Cluster
from unisono.lab.faults.clocks import Clock
from unisono.lab.faults.diary import Entry, read_diary
from unisono.lab.faults.judging import Deed, Resumed, Story
from unisono.lab.faults.nursery import Nursery
from unisono.lab.faults.processes import Process
from unisono.lab.faults.proxy import Proxy
from unisono.lab.faults.publisher import PublisherWork
from unisono.lab.faults.subscriber import SubscriberWork
from unisono.lab.faults.world import NODES_MAY, Fault, World

READY_S = 30.0  # for everybody to be there at first
LIVE_S = 30.0  # for everything that is owed to come, once everything is healed
STOP_S = 10.0
LOOK_S = 0.05
SUPERVISE_S = 0.5
READY = '"ready"'  # what a node says when it serves


class Result(msgspec.Struct):
    """What came of one run."""

    seed: int
    transport: str
    kinds: list[str]
    published: int = 0
    acknowledged: int = 0
    delivered: int = 0
    lost: int = 0
    duplicates: int = 0
    violations: list[str] = []
    stuck: list[str] = []
    resumed: list[Resumed] = []
    heal_s: float = 0.0  # from the last healing until everything owed was there
    seconds: float = 0.0
    folder: str = ""

    @property
    def held(self) -> bool:
        """Whether nothing was wrong."""
        return not (self.lost or self.duplicates or self.violations or self.stuck)


class Run:
    """The stage of one world."""

    def __init__(self, world: World, folder: Path, tell: Callable[[str], None] = lambda text: None) -> None:
        self.world = world
        self.folder = folder
        self.deeds: list[Deed] = []
        self.is_ready = False
        self.nursery = Nursery()
        self.dice = random.Random(f"choices {world.seed}")
        in_cluster = any(kind.startswith("cluster") for kind in world.kinds)
        self.broker: Broker | Cluster = (
            Cluster(folder, self.dice) if in_cluster else Broker(self.nursery, folder, world.transport)
        )
        self.nodes: dict[str, Process] = {}
        self.publishers: dict[str, Process] = {}
        self.subscribers: dict[str, Process] = {}
        self.proxies: dict[str, Proxy] = {}
        self.clocks: dict[str, Clock] = {}
        self._told = tell
        self._asked = 0

    def tell(self, text: str) -> None:
        """Write down what happens."""
        with (self.folder / "run.log").open("a") as log:
            log.write(f"{time.monotonic():.3f} {text}\n")
        self._told(text)

    async def carry_out(self) -> Result:
        """Play it and judge it."""
        began = time.monotonic()
        world = self.world
        result = Result(world.seed, world.transport, list(world.kinds), folder=str(self.folder))
        (self.folder / "world.json").write_bytes(msgspec.json.format(msgspec.json.encode(world)))
        await self.nursery.open(self.folder / "nursery.log")
        try:
            await self._begin()
            await self._suffer()
            healed_at = time.monotonic()
            await self._settle(result)
            result.heal_s = time.monotonic() - healed_at
            await self._end(result)
        finally:
            for proxy in self.proxies.values():
                await proxy.close()
            await self.broker.close()
            await self.nursery.close()
        self._judge(result)
        result.seconds = time.monotonic() - began
        (self.folder / "result.json").write_bytes(msgspec.json.format(msgspec.json.encode(result)))
        return result

    def story(self) -> Story:
        """What everybody has written down so far."""
        told = {name: self._read(name) for name in (*self.publishers, *self.subscribers)}
        return Story(
            {name: told[name] for name in self.publishers},
            {name: told[name] for name in self.subscribers},
            self.world.durable,
        )

    def process(self, name: str) -> Process:
        """The process of this name."""
        if name == "server" and isinstance(self.broker, Broker):
            return self.broker.process
        return (self.nodes | self.publishers | self.subscribers)[name]

    # The beginning.

    async def _begin(self) -> None:
        world = self.world
        urls = await self._lay_links()
        for i in range(1, world.nodes + 1):
            name = f"n{i}"
            url = urls.get(name, self.broker.url)
            self.nodes[name] = self._module(name, "unisono", "node", "--url", url, "--name", name, "--json")
        for name, rates in world.publishers.items():
            work = PublisherWork(urls.get(name, self.broker.url), name, str(self._diary(name)), rates)
            self.publishers[name] = self._module(name, "unisono.lab.faults.publisher", work)
        for name, topics in world.subscribers.items():
            url, durable = urls.get(name, self.broker.url), name in world.durable
            ears = SubscriberWork(url, name, str(self._diary(name)), topics, durable)
            self.subscribers[name] = self._module(name, "unisono.lab.faults.subscriber", ears)
        for node in self.nodes.values():
            await node.start()
        for process in (*self.subscribers.values(), *self.publishers.values()):
            await process.start()
        await self._until(self._everybody_works, READY_S, "not everybody was ready")
        self.is_ready = True
        self.tell(f"ready: {world.nodes} nodes, {len(world.topics)} topics")

    async def _lay_links(self) -> dict[str, str]:
        """Start the broker, and put a proxy where a link will be cut; returns who goes through one."""
        broker, urls = self.broker, {}
        for fault in self.world.faults:
            if fault.kind == "disk_full" and isinstance(broker, Broker):
                broker.make_small(fault.how)
            if fault.kind == "clock_jump":
                self.clocks[fault.target] = Clock(self.folder / f"{fault.target}.clock")
        await broker.start()
        for name in dict.fromkeys(f.target for f in self.world.faults if f.kind.startswith("link")):
            assert isinstance(broker, Broker)
            proxy = self.proxies[name] = Proxy(broker.port)
            urls[name] = broker.url.replace(str(broker.port), str(await proxy.open()))
        return urls

    def _everybody_works(self) -> bool:
        nodes = all(READY in node.text for node in self.nodes.values())
        ears = all(any(e.what == "opened" for e in self._read(name)) for name in self.subscribers)
        return nodes and ears and not {*self.world.topics} - {ack.topic for ack in self.story().acks}

    # What is done.

    async def _suffer(self) -> None:
        began = time.monotonic()
        supervising = asyncio.create_task(self._supervise())
        async with asyncio.TaskGroup() as group:
            for fault in self.world.faults:
                group.create_task(self._do(fault, began))
        await asyncio.sleep(self.world.after_s)
        supervising.cancel()

    async def _supervise(self) -> None:
        """A node that finds no broker when it starts ends, and whoever runs it starts it again."""
        while True:
            for node in self.nodes.values():
                if not node.is_running and (node.code or 0) > 0 and READY not in node.text:
                    self.tell(f"{node.name} could not start, and is started again")
                    await node.start()
            await asyncio.sleep(SUPERVISE_S)

    async def _do(self, fault: Fault, began: float) -> None:
        await asyncio.sleep(max(0.0, began + fault.at_s - time.monotonic()))
        target = fault.target
        if target in NODES_MAY:
            target = await self._pick(target)
        kind = fault.kind
        if kind.startswith("cluster"):
            kind, target = await self._pick_server(kind)
        elif fault.kind.endswith(("kill", "pause")) and not self.process(target).is_running:
            self.tell(f"{fault}: {target} is down already")
            return
        topics = await self._owned(target) if target in self.nodes else self.world.topics
        deed = Deed(kind, target, time.monotonic(), how=fault.how, topics=topics)
        self.deeds.append(deed)
        self.tell(f"{fault.kind} of {target} {fault.how}")
        await self._harm(fault, target)
        deed.healed_at = time.monotonic()
        self.tell(f"{fault.kind} of {target} is healed")

    async def _harm(self, fault: Fault, target: str) -> None:
        broker, (role, _, action) = self.broker, fault.kind.partition("_")
        match role, action:
            case "cluster", _:
                assert isinstance(broker, Cluster)
                await broker.kill(target)
                await asyncio.sleep(fault.for_s)
                await broker.revive(target)
            case "disk", _:
                assert isinstance(broker, Broker)
                await broker.fill(fault.how)
                await asyncio.sleep(fault.for_s)
                await broker.make_room()
            case "clock", _:
                await self._jump(fault, target)
            case _, "kill":
                await self.process(target).kill()
                await asyncio.sleep(fault.for_s)
                await (broker.start() if target == "server" else self.process(target).start())
            case _, "pause":
                self.process(target).pause()
                await asyncio.sleep(fault.for_s)
                self.process(target).wake()
            case _:
                await self._cut(fault, self.proxies[target])

    async def _jump(self, fault: Fault, target: str) -> None:
        """The clock of a process is set, and set right again; it may have been restarted meanwhile."""
        process = self.process(target)
        self.clocks[target].jump("+" if fault.how.startswith("forward") else "-")
        await asyncio.sleep(fault.for_s / 2)
        if fault.how.endswith("restarted"):
            await process.kill()
            await process.start()
        await asyncio.sleep(fault.for_s / 2)
        self.clocks[target].jump("")

    async def _cut(self, fault: Fault, proxy: Proxy) -> None:
        match fault.kind:
            case "link_one_way":
                proxy.cut(fault.how)
            case "link_reset":
                proxy.refuse()
            case _:
                proxy.cut("in", "out")
        await asyncio.sleep(fault.for_s)
        proxy.heal()
        if fault.how == "breaks":
            proxy.reset()

    async def _pick(self, which: str) -> str:
        """The node that owns the hottest topic, or leads, or any."""
        running = [name for name, node in self.nodes.items() if node.is_running]
        overview = await self._overview() if which != "any" else {}
        if which == "hottest":
            owners = {row["topic"]: row["owner"] for row in overview.get("topics", ())}
            return str(owners.get(self.world.topics[0], running[0]))
        leaders = [row["node"] for row in overview.get("nodes", ()) if row["leader"]]
        return leaders[0] if leaders else self.dice.choice(running)

    async def _owned(self, node: str) -> tuple[str, ...]:
        """What a node sequences now."""
        rows = (await self._overview()).get("topics", ())
        return tuple(row["topic"] for row in rows if row["owner"] == node)

    async def _pick_server(self, kind: str) -> tuple[str, str]:
        """A server of the cluster, and what killing it comes to: another leader is elected if it leads a lane."""
        assert isinstance(self.broker, Cluster)
        leaders = await self.broker.leaders(self.nodes)
        if kind == "cluster_leader_kill":
            server = leaders.get(await self._pick("hottest")) or self.broker.any_server()
        else:
            server = self.broker.any_server()
        return "cluster_leader_kill" if server in leaders.values() else "cluster_kill", server

    async def _overview(self) -> dict[str, Any]:
        """What `unisono topics` says; nothing if it cannot tell now."""
        self._asked += 1
        asker = self._module(f"topics{self._asked}", "unisono", "topics", "--url", self.broker.url, "--json")
        await asker.start()
        await asker.ended(5.0)
        try:
            return msgspec.json.decode(asker.log.read_bytes(), type=dict[str, Any])
        except msgspec.DecodeError:
            return {}

    # The end.

    async def _settle(self, result: Result) -> None:
        """Everything flows again, and everything that is owed comes."""
        for publisher in self.publishers.values():
            publisher.ask_to_stop()
        end = time.monotonic() + LIVE_S
        for publisher in self.publishers.values():
            if not await publisher.ended(max(0.0, end - time.monotonic())):
                result.stuck.append(
                    f"{publisher.name} still waits for acknowledgements {LIVE_S:g} s after healing"
                )
        if result.stuck:
            await self._overview()  # what it says stays in the folder
        while time.monotonic() < end and self.story().missing():  # noqa: ASYNC110
            await asyncio.sleep(LOOK_S * 4)

    async def _end(self, result: Result) -> None:
        for name, process in (self.nodes | self.subscribers | self.publishers).items():
            if not process.is_running and process.code != 0:
                result.stuck.append(f"{name} ended by itself with code {process.code}; see {process.log}")
        for process in self.subscribers.values():
            process.ask_to_stop()
        for process in self.subscribers.values():
            if not await process.ended(STOP_S):
                result.stuck.append(f"{process.name} did not stop")
        for node in self.nodes.values():
            await node.kill()

    def _judge(self, result: Result) -> None:
        story = self.story()
        judgement = story.judge()
        for field in judgement.__struct_fields__:
            setattr(result, field, getattr(judgement, field))
        for life in story.lives:
            if life.last.what == "ended":
                result.stuck.append(f"{life.name} gave up: {life.last.text}")
        if left := story.open_ids:
            result.stuck.append(f"{len(left)} events were never acknowledged, {min(left)} among them")
        for deed in self.deeds:
            seconds = story.resumed(deed)
            if seconds is not None and deed.topics:
                result.resumed.append(Resumed(deed.kind, round(seconds, 3)))
        (self.folder / "deeds.json").write_bytes(msgspec.json.format(msgspec.json.encode(self.deeds)))

    # Small things.

    def _module(self, name: str, module: str, *arguments: str | msgspec.Struct) -> Process:
        words = [a if isinstance(a, str) else msgspec.json.encode(a).decode() for a in arguments]
        env = self.clocks[name].env if name in self.clocks else {}
        return Process(self.nursery, name, [module, *words], self.folder, env=env)

    def _diary(self, name: str) -> Path:
        return self.folder / f"{name}.jsonl"

    def _read(self, name: str) -> list[Entry]:
        return read_diary(self._diary(name))

    async def _until(self, condition: Callable[[], bool], within_s: float, otherwise: str) -> None:
        try:
            async with asyncio.timeout(within_s):
                while not condition():  # noqa: ASYNC110
                    await asyncio.sleep(LOOK_S)
        except TimeoutError:
            await self._overview()
            raise RuntimeError(f"{otherwise} within {within_s:g} s; see {self.folder}") from None
