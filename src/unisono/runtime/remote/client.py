"""A process that publishes and subscribes through nodes: what its bus and its subscriptions share."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from unisono.engines.contract import Engine
from unisono.engines.effects import Acknowledge, AcknowledgeRun, Effect, Fail, Refuse, Reject
from unisono.engines.inputs import Controlled, Publish
from unisono.engines.plan import Plan
from unisono.engines.takeover.control import Control, Sequencer
from unisono.engines.topic_managers.publisher import Publisher
from unisono.ens.ending import end
from unisono.ens.port import EventNotificationService, Interest
from unisono.ens.store import Keeping
from unisono.model.durability import LEVELS, Durability, check_durability, suffices
from unisono.model.errors import (
    ConfigError,
    ForgottenError,
    FrameError,
    UnconfirmedError,
    UnisonoError,
    VersionError,
)
from unisono.model.frames import Packet
from unisono.model.release import BUNDLES, SPEAKS, strange
from unisono.runtime.options import Options
from unisono.runtime.receipts import Flight
from unisono.runtime.remote.departures import Departures
from unisono.runtime.remote.durable import DurableSubscription
from unisono.runtime.remote.host import CarryOut, Host
from unisono.runtime.remote.pace import Pace
from unisono.runtime.remote.post import Post
from unisono.runtime.remote.subscription import RemoteSubscription
from unisono.runtime.remote.teller import Teller
from unisono.runtime.remote.wire import (
    ASK,
    BEATS,
    CONTROL,
    Told,
    check_name,
    decode_beat,
    decode_packets,
    decode_told,
    ends_of,
    outbox_of,
    part_of,
    question,
    to_node,
)
from unisono.runtime.starts import NEW

if TYPE_CHECKING:
    from unisono.runtime.bus import Bus
    from unisono.runtime.lane import Lane
    from unisono.runtime.observer import Observer
    from unisono.runtime.recorder import Recorder

ASK_S = 0.5  # how often it is asked again
NODES_MAX = 4096
PLACES_SINCE = 2  # the release since which nodes keep places, and tell the past

log = logging.getLogger("unisono")


class Client:
    """One bus and its subscriptions, on a service with nodes behind it."""

    def __init__(
        self,
        service: EventNotificationService,
        name: str,
        patience_s: float,
        *,
        causal: bool = False,
        durability: Durability = "none",
        sequencer: Sequencer | None = None,
        peers: bool = False,
    ) -> None:
        self.name = check_name(name)
        self.client = name.partition(".")[0]  # whom a server's permissions know
        self.service = service
        self.control: Control | None = None
        self.world: int | None = None  # which the nodes were in when we met them
        self.publishers: dict[Bus, None] = {}
        self.subscriptions: dict[str, RemoteSubscription] = {}
        self.full: dict[Lane, None] = {}  # subscriptions whose applications lag
        self.rejected = 0
        self.observer: Observer | None = None
        self._repeated = 0  # packets that ended links have sent again
        self.newest_life = max(time.time_ns(), 1)
        self.post = Post(service)
        self._patience_s = patience_s
        self._causal = causal
        self._wanted = durability
        self._sequencer = sequencer
        self.peers = peers  # whether subscriptions ask those of other processes, and answer them
        self.durability: Durability = "none"  # what stored means to the nodes
        self.speaks = SPEAKS  # the oldest release that a node speaks
        self._troubles: dict[str, str] = {}  # node -> why it cannot store anything
        self._error: UnisonoError | None = None
        self._forbidden = ""
        self._refusal: UnisonoError | None = None
        self._told_last = ""
        self._parts = 0
        self._hosts: dict[str, Host] = {}
        self._ends: dict[str, tuple[str, str]] = {}  # topic of packets for us -> their address, and the node
        self._ending: set[asyncio.Future[object]] = set()  # what was under way when it was cancelled
        self._interests: list[Interest] = []
        self._known = asyncio.Event()
        self._asking: asyncio.Task[None] | None = None
        self._publisher: Publisher | None = None
        self._asks_for = 0  # the version it wants to know of
        self.departures = Departures()
        self.ids = self.departures.ids
        self._pace = Pace()
        self._loop = asyncio.get_running_loop()
        self._teller = Teller(self)

    # Opening and closing.

    async def open(self) -> None:
        """Find the nodes; ConnectionError if none answers, or if the broker does not let us ask."""
        if hasattr(self.service, "on_trouble"):
            self.service.on_trouble = self._trouble
        subscribe = self.service.subscribe
        self._interests = [
            await subscribe(frozenset({outbox_of(self.client)}), self._arrived, with_topic=True),
            await subscribe(frozenset({CONTROL}), self._told),
            await subscribe(frozenset({BEATS}), self._beat),
        ]
        self._ask(1)
        try:
            async with asyncio.timeout(self._patience_s):
                await self._known.wait()
            if self._refusal is not None:
                raise self._refusal
            if self._forbidden:
                raise ConnectionError(
                    f"the broker does not let us be '{self.name}': {self._forbidden}; where it asks for credentials, "
                    "a bus is called like its user, or like its user and one more word (anna.7)"
                )
        except TimeoutError:
            raise ConnectionError(
                f"no unisono node answers within {self._patience_s:g} s; start one with `unisono node`, "
                "or everything with `unisono up`"
            ) from None
        self._publisher = Publisher(causal=self._causal, bundles=self.speaks >= BUNDLES)
        self._voice = self.host(self.name, self._publisher, self._carry_out, self.post.flush)

    def _trouble(self, error: UnisonoError) -> None:
        """The broker has something to tell: what it forbids at first, it forbids for good."""
        if self.control is None and "permissions violation" in str(error):
            self._forbidden = str(error)
            self._known.set()
        elif str(error) != self._told_last:  # once is enough
            log.warning("bus '%s': %s", self.name, error)
        self._told_last = str(error)

    def welcome(self, bus: Bus) -> int:
        """The bus this is for; returns its incarnation."""
        self.publishers[bus] = None
        self.observer = self.departures.observer = bus._observer
        return self.newest_life

    def hush(self) -> None:
        """Talk to nobody any more."""
        self._teller.close()
        self.post.close()
        for host in list(self._hosts.values()):
            self.detach(host)
        if self._asking is not None:
            self._asking.cancel()

    async def close(self) -> None:
        """Talk to nobody any more, and wait until nothing is under way."""
        self.hush()
        await end(self._asking, *self._ending)

    async def part(self, bus: Bus) -> None:
        """The bus is closed, and so are its subscriptions."""
        self.publishers.pop(bus, None)
        error = UnconfirmedError(
            f"bus '{self.name}' was closed before the event was confirmed; it may have its place, or not"
        )
        self.departures.crash(error)
        await self.close()

    # Hosts.

    def host(
        self,
        address: str,
        engine: Engine,
        carry_out: CarryOut,
        afterwards: Callable[[], None] | None = None,
    ) -> Host:
        """Give an engine an address, and let it know who sequences what."""
        part, send = part_of(address), self.post.send if afterwards is None else self.post.put
        ways: dict[str, str] = {}  # node -> the topic on which it hears this part

        def transmit(to: str, packet: Packet) -> None:
            way = ways.get(to)
            if way is None:
                way = ways[to] = to_node(part, to)
            send(way, packet)

        host = self._hosts[address] = Host(
            address, engine, self.newest_life, transmit, carry_out, afterwards=afterwards
        )
        if self.control is not None:
            host.handle(Controlled(self.control))
        return host

    def address(self, kind: str) -> str:
        """An address that no other process, and no other life of this one, has."""
        self._parts += 1
        return f"{self.client}.{kind}{self._parts}-{self.newest_life:x}"

    def detach(self, host: Host) -> None:
        """Let it hear nothing any more."""
        if self._hosts.pop(host.address, None) is not None:
            self._repeated += host.links.repeated
        pending = host.close()
        if pending is not None:
            self._ending.add(pending)
            pending.add_done_callback(self._ending.discard)

    def _arrived(self, topic: str, frame: bytes) -> None:
        try:
            address, node = self._ends.get(topic) or self._ends_of(topic)
            host = self._hosts.get(address)
            if host is None:
                self._hear_aside(address, frame)
                return
            packets = decode_packets(frame)
        except (FrameError, ValueError) as error:
            self._reject(error)
            return
        for packet in packets:
            if packet.to > self.newest_life:
                self._end(
                    ConfigError(f"another process is '{self.name}' now; give each bus a name of its own")
                )
                return
            host.arrived(node, packet)

    def _ends_of(self, topic: str) -> tuple[str, str]:
        """Whom of us packets on a topic are for, and the node they come from; ValueError if it is no such topic."""
        if len(self._ends) >= NODES_MAX:
            self._ends.clear()
        found = self._ends[topic] = ends_of(topic)
        return found

    def _hear_aside(self, address: str, frame: bytes) -> None:
        """What is no packet for a host; it may be for a subscription that has ended, or somebody else listens to it."""
        if address == f"{self.client}.{ASK}":
            self._told(frame)

    # The control record.

    def _told(self, frame: bytes) -> None:
        try:
            told, control = decode_told(frame)
        except VersionError as error:
            self._refuse(error)
            return
        except FrameError as error:
            self._reject(error)
            return
        if self.world is None:
            if reason := self._unfit(told) or self._unlike(control):
                self._refuse(reason)
                return
            self.world = told.world
            self.newest_life = max(self.newest_life, told.latest + 1)  # our clock may have been set back
        self._set_speaks(told.speaks)
        if told.world != self.world:
            self._end(
                ForgottenError(
                    "the nodes were restarted and have lost what they knew; connect again, and subscribe again"
                )
            )
            return
        if self.control is not None and control.version <= self.control.version:
            return
        self.control = control
        self.departures.owned(control.owner)
        self._known.set()
        for host in list(self._hosts.values()):
            host.handle(Controlled(control))

    def _set_speaks(self, release: int) -> None:
        self.speaks = release
        if self._publisher is not None:
            self._publisher.bundles = release >= BUNDLES

    def _beat(self, frame: bytes) -> None:
        try:
            beat = decode_beat(frame)
        except FrameError as error:
            self._reject(error)
            return
        if beat.trouble and len(self._troubles) < NODES_MAX:
            self._troubles[beat.node] = beat.trouble
        else:
            self._troubles.pop(beat.node, None)
        if beat.watched and self.publishers:
            self._teller.asked_by(beat.node)
        self._ask(beat.version if beat.world == self.world else self._asks_for + 1)

    def _unfit(self, told: Told) -> UnisonoError | None:
        """Why this system is none for us."""
        if reason := strange(told.speaks, told.oldest):
            return VersionError(f"a node answers, but {reason}")
        if told.durability in LEVELS:
            self.durability = check_durability(told.durability)
        elif self._wanted != "none":
            return VersionError(
                "a node answers that does not say what it stores; upgrade it, or leave durability= out"
            )
        if not suffices(self.durability, self._wanted):
            return ConfigError(
                f"durability='{self._wanted}' is more than this system offers: its nodes store events with "
                f"durability='{self.durability}'; see docs/durability.md"
            )
        return None

    def _unlike(self, control: Control) -> ConfigError | None:
        """Why this system sequences in another way than we were told."""
        if self._sequencer in (None, control.sequencer):
            return None
        return ConfigError(
            f"sequencer='{self._sequencer}': this system was begun with sequencer='{control.sequencer}', for good; "
            "leave it out, or connect to another system"
        )

    def _refuse(self, error: UnisonoError) -> None:
        """Whoever opens us is told, unless somebody else answers too."""
        if self.control is None:
            self._refusal = error
            self._known.set()
        else:
            self._reject(error)

    def _end(self, error: UnisonoError) -> None:
        """Nothing that was promised can be kept."""
        if self._error is None:
            self._error = error
            for subscription in list(self.subscriptions.values()):
                subscription.end(self._error)
            self.departures.crash(self._error)
            self.hush()

    def _ask(self, version: int) -> None:
        """Ask until a control record of this version, or a newer one, is known."""
        self._asks_for = max(self._asks_for, version)
        is_asking = self._asking is not None and not self._asking.done()
        if not is_asking and (self.control is None or self.control.version < self._asks_for):
            self._asking = asyncio.create_task(self._ask_on(), name=f"{self.name} asks")

    async def _ask_on(self) -> None:
        if self.control is not None:
            await asyncio.sleep(ASK_S / 10)  # the leader is about to tell everybody
        while self.control is None or self.control.version < self._asks_for:
            self.post.publish(question(self.client), b"?")
            await asyncio.sleep(ASK_S)

    def _reject(self, reason: object) -> None:
        self.rejected += 1
        log.debug("'%s' rejected a frame: %s", self.name, reason)

    # Subscriptions.

    def subscription(
        self, name: str, asked: frozenset[str], options: Options, recorder: Recorder | None
    ) -> RemoteSubscription:
        """A subscription, not open yet."""
        if options.is_durable or options.beginning != NEW:
            self._check_keeps(options)
        kind = DurableSubscription if options.is_durable else RemoteSubscription
        return kind(self, name, asked, options, recorder)

    def _check_keeps(self, options: Options) -> None:
        """Raise ConfigError unless the nodes keep places and the past."""
        if not (isinstance(self.service, Keeping) and self.service.store().shared):
            options.check_kept("this transport has no store that nodes share, and")
        if self.speaks < PLACES_SINCE:
            options.check_kept("a node of an older release")
        if self.control is not None and not self.control.retained:
            options.check_kept("this system was begun with retain_records=0, and")

    def admit(self, subscription: RemoteSubscription) -> None:
        """Take in a subscription."""
        if subscription.key in self.subscriptions:
            raise ConfigError(
                f"a subscription named '{subscription.name}' is already open; choose another name"
            )
        self.subscriptions[subscription.key] = subscription

    def dismiss(self, subscription: RemoteSubscription) -> None:
        """A subscription has ended."""
        if self.subscriptions.get(subscription.key) is subscription:
            del self.subscriptions[subscription.key]

    def is_held(self, topic: str) -> bool:
        """Whether anybody may hold a topic: from here nobody can tell."""
        return True

    # Publishing.

    def depart(self, flight: Flight) -> None:
        """Ask the nodes for the places of a flight's publications."""
        if self._error is not None:
            flight.crash(self._error)
            return
        self.departures.depart(flight)
        self._pace.add(len(flight.publications), self._loop.time())
        self._voice.handle(Publish(flight.publications))

    def _carry_out(self, effect: Effect) -> None:
        if type(effect) is Acknowledge:
            self.departures.placed(effect.sequenced)
            return
        match effect:
            case AcknowledgeRun(run):
                self.departures.placed_run(run)
            case Refuse(id, error):
                self.departures.refused(id, error)
            case Reject(error):
                self._reject(error)
            case Fail(error):
                log.error("bus '%s': %s", self.name, error)

    @property
    def retries(self) -> int:
        """Packets sent again because a node did not answer."""
        return self._repeated + sum(host.links.repeated for host in self._hosts.values())

    @property
    def trouble(self) -> str:
        """Why nothing is confirmed, as far as nodes say."""
        return "; ".join(f"node '{node}' says: {why}" for node, why in sorted(self._troubles.items()))

    @property
    def error(self) -> UnisonoError | None:
        """Why it has ended by itself, if it has."""
        return self._error

    @property
    def unconfirmed(self) -> int:
        """Events that have no place yet."""
        return self.departures.count

    # Planning.

    @property
    def plan(self) -> Plan | None:
        """The plan of the nodes."""
        return None if self.control is None else self.control.plan

    def apply_plan(self, plan: Plan) -> tuple[str, ...]:
        """Nodes sequence the events of this bus."""
        raise ConfigError("nodes sequence the events of this bus; load a plan with `unisono rank --apply`")

    # Back-pressure.

    @property
    def linger_s(self) -> float:
        """How long an event waits for others that could go with it."""
        return self._pace.linger_s(self._loop.time())

    @property
    def is_quiet(self) -> bool:
        """Whether an event may depart at once: nothing is under way, and little was lately."""
        return not self.departures.count and not self._pace.linger_s(self._loop.time())

    @property
    def is_full(self) -> bool:
        """Whether publishers have to wait."""
        return self.departures.is_full

    def park(self, resume: Callable[[], None]) -> None:
        """Call `resume` when there is room again."""
        self.departures.park(resume)

    def unpark(self, resume: Callable[[], None]) -> None:
        """Do not call it any more."""
        self.departures.unpark(resume)

    def make_room(self, lane: Lane) -> None:
        """A subscription is no longer full."""
        if lane in self.full:
            del self.full[lane]
            if isinstance(lane, RemoteSubscription):
                asyncio.get_running_loop().call_soon(lane.catch_up)
