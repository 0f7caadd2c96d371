"""Whatever a hostile client sends, the others hear every event, in the same order, and the node stays small.

With credentials (`unisono up --auth`) the server keeps everybody to their own subjects; what is left is what a client
may say in its own name. Without, everybody may pretend to be anybody: then only what is malformed is without effect.
"""

import asyncio
import os
import random
from contextlib import AsyncExitStack, asynccontextmanager
from urllib.parse import parse_qs, urlsplit

import msgspec
from hostile_kit import Forger, raw
from remote_kit import QUICK, connect, nodes, run, take

from unisono.model.frames import Create, Nack, Packet, Publication, Replan, Routed, Stamped
from unisono.runtime.remote.node_options import DEFAULTS
from unisono.runtime.remote.wire import Beat, decode_packets, encode
from unisono.server import BundledServer, ServerSettings

FRAMES = int(os.environ.get("UNISONO_HOSTILE_FRAMES", 100_000))
TOPICS = ("orders", "payments")


@asynccontextmanager
async def guarded(tmp_path, *clients):
    """A server that asks for credentials, one node, and a raw connection of mallory's."""
    settings = ServerSettings(data=tmp_path / "data", auth=True, clients=("mallory", *clients))
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(BundledServer(settings))
        [node] = await stack.enter_async_context(nodes(server.node_url, "n1"))
        yield server, node, await stack.enter_async_context(raw(server.client_url("mallory")))


class Honest:
    """anna publishes, bruno and carla listen."""

    def __init__(self):
        self.sent = []

    async def open(self, stack, urls):
        self.anna, *others = [
            await stack.enter_async_context(connect(url, name)) for name, url in urls.items()
        ]
        self.heard = [await stack.enter_async_context(bus.subscribe(*TOPICS)) for bus in others]

    async def publish(self, stop, pause_s=0.01):
        dice = random.Random(1)
        while not stop.is_set():
            self.sent.append((await self.anna.publish(dice.choice(TOPICS), len(self.sent))).id)
            await asyncio.sleep(pause_s)

    async def check(self):
        """Everybody hears everything of anna's, in one order, with whatever mallory managed to say in its own name."""
        rows = []
        for events in self.heard:
            row, left = [], set(self.sent)
            while left:
                event = await events.get_one(timeout=20)
                row.append(event.id)
                left.discard(event.id if event.publisher == "anna" else None)
                assert event.in_order
                assert event.missed == 0
                assert event.publisher.partition(".")[0] in ("anna", "mallory")
            rows.append(row)
        short = min(map(len, rows))
        assert rows[0][:short] == rows[1][:short]
        assert [id for id in rows[0] if id in set(self.sent)] == self.sent


async def pour(client, frames, every=200):
    """Send (subject, frame) pairs, at the pace of the server."""
    for i, (subject, frame) in enumerate(frames):
        await client.publish(subject, frame)
        if i % every == 0:
            await client.flush()
    await client.flush()


async def flood(client, forger, count, subject):
    """Frames on subjects; what nodes answer tells their lives, so that links take what is sent."""

    async def heard(message):
        *_, part, node = message.subject.split(".")
        if part not in ("ask", "describe"):
            for packet in decode_packets(message.data):
                forger.lives[node] = max(packet.life, forger.lives.get(node, 0))

    def frames():
        for _ in range(count):
            where = subject(forger.dice)
            forger.whoami = "mallory" if where.endswith(".pub") else f"mallory.{where.rpartition('.')[2]}"
            yield where, forger.frame()

    listening = await client.subscribe("u.out.mallory.*.*", cb=heard)
    await pour(client, frames())
    await listening.unsubscribe()


def in_own_name(dice):
    """What the server lets mallory publish on; a thousand parts, and some that are used more often."""
    part = dice.choice(("pub", "sub1", "sub2", "ask", "describe", f"x{dice.randrange(1000)}"))
    return f"u.in.{dice.choice(('n1', 'n1', 'n1', '_'))}.mallory.{part}"


def resident_kb():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4


