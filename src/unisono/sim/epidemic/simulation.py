"""Runs a world of dispatchers: harm first, then heal, then wait until all that can be recovered is.

Every message is a datagram, on the tree or past it, and each is treated by the same network.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import lru_cache
from hashlib import sha256
from random import Random
from typing import NamedTuple, TypeAlias

import msgspec

from unisono.engines.epidemic import inputs as io
from unisono.engines.epidemic.dispatcher import Dispatcher
from unisono.engines.epidemic.leaves import (
    Full,
    Here,
    LeafEffect,
    LeafHost,
    LeafKeeper,
    LeafMessage,
    SendLeaf,
    Taken,
)
from unisono.engines.epidemic.messages import Message, decode_message, encode_message
from unisono.engines.epidemic.patterns import Index, Pattern, PlainIndex
from unisono.engines.epidemic.tree import (
    Attach,
    Beat,
    BeatHeard,
    Detach,
    SendBeat,
    TreeEffect,
    TreeKeeper,
)
from unisono.engines.filters import parse as parse_filter
from unisono.engines.inputs import TICK
from unisono.model.ids import EventId
from unisono.sim.epidemic.forest import Edge, Forest
from unisono.sim.epidemic.witness import Client, Owed, Witness
from unisono.sim.epidemic.world import Act, Crashes, EpidemicWorld, Publishes, Rewires, Subscribes
from unisono.sim.kernel import Kernel
from unisono.sim.network import Network

ROUNDS_AFTER_HEAL = 8_000  # a world in which something recoverable is missing for longer is stuck
LOOK_S = 0.5  # how often it is looked whether that is so
CHECK_STEPS = 16  # engines are checked every so many steps
SKEW_S = 0.05  # between the two ends of a link that is made or cut


@lru_cache(maxsize=4096)
def parse(text: str) -> Pattern:
    """A filter, parsed once for all dispatchers of this process."""
    return parse_filter(text)


class Arrival(NamedTuple):
    """A datagram reaches its address."""

    source: str
    to: str
    data: bytes | Message | Beat | LeafMessage


class Wake(NamedTuple):
    """A timer runs out."""

    name: str
    at: float
    life: int


class Relink(NamedTuple):
    """One end of a link hears of it."""

    name: str
    other: str
    is_there: bool


class Back(NamedTuple):
    """A crashed dispatcher begins a new life."""

    name: str


class Mend(NamedTuple):
    """The layer above notices a crash, and joins what fell apart."""

    name: str


class Heal(NamedTuple):
    """Nothing is lost any more."""


class Look(NamedTuple):
    """Is anything still missing?"""


Occurrence: TypeAlias = Arrival | Wake | Relink | Back | Mend | Heal | Look | Act


class Ending(msgspec.Struct, frozen=True):
    """How a world ended."""

    violations: tuple[str, ...]
    stuck: tuple[str, ...]
    steps: int
    facts: Counter[str]
    digest: str
    lines: list[str]


class _Host:
    """A dispatcher's life, and who keeps its place: nobody where the tree is given."""

    def __init__(self, dispatcher: Dispatcher, keeper: TreeKeeper | LeafKeeper | None) -> None:
        self.dispatcher = dispatcher
        self.keeper = keeper
        self.leaves = LeafHost()
        self.wake_at = float("inf")

    def next_timer(self) -> float | None:
        timers = [self.dispatcher.next_timer(), self.leaves.next_timer()]
        if self.keeper is not None:
            timers.append(self.keeper.next_timer())
        return min((at for at in timers if at is not None), default=None)


MakeDispatcher: TypeAlias = Callable[..., Dispatcher]


