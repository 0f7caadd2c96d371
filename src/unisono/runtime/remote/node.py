"""A node: a process that hosts a sequencer's engine, between the service, the store, and the other nodes.

It knows nothing of which sequencer it hosts: messages go in by links, notifications and records come out.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable
from types import TracebackType
from typing import Self

import msgspec

from unisono.engines.effects import Announce, Append, Effect, Fail, Reject
from unisono.engines.inputs import Appended, Controlled, Input, Received, Suspected
from unisono.engines.links import Links
from unisono.engines.plan import Plan
from unisono.engines.takeover.control import Control, first_control
from unisono.engines.takeover.settings import NodeSettings
from unisono.engines.topic_managers.node import ManagerNode
from unisono.ens.ending import end
from unisono.ens.port import EventNotificationService, Interest
from unisono.ens.store import open_store
from unisono.model.bundles import StampedBundle
from unisono.model.durability import Durability
from unisono.model.errors import ConfigError, ForgottenError, FrameError, UnisonoError
from unisono.model.frames import ANY_EPOCH, EpochNotice, Heartbeat, Packet, Repair, Replan, Stamped
from unisono.model.lanes import JoinRecord
from unisono.model.release import ATOMS, BUNDLES, OLDEST, RETAINS, SPEAKS, strange
from unisono.runtime.remote.address_book import NODES_MAX, AddressBook
from unisono.runtime.remote.beats import Beats
from unisono.runtime.remote.door import OPERATOR, Door
from unisono.runtime.remote.host import Host
from unisono.runtime.remote.keeper import Keeper
from unisono.runtime.remote.node_observer import NodeObserver
from unisono.runtime.remote.node_options import DEFAULTS, NodeOptions
from unisono.runtime.remote.pieces import Shortener
from unisono.runtime.remote.places import Places
from unisono.runtime.remote.post import Post
from unisono.runtime.remote.telling import PART, Watched
from unisono.runtime.remote.wire import (
    ASK,
    BEATS,
    CONTROL,
    DESCRIBE,
    Beat,
    Told,
    check_word,
    decode_beat,
    decode_packets,
    decode_replan,
    encode,
    for_clients,
    inbox_of,
    inbox_of_all,
    to_client,
)

RECORD_ROOM = 4096  # of a frame, for what a record says beside the event and its stamp
LIFE_AHEAD_NS = 10 * 365 * 86400 * 10**9
TELLS = f".{PART}"  # how the names of those end who tell how they are
TROUBLE_MAX = 500  # characters of a reason

log = logging.getLogger("unisono")


DRAIN_S = 3.0
DRAIN_ASK_S = 0.1
EMPTY = Plan(rank=(), parent={}, group={}, epoch=0)  # what the first node begins with


class Node:
    """One life of one node: `async with Node(service, "n1") as node: await node.run()`."""

    def __init__(
        self,
        service: EventNotificationService,
        name: str,
        options: NodeOptions = DEFAULTS,
        observer: NodeObserver | None = None,
    ) -> None:
        self.name = check_word("node", name)
        self.observer = observer or NodeObserver(name)
        self.options = options
        self.rejected = 0  # frames and messages that made no sense, or were not theirs to send
        self.life = time.time_ns()
        self._service = service
        self._watched = Watched()
        self._beats = Beats(name, options.beat_s, options.suspect_s)
        self._stop = asyncio.Event()
        self._error: UnisonoError | None = None
        self._serving = asyncio.Event()
        self._book = AddressBook(self.name)
        self._clocks = Shortener()
        self._door = Door(service.capabilities.frame_bytes_max)
        self._told_of = (0, b"")  # the version of a control record, and what clients are told of it
        self._latest = 0  # the latest life of a client that was heard of, here or at another node
        self._speaks = {self.name: SPEAKS}  # the release that each node speaks
        self.durability: Durability = "none"  # what the store offers
        self._published = 0  # the version of the control record that clients were told last
        self._interests: list[Interest] = []
        self._beating: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        await self._service.connect()
        self._post = Post(self._service)
        try:
            store = await open_store(self._service)
            limit = self._service.capabilities.frame_bytes_max
            self._keeper = Keeper(store, self._handle, limit, self._post.soon)
            self._keeper.on_end = self._end_with
            self._places = Places(store, self._handle, self.options.node)
            self.durability = store.durability
            control = await self._keeper.open(self._first_control(shared=store.shared))
            self._check_sequencer(control)
            self.life = await self._keeper.new_life(self.name, self.life)
            settings = self._settings(tells_first=store.is_private)
            self.engine = ManagerNode(
                self.name, settings, self.options.managers, restarted=self.name in control.nodes
            )
            self._tell_time()
            self._host = Host(
                self.name,
                self.engine,
                self.life,
                self._transmit,
                self._carry_out,
                self.options.links,
                self._book.nodes,
                soon=self._post.soon,
            )
            self.observer.watch(self)
            subscribe = self._service.subscribe
            self._interests = [
                await subscribe(frozenset({inbox_of(self.name)}), self._packets, with_topic=True),
                await subscribe(frozenset({inbox_of_all()}), self._asked, with_topic=True),
                await subscribe(frozenset({BEATS}), self._beat),
            ]
            if isinstance(links := getattr(self._service, "on_link", None), list):
                links.append(self._linked)
            self._beat_once()  # before we ask for anything, so that others know whom they hear
            await self._keeper.watch()
            self._beating = asyncio.create_task(self._beat_on(), name=f"{self.name} beats")
        except BaseException:
            await self.close()
            raise
        return self

    def _first_control(self, *, shared: bool) -> Control:
        """The record of a new system; what ends with this process need not be kept for anybody."""
        retained = shared and self.options.node.retain_records > 0
        sequencer = self.options.node.sequencer or "topics"
        return first_control(EMPTY, {}, (self.name,), retained=retained, at=time.time(), sequencer=sequencer)

    def _check_sequencer(self, control: Control) -> None:
        """Raise ConfigError if we were told of another sequencer than the system was begun with."""
        wanted = self.options.node.sequencer
        if wanted not in (None, control.sequencer):
            raise ConfigError(
                f"sequencer='{wanted}': this system was begun with sequencer='{control.sequencer}', for good; "
                "leave it out, or begin another system"
            )

    def _tell_time(self) -> None:
        self.engine.tell_time(time.time() - asyncio.get_running_loop().time())

    def _settings(self, *, tells_first: bool) -> NodeSettings:
        """What was asked for, and what service and store set: an event and its stamp must fit into a frame."""
        settings = msgspec.structs.replace(self.options.node, tells_first=tells_first)
        if settings.event_bytes_max:
            return settings
        limit = self._service.capabilities.frame_bytes_max - RECORD_ROOM
        return msgspec.structs.replace(settings, event_bytes_max=limit)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Serve nobody any more."""
        self._stop.set()
        self.observer.close()
        await end(self._beating)
        if hasattr(self, "_host"):
            self._host.close()
            self._post.close()
        if hasattr(self, "_places"):
            await self._places.close()
        if hasattr(self, "_keeper"):
            await self._keeper.close()
        await self._service.close()

    async def drain(self, timeout_s: float = DRAIN_S) -> bool:
        """Give all topics away and leave; False if there is nobody to take them, or it took too long."""
        control = self.control
        if control is None or control.live in ((), (self.name,)) or self.name not in control.live:
            return False
        try:
            async with asyncio.timeout(timeout_s):
                while self.control is not None and (
                    self.name in self.control.nodes or self.control.state != "active"
                ):
                    self._host.handle(Received(self.name, Replan(ANY_EPOCH, leaving=self.name)))
                    await asyncio.sleep(DRAIN_ASK_S)
        except TimeoutError:
            return False
        return True

    def stop(self) -> None:
        """Make `run` return."""
        self._stop.set()

    async def run(self) -> None:
        """Serve until `stop` is called; raises what made it impossible to go on."""
        await self._stop.wait()
        if self._error is not None:
            raise self._error

    async def ready(self) -> None:
        """Return when this node takes part in an epoch."""
        await self._serving.wait()

    @property
    def control(self) -> Control | None:
        """The newest control record that was seen."""
        return self._keeper.control

    @property
    def service(self) -> EventNotificationService:
        """What it is connected to."""
        return self._service

    @property
    def links(self) -> Links:
        """Its links to clients and other nodes."""
        return self._host.links

    @property
    def store_troubles(self) -> int:
        """Requests to the store that failed, or had no answer in time."""
        return self._keeper.troubles

    def health(self) -> dict[str, object]:
        """Whether it serves, for whoever must know."""
        control = self._keeper.control if hasattr(self, "_keeper") else None
        link = getattr(self._service, "is_up", None)
        is_up = link is None or link.is_set()
        serves = self._serving.is_set() and control is not None and self.name in control.live
        return {
            "ok": serves and is_up and not self._stop.is_set(),
            "node": self.name,
            "serves": serves,
            "broker": is_up,
            "epoch": None if control is None else control.epoch,
        }

    # What comes in.

    def _handle(self, input: Input) -> None:
        if self._error is not None:
            return  # whoever has failed takes nothing in, and so confirms nothing
        if type(input) is Appended:
            self._hear_stored(input)
            return
        if isinstance(input, Controlled):
            self._book.add_nodes(input.control.nodes)
            self.observer.controlled(input.control)
        self._host.handle(input)
        if isinstance(input, Controlled):
            self._tell_clients()
        self._note_serving()

    def _hear_stored(self, answer: Appended) -> None:
        """The store has a record, or has refused it."""
        if type(answer.record) is JoinRecord:
            self._clocks.forget(answer.record.registration.topics)
        elif answer.sequence is not None:
            self.observer.stored(answer.record)
        self._host.handle(answer)

    def _note_serving(self) -> None:
        if self._serving.is_set():
            return
        control = self.control
        if control is None or control.state != "active" or self.name not in control.live:
            return
        if self.engine.epoch == control.epoch:
            self._serving.set()

    def _packets(self, topic: str, frame: bytes) -> None:
        if self._error is not None:
            return
        try:
            source, is_node = self._book.senders.get(topic) or self._book.sender(topic)
            if source.endswith(TELLS) or source == OPERATOR:
                self._hear_aside(source, frame)
                return
            packets = decode_packets(frame)
        except (FrameError, ValueError) as error:
            self._reject(topic, error)
            return
        if is_node and self._is_too_old(source):
            self._reject(
                topic, f"node '{source}' speaks a release that forgets what is kept here; upgrade it"
            )
            return
        if is_node and source not in self._book.nodes:
            self._book.add_nodes((source,))
        if self.observer.tracing is not None:
            self.observer.arrived(packets)
        metrics = self.observer.metrics
        size = len(frame) // max(1, len(packets))
        for packet in packets:
            metrics.requests += packet.message is not None
            if not is_node and packet.life > self._latest:
                self._note_life(packet.life)
            reason = (
                None if is_node else self._door.refusal(source, packet.message, self._book.nodes, len(frame))
            )
            if reason is None:
                self._host.arrived(source, packet, size)
            else:
                self._reject(topic, reason)
        self._note_serving()

    def _hear_aside(self, source: str, frame: bytes) -> None:
        """What is no packet: how a bus is, or what an operator wants."""
        if source == OPERATOR:
            self._host.handle(Received(self.name, decode_replan(frame)))
        else:
            self._watched.hear(source, frame, asyncio.get_running_loop().time())

    def _note_life(self, life: int) -> None:
        """Somebody has begun a life; no clock is wrong by years."""
        if self._latest < life < time.time_ns() + LIFE_AHEAD_NS:
            self._latest = life

    def _is_too_old(self, node: str) -> bool:
        """Whether a node of an older release cannot read, or would not write, what is kept here.

        Those that take part already, while they are upgraded, are believed.
        """
        control, speaks = self.control, self._speaks.get(node, 1)
        if control is None:
            return False
        if speaks < BUNDLES <= self._release(control):
            return True
        if control.sequencer == "atoms" and speaks < ATOMS:
            return True
        return control.retained and node not in control.nodes and speaks < RETAINS

    def _release(self, control: Control) -> int:
        """The oldest release that a node here speaks, also one that may come back."""
        return min((self._speaks.get(node, SPEAKS) for node in control.nodes), default=SPEAKS)

    def _transmit(self, to: str, packet: Packet) -> None:
        if type(packet.message) is Repair or self.observer.tracing is not None:
            self.observer.transmits(packet)
        self._post.send(self._book.way(to), packet)

    def _asked(self, topic: str, frame: bytes) -> None:
        """Somebody asks whoever is there."""
        _, _, client, part = topic.split(".")
        control, now = self.control, asyncio.get_running_loop().time()
        if not self._door.may_ask(client, part, now):
            return  # all of its buses hear the answer that is under way
        if part == ASK and control is not None:
            answer = self._told(control)
        elif part == DESCRIBE:
            answer = self._watched.answer(frame, self.engine, self.observer.metrics, now)
        else:
            self._reject(topic, "nobody knows what to answer")
            return
        self._post.publish(to_client(f"{client}.{part}", self.name), answer)

    def _beat(self, frame: bytes) -> None:
        try:
            beat = decode_beat(frame)
        except FrameError as error:
            self._reject(BEATS, error)
            return
        reason = strange(beat.speaks, beat.oldest)
        if beat.node == self.name and beat.life > self.life:
            self._give_up(f"another process is node '{self.name}' now; give each node a name of its own")
        elif beat.world != self._keeper.world and beat.life < self.life:
            self._give_up(
                f"node '{beat.node}' serves here, and this transport has no store that nodes could share: "
                "run one node, or use nats:// or redis://"
            )
        elif reason is not None and beat.life < self.life:
            self._give_up(f"node '{beat.node}' serves here, and cannot work beside this one: {reason}")
        else:
            if len(self._speaks) < NODES_MAX:
                self._speaks[beat.node] = beat.speaks
            self._note_life(beat.latest)
            self._beats.heard(beat.node, asyncio.get_running_loop().time(), beat.life)

    def _linked(self, is_up: bool) -> None:
        """The connection is lost, or there again: either way nobody could be heard for a while."""
        self._beats.forget()
        if is_up:
            self._keeper.check_again()

    def _end_with(self, error: UnisonoError) -> None:
        """What was acknowledged is gone, or cannot be read, or what is to be stored cannot be."""
        if isinstance(error, ForgottenError):  # only a new beginning can follow: whoever starts us begins it
            error = ForgottenError(
                f"{error}: what was acknowledged is lost with it; nodes and clients have to begin anew"
            )
        self._fail(error)

    def _give_up(self, reason: str) -> None:
        self._fail(ConfigError(reason))

    def _fail(self, error: UnisonoError) -> None:
        if self._error is None:
            self._error = error
            self._stop.set()

    def _reject(self, where: str, reason: object) -> None:
        self.rejected += 1
        log.debug("'%s' rejected a frame on %s: %s", self.name, where, reason)

    # What goes out.

    def _carry_out(self, effect: Effect) -> Awaitable[object] | None:
        if type(effect) is Append:
            self.observer.appends(effect.record)
            self._keeper.append(effect)
            return None
        if type(effect) is Announce and type(effect.notification) is Stamped:
            self.observer.metrics.announced += 1
            for topic in effect.topics:
                self._post.announce(topic, effect.notification)
            return None
        match effect:
            case Announce(topics, (StampedBundle() | Heartbeat() | EpochNotice()) as note):
                self.observer.announces(note)
                short = self._clocks.shorten(note) if isinstance(note, StampedBundle) else note
                for topic in topics:
                    self._post.announce(topic, short)
            case _ if self._keeper.carry_out(effect) or self._places.carry_out(effect):
                pass
            case Reject(error):
                self._reject("the engine", error)
            case Fail(error):
                log.error("'%s': %s", self.name, error)
        return None

    def _tell_clients(self) -> None:
        """The leader tells everybody who listens when the control record has changed."""
        control = self.control
        if control is None or control.version <= self._published:
            return
        self._published = control.version
        if control.leader == self.name:
            self._post.publish(CONTROL, self._told(control))

    def _told(self, control: Control) -> bytes:
        """What clients are told of the control record."""
        if self._told_of[0] != control.version:
            self._told_of = (control.version, for_clients(control))
        record = self._told_of[1]
        return encode(
            Told(self._keeper.world, record, self.durability, self._release(control), OLDEST, self._latest)
        )

    # Signs of life.

    def _beat_once(self) -> None:
        version = 0 if self.control is None else self.control.version
        trouble, world = self._keeper.trouble[:TROUBLE_MAX], self._keeper.world
        spread = self.control is not None and self.control.sequencer == "atoms"
        oldest = max(OLDEST, ATOMS) if spread else OLDEST  # older nodes would write a record without it
        leads = self.control is not None and self.control.leader == self.name
        watched = leads and self._watched.is_watched(asyncio.get_running_loop().time())
        beat = Beat(self.name, self.life, world, version, SPEAKS, oldest, trouble, self._latest, watched)
        self._post.publish(BEATS, encode(beat))

    async def _beat_on(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            self._beat_once()
            self._tell_time()
            if self.control is not None:
                for suspect in self._beats.suspects(self.control.live, loop.time()):
                    self._host.handle(Suspected(suspect))
            await asyncio.sleep(self.options.beat_s)