def test_a_hundred_thousand_hostile_frames_change_nothing_for_the_others(tmp_path):
    async def scenario():
        async with (
            guarded(tmp_path, "anna", "bruno", "carla") as (server, node, mallory),
            AsyncExitStack() as stack,
        ):
            honest = Honest()
            await honest.open(stack, {name: server.client_url(name) for name in ("anna", "bruno", "carla")})
            stop = asyncio.Event()
            work = asyncio.create_task(honest.publish(stop))
            forger = Forger(7)
            await flood(mallory, forger, FRAMES // 4, in_own_name)
            before = resident_kb()
            await flood(mallory, forger, FRAMES - FRAMES // 4, in_own_name)
            stop.set()
            await work
            await honest.check()
            if "UNISONO_HOSTILE_FRAMES" in os.environ:
                print(
                    f"\n{FRAMES} frames: {node.rejected} refused; {node._published} epochs; {resident_kb() - before} kB more"
                )
            assert node.rejected > FRAMES // 10
            assert node._host.stumbles == 0
            assert not node.engine.early, "only nodes speak of epochs to come"
            assert len(node._host.links.peers) < 1500
            assert resident_kb() - before < 100_000
            node.engine.check()
            node._host.links.check()
            assert not mallory.refused
            assert set(node.control.nodes) == {"n1"}

    run(scenario(), 60 + FRAMES / 500)


FORBIDDEN = (
    "u.e.orders",
    "u.ctl",
    "u.beat",
    "u.out.anna.pub.n1",
    "u.in.n1.anna.pub",
    "u.in.n1.node.n2",
    "u.in.n1.admin.rerank",
    "u-lane.n1",
    "$KV.unisono.u.control",
    "$JS.API.STREAM.PURGE.KV_unisono",
)


def test_only_nodes_publish_stamped_events(tmp_path):
    """The server refuses it: nothing arrives, whatever is in the frame."""

    async def scenario():
        async with (
            guarded(tmp_path, "anna", "bruno", "carla") as (server, node, mallory),
            AsyncExitStack() as stack,
        ):
            honest = Honest()
            await honest.open(stack, {name: server.client_url(name) for name in ("anna", "bruno", "carla")})
            first = await honest.anna.publish("orders", 0)
            event = Publication("anna", 1, 2, "orders", b"forged")
            forged = encode([Stamped(event, node.engine.epoch, {"orders": 2})])
            control, told = node.control, node._told(node.control)
            frames = {"u.e.orders": forged, "u.ctl": told, "u.beat": encode(Beat("n1", 2**63, 1, 1))}
            for subject in FORBIDDEN:
                await mallory.publish(subject, frames.get(subject, b"?"))
            await mallory.flush()
            await mallory.flush()
            for subject in FORBIDDEN:
                assert any(f'"{subject}"'.lower() in refusal.lower() for refusal in mallory.refused), subject
            receipt = await honest.anna.publish("orders", 1)
            for events in honest.heard:
                assert [event.id for event in await take(events, 2)] == [first.id, receipt.id]
            assert node.control == control
            assert not node._stop.is_set()
            assert receipt.stamp["orders"] == 2

    run(scenario())


SMALL = msgspec.structs.replace(
    QUICK,
    links=msgspec.structs.replace(DEFAULTS.links, family_max=64, early_bytes_max=1024 * 1024, queue_max=256),
)


class Mallory:
    """Speaks the protocol, without manners, on a server that lets everybody in."""

    def __init__(self, client, node, prefix):
        self.client, self.node, self.prefix = client, node, prefix

    async def send(self, part, *messages, life=1, first=1):
        packets = [Packet(first + i, 0, message, life, self.node.life) for i, message in enumerate(messages)]
        await self.client.publish(f"{self.prefix}in.n1.mallory.{part}", encode(packets))


@asynccontextmanager
async def crowded(url, options=SMALL):
    """A node with narrow bounds, anna and two subscribers, and mallory."""
    prefix = parse_qs(urlsplit(url).query)["prefix"][0]
    async with nodes(url, "n1", options=options) as [node], raw(url) as client, AsyncExitStack() as stack:
        honest = Honest()
        await honest.open(stack, dict.fromkeys(("anna", "bruno", "carla"), url))
        await honest.anna.publish("orders", "first")
        for events in honest.heard:
            await take(events, 1)
        yield node, Mallory(client, node, prefix), honest


async def go_on(honest, mallory):
    """Whatever happened, the honest go on as before."""
    await mallory.client.flush()
    for n in range(20):
        honest.sent.append((await honest.anna.publish("orders", n)).id)
    await honest.check()


def test_a_client_with_a_thousand_parts_pays_for_them_itself(nats_url):
    async def scenario():
        async with crowded(nats_url) as (node, mallory, honest):
            for i in range(1000):
                event = Publication(f"mallory.x{i}", 1, 1, "orders", b"")
                await mallory.send(f"x{i}", Routed("orders", Create(event)))
                if i % 100 == 0:
                    await honest.anna.publish("payments", i)
            await go_on(honest, mallory)
            assert len(node._host.links.peers) < 64 + 16
            assert node._host.links.forgotten > 900

    run(scenario())


def test_a_forgotten_client_is_met_again(nats_url):
    """Who has more parts than it may have loses the oldest, which then go on as if the node were new."""
    tight = msgspec.structs.replace(SMALL, links=msgspec.structs.replace(SMALL.links, family_max=3))

    async def scenario():
        async with nodes(nats_url, "n1", options=tight) as [node], AsyncExitStack() as stack:
            buses = [await stack.enter_async_context(connect(nats_url, f"anna.{i}")) for i in range(5)]
            events = await stack.enter_async_context(buses[0].subscribe("orders"))
            for n in range(10):
                for bus in buses:
                    await bus.publish("orders", n)
            heard = await take(events, 50)
            assert [sorted(e.data for e in heard if e.publisher == bus.name) for bus in buses] == [
                [*range(10)]
            ] * 5
            assert node._host.links.forgotten > 5

    run(scenario())


def test_what_comes_out_of_order_is_kept_within_bounds(nats_url):
    async def scenario():
        async with crowded(nats_url) as (node, mallory, honest):
            for i in range(60):
                event = Publication("mallory.x", 1, 1, "orders", bytes(200_000))
                await mallory.send("x", Routed("orders", Create(event)), first=2**40 - i)
            await go_on(honest, mallory)
            link = node._host.links.peers["mallory.x"]
            assert 0 < len(link.early) <= 5
            assert node._host.links._early_bytes <= 1024 * 1024

    run(scenario())


def test_whoever_asks_without_listening_is_not_remembered(nats_url):
    async def scenario():
        async with crowded(nats_url) as (node, mallory, honest):
            nack = Routed("orders", Nack("orders", "mallory.x", tuple(range(20_000))))
            for i in range(100):
                await mallory.send("x", *[nack] * 3, first=1 + 3 * i)
            await mallory.client.flush()
            await asyncio.sleep(0.2)
            link = node._host.links.peers["mallory.x"]
            assert len(link.unacknowledged) + len(link.queue) <= 16
            wish = Replan(node.engine.epoch, ("no topic",))
            for i in range(500):
                await mallory.send("y", *[wish] * 10, first=1 + 10 * i)
            await go_on(honest, mallory)
            links = node._host.links
            assert all(len(one.queue) <= 256 for one in links.peers.values())
            links.check()

    run(scenario())


def test_an_event_that_no_record_could_hold_is_refused(nats_url):
    """It would have a number, and could never be stored: everything after it would wait for ever."""

    async def scenario():
        async with crowded(nats_url) as (node, mallory, honest):
            for size in (1024 * 1024 - 200, 1024 * 1024 - 20_000):
                event = Publication("mallory.x", 1, 1, "orders", bytes(size))
                await mallory.send("x", Routed("orders", Create(event)))
            headers = {"x" * 250_000: "y" * 250_000}
            event = Publication("mallory.x", 1, 1, "orders", bytes(500_000), headers=headers)
            await mallory.send("x", Routed("orders", Create(event)))
            await go_on(honest, mallory)
            assert node.rejected >= 3

    run(scenario())


def test_quotas_are_a_clients_and_not_a_parts(nats_url):
    few = msgspec.structs.replace(
        SMALL, node=msgspec.structs.replace(SMALL.node, client_topics_per_minute=10)
    )

    async def scenario():
        async with crowded(nats_url, few) as (node, mallory, honest):
            for i in range(30):
                await mallory.send(f"x{i}", Replan(node.engine.epoch, topics=(f"mine.{i}",)))
                await mallory.client.flush()
                await asyncio.sleep(0.02)
            await go_on(honest, mallory)
            assert len(node.control.owner) <= 2 + 10

    run(scenario())


def test_without_credentials_malformed_frames_change_nothing(nats_url):
    """On every subject. What decodes is another matter: without credentials everybody may say anything."""

    async def scenario():
        async with crowded(nats_url) as (node, mallory, honest):
            forger = Forger(3)
            subjects = [
                mallory.prefix + subject
                for subject in (
                    "e.orders", "e.payments", "ctl", "beat", "out.bruno.ask.n1", "out.carla.pub.n1", "in.n1.anna.pub",
                    "in.n1.node.n2", "in.n1.admin.rerank", "in._.x.y", "in.n1.a.b",
                )
            ]  # fmt: skip
            frames = ((subject, forger.undecodable()) for _ in range(300) for subject in subjects)
            stop = asyncio.Event()
            work = asyncio.create_task(honest.publish(stop))
            await pour(mallory.client, frames)
            stop.set()
            await work
            await go_on(honest, mallory)
            assert node.rejected > 1000
            assert all(events.rejected >= 600 for events in honest.heard)
            assert node._host.stumbles == 0
            assert not node._stop.is_set()

    run(scenario())


def test_an_event_that_fits_without_its_stamp_only_is_refused_too(nats_url):
    """Topics with long names that are ordered together make long stamps."""
    url = f"{nats_url}&frame_max=131072"
    topics = [f"{i}.{'x' * 240}" for i in range(150)]

    async def scenario():
        async with crowded(url, QUICK) as (node, mallory, honest), AsyncExitStack() as stack:
            for i in range(2):
                bus = await stack.enter_async_context(connect(url, f"long{i}"))
                await stack.enter_async_context(bus.subscribe("orders", *topics))
            event = Publication("mallory.x", 1, 1, "orders", bytes(95_000))
            await mallory.send("x", Routed("orders", Create(event)))
            await mallory.client.flush()
            await asyncio.sleep(0.2)
            await go_on(honest, mallory)
            assert node.rejected == 1

    run(scenario())