class Simulation:
    """One run of a world; `make` builds dispatchers, so that broken ones can take part."""

    def __init__(
        self,
        world: EpidemicWorld,
        make: MakeDispatcher = Dispatcher,
        *,
        traces: bool = False,
        patience_rounds: int = ROUNDS_AFTER_HEAL,
        make_index: Callable[[], Index] = PlainIndex,
    ) -> None:
        self.world = world
        self.make = make
        self.make_index = make_index
        self.patience_rounds = patience_rounds
        self.kernel: Kernel[Occurrence] = Kernel()
        self.network = Network(world.conditions, Random(f"{world.seed} network"))
        self.random = Random(f"{world.seed} events")
        self.forest = Forest(world.dispatchers, world.links, world.degree_max)
        self.witness = Witness(parse)
        self.hosts: dict[str, _Host] = {}
        self.lives: dict[str, int] = {}
        self.wishes: dict[
            tuple[str, str, str], None
        ] = {}  # what clients tell their dispatcher again in its next life
        self._relinked: dict[Edge, float] = {}  # when an end last heard of a link
        self.steps = 0
        self.stuck: list[str] = []
        self.faults: list[str] = []
        self.facts: Counter[str] = Counter()
        self.is_healed = False
        self._traces = traces
        self._lines: list[str] = []
        self._hash = sha256()

    # Running

    def run(self) -> Ending:
        """Run to the end and judge."""
        self.start()
        self.kernel.schedule(self.world.heal_at, Heal())
        self.kernel.run(self.occur)
        for host in self.hosts.values():
            self._check(host)
        return Ending(
            (*self.faults, *self.witness.broken),
            tuple(self.stuck),
            self.steps,
            self.facts,
            self._hash.hexdigest(),
            self._lines,
        )

    def start(self) -> None:
        """Bring everybody to life, and schedule what is to happen."""
        for name in self.world.dispatchers:
            self._begin(name)
        if self.world.tree is None:
            for edge in self.forest.edges():
                self._relink(edge, is_there=True, skew_s=0.0)
        for act in self.world.script:
            self.kernel.schedule(act.at, act)

    def occur(self, occurrence: Occurrence) -> None:
        """Let one thing happen."""
        self.steps += 1
        match occurrence:
            case Arrival():
                self._arrive(occurrence)
            case Wake(name, at, life):
                host = self.hosts.get(name)
                if host is not None and host.wake_at == at and self.lives[name] == life:
                    host.wake_at = float("inf")
                    self._wake_keeper(name, host)
                    self.give(name, TICK)
            case Relink(name, other, is_there):
                self.give(name, io.LinkAdded(other) if is_there else io.LinkRemoved(other))
            case Publishes(_, name, attributes, payload):
                self._publish(name, attributes, payload)
            case Subscribes():
                self._subscribe(occurrence)
            case Crashes(_, name, back_at):
                self._crash(name, back_at)
            case Back(name):
                self._come_back(name)
            case Mend(name):
                self._change_links(*self.forest.lose(name, self.random))
            case Rewires():
                if self.world.tree is None:
                    self.facts["reconfigurations"] += 1
                    self._change_links(*self.forest.rewire(self.random))
            case Heal():
                self.is_healed = True
                self.network.heal()
                self.kernel.schedule(self.kernel.now + LOOK_S, Look())
            case Look():
                self._look()

    def give(self, name: str, input: io.Input) -> list[io.Effect]:
        """Hand an input to a dispatcher and carry out what it asks for."""
        host = self.hosts.get(name)
        if host is None:
            return []
        effects = host.dispatcher.handle(input, self.kernel.now)
        if self._traces:
            self._trace(name, input, effects)
        for effect in effects:
            match effect:
                case io.Send(to, message):
                    self.send(name, to, message)
                case io.Deliver(clients, event):
                    for client in clients:
                        self.facts["deliveries"] += 1
                        self.witness.deliver(Client(name, self.lives[name], client), event, self.kernel.now)
                case io.Lose(_, _, _, numbers):
                    self.facts["given up"] += len(numbers)
                case io.Reject(error):
                    self.faults.append(f"refusals: {name} refused something: {error}")
        if self.steps % CHECK_STEPS == 0:
            self._check(host)
        self._set_timer(name, host)
        return effects

    def send(self, source: str, to: str, message: Message) -> None:
        """Put a message on the network, as bytes."""
        data = encode_message(message)
        for at in self.network.arrivals(source, to, self.kernel.now):
            self.kernel.schedule(at, Arrival(source, to, data))

    def _arrive(self, arrival: Arrival) -> None:
        host, data = self.hosts.get(arrival.to), arrival.data
        if host is None:
            return
        if isinstance(data, Beat | LeafMessage):
            self._keep(arrival.to, self._heard_of_places(host, arrival.source, data))
            self._set_timer(arrival.to, host)
        else:
            message = decode_message(data) if isinstance(data, bytes) else data
            self.give(arrival.to, io.Heard(arrival.source, message))
            if isinstance(host.keeper, LeafKeeper):
                host.keeper.overhear(arrival.source, self.kernel.now)

    def _heard_of_places(
        self, host: _Host, source: str, data: Beat | LeafMessage
    ) -> list[TreeEffect] | list[LeafEffect]:
        """Who keeps a place in the tree, or takes leaves, hears from others."""
        now, keeper = self.kernel.now, host.keeper
        if isinstance(keeper, LeafKeeper):
            return keeper.hear(source, data, now) if isinstance(data, Taken | Full) else []
        assert keeper is not None
        if isinstance(data, Beat):
            return keeper.handle(BeatHeard(source, data), now)
        return host.leaves.hear(source, keeper.heard, now) if isinstance(data, Here) else []

    def _wake_keeper(self, name: str, host: _Host) -> None:
        if host.keeper is not None:
            self._keep(name, host.keeper.handle(TICK, self.kernel.now))
            self._keep(name, host.leaves.handle(TICK, self.kernel.now))

    def _keep(self, name: str, effects: list[TreeEffect] | list[LeafEffect]) -> None:
        """Do what the keepers of places ask for."""
        for effect in effects:
            match effect:
                case SendBeat(to, message) | SendLeaf(to, message):
                    for at in self.network.arrivals(name, to, self.kernel.now):
                        self.kernel.schedule(at, Arrival(name, to, message))
                case Attach(other):
                    self.give(name, io.LinkAdded(other))
                case Detach(other):
                    self.facts["links let go"] += 1
                    self.give(name, io.LinkRemoved(other))

    def _set_timer(self, name: str, host: _Host) -> None:
        at = host.next_timer()
        if at is not None and at < host.wake_at:
            host.wake_at = at = max(at, self.kernel.now)
            self.kernel.schedule(at, Wake(name, at, self.lives[name]))

    # What happens to dispatchers

    def _begin(self, name: str) -> None:
        life = self.lives[name] = self.lives.get(name, 0) + 1
        random = Random(f"{self.world.seed} {name} {life}")
        dispatcher = self.make(name, life, random, parse, self.world.settings, self.make_index())
        host = self.hosts[name] = _Host(dispatcher, self._keeper(name, life))
        if host.keeper is not None:
            self._wake_keeper(name, host)
            self._set_timer(name, host)

    def _keeper(self, name: str, life: int) -> TreeKeeper | LeafKeeper | None:
        if self.world.tree is None:
            return None
        if name in self.world.leaves:
            return LeafKeeper(self.world.leaves[name])
        others = [other for other in self.world.dispatchers if other not in self.world.leaves]
        random = Random(f"{self.world.seed} tree {name} {life}")
        return TreeKeeper(name, life, random, others, self.world.tree)

    def _publish(self, name: str, attributes: dict[str, str | int | float | bool], payload: bytes) -> None:
        host = self.hosts.get(name)
        if host is not None:
            id = EventId(name, host.dispatcher.incarnation, host.dispatcher.n + 1)
            self.witness.publish(id, self.kernel.now, attributes, payload)
            self.give(name, io.PublishEvent(attributes, payload))

    def _subscribe(self, act: Subscribes) -> None:
        wish = (act.dispatcher, act.client, act.pattern)
        if act.is_wanted:
            self.wishes[wish] = None
        else:
            self.wishes.pop(wish, None)
        if act.dispatcher in self.hosts:
            self._tell(wish, is_wanted=act.is_wanted)

    def _tell(self, wish: tuple[str, str, str], *, is_wanted: bool) -> None:
        name, client, pattern = wish
        who = Client(name, self.lives[name], client)
        if is_wanted:
            self.witness.subscribe(who, pattern, self.kernel.now)
            self.give(name, io.Subscribe(client, pattern))
        else:
            self.witness.unsubscribe(who, pattern)
            self.give(name, io.Unsubscribe(client, pattern))

    def _crash(self, name: str, back_at: float) -> None:
        if self.hosts.pop(name, None) is None:
            return
        self.facts["crashes"] += 1
        self.witness.leave(name, self.lives[name])
        if self.world.tree is None:
            self.kernel.schedule(self.kernel.now + self.world.notice_s, Mend(name))
            back_at = max(back_at, self.kernel.now + self.world.notice_s + SKEW_S)
        self.kernel.schedule(back_at, Back(name))

    def _come_back(self, name: str) -> None:
        self._begin(name)
        if self.world.tree is None:
            self._change_links([], self.forest.gain(name, self.random))
        for wish in self.wishes:
            if wish[0] == name:
                self._tell(wish, is_wanted=True)

    def _change_links(self, gone: list[Edge], new: list[Edge]) -> None:
        for edge in gone:
            self._relink(edge, is_there=False, skew_s=SKEW_S)
        for edge in new:
            self._relink(edge, is_there=True, skew_s=SKEW_S)

    def _relink(self, edge: Edge, *, is_there: bool, skew_s: float) -> None:
        for name, other in (edge, edge[::-1]):
            at = self.kernel.now + skew_s * self.random.random()
            self._relinked[name, other] = at = max(at, self._relinked.get((name, other), 0.0))
            self.kernel.schedule(at, Relink(name, other, is_there))

    # Judging

    def _look(self) -> None:
        """Is all recovered that can be? Then it is over; and it is over when it takes too long."""
        s = self.world.settings
        is_settled = self.kernel.now > self.world.heal_at + 4.0
        missing = [owed for owed in self.witness.owed() if self._is_recoverable(owed)]
        rounds = (self.kernel.now - self.world.heal_at) / s.gossip_s
        patience = self.patience_rounds * (s.slow_down_max if s.adaptive else 1)
        if is_settled and (not missing or not self.world.is_complete):
            self.kernel.stop()
        elif rounds > patience:
            self.stuck += [
                f"client {o.client.name} of {o.client.dispatcher} never got {o.id}, which is kept"
                for o in missing[:3]
            ]
            self.kernel.stop()
        else:
            self.kernel.schedule(self.kernel.now + LOOK_S, Look())

    def _is_recoverable(self, owed: Owed) -> bool:
        return any(owed.id in host.dispatcher.cache for host in self.hosts.values())

    def _check(self, host: _Host) -> None:
        try:
            host.dispatcher.check()
            if host.keeper is not None:
                host.keeper.check()
        except AssertionError as error:
            self.faults.append(f"invariants: {host.dispatcher.name} broke one: {error!r}")
            self.kernel.stop()

    def _trace(self, name: str, input: object, effects: list[io.Effect]) -> None:
        line = f"{self.kernel.now:.4f} {name}: {input} -> {effects}"
        self._lines.append(line)
        self._hash.update(line.encode())
