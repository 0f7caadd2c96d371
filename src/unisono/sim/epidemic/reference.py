"""The reference world: a hundred dispatchers under steady load, and how much of what is published arrives in time.

Patterns are single words and events a few of them, as in the evaluations of the paper's authors. What a message weighs
is its encoded size; digests and requests are weighed apart from the events on the tree and from repairs past it.
"""

from __future__ import annotations

from collections import Counter
from random import Random

import msgspec

from unisono.engines.epidemic.dispatcher import Dispatcher
from unisono.engines.epidemic.messages import GOSSIP, Event, Message, Repair, encode_message
from unisono.engines.epidemic.patterns import Attributes, Index, Key, Pattern, Value
from unisono.engines.epidemic.settings import DispatcherSettings
from unisono.model.ids import EventId
from unisono.sim.epidemic.simulation import Arrival, MakeDispatcher, Simulation
from unisono.sim.epidemic.world import Act, EpidemicWorld, Publishes, Rewires, Subscribes
from unisono.sim.network import Conditions
from unisono.sim.topologies.dispatchers import dispatcher_tree

START_S = 3.0  # routes are laid, nothing is published yet


class Reference(msgspec.Struct, frozen=True):
    """What the world is like; the rate is of each dispatcher, so it is 50 events/s in all."""

    dispatchers: int = 100
    degree_max: int = 4
    patterns: int = 70
    patterns_each: int = 2
    words: int = 3  # patterns that an event matches, at most
    rate_s: float = 0.5
    loss: float = 0.1
    latency_s: float = 0.001
    spread_s: float = 0.001
    payload_bytes: int = 256
    warm_s: float = 3.0  # published before it is counted
    seconds: float = 20.0
    rewire_s: float | None = None  # a tree change so often
    in_rounds: int = 10
    seed: int = 1


class Outcome(msgspec.Struct, frozen=True):
    """How it went: `expected` deliveries, and how many of them were there `in_time` and `at_last`."""

    world: Reference
    algorithm: str
    events: int
    expected: int
    in_time: int
    at_last: int
    given_up: int
    bytes: dict[str, int]  # by kind of message
    messages: dict[str, int]
    steps: int

    @property
    def delivery(self) -> float:
        """The share that was there in time."""
        return self.in_time / max(1, self.expected)

    @property
    def delivery_at_last(self) -> float:
        """The share that was there when the world ended."""
        return self.at_last / max(1, self.expected)

    @property
    def overhead(self) -> float:
        """Bytes of digests and requests for each byte of events on the tree."""
        gossip = sum(self.bytes.get(kind.__name__, 0) for kind in GOSSIP)
        return gossip / max(1, self.bytes.get(Event.__name__, 0))

    @property
    def repairs(self) -> float:
        """Bytes of repairs for each byte of events on the tree."""
        return self.bytes.get(Repair.__name__, 0) / max(1, self.bytes.get(Event.__name__, 0))


def run_reference(
    world: Reference, settings: DispatcherSettings | None = None, make: MakeDispatcher = Dispatcher
) -> Outcome:
    """Simulate it and count."""
    settings = settings or reference_settings()
    simulation = _Weighed(_draw(world, settings), make)
    simulation.start()
    begin = START_S + world.warm_s
    end = begin + world.seconds
    simulation.kernel.run(simulation.occur, until=begin)
    simulation.weigh()
    simulation.kernel.run(simulation.occur, until=end)
    simulation.weigh(False)
    simulation.kernel.run(simulation.occur, until=end + 2 * settings.lost_s_max)
    if simulation.faults or simulation.witness.broken:
        raise AssertionError([*simulation.faults, *simulation.witness.broken][:3])
    return _outcome(world, settings, simulation, begin)


def reference_settings(**more: object) -> DispatcherSettings:
    """The defaults; no pattern of this world covers another, so that is not looked for."""
    return DispatcherSettings(**({"covering": False} | more))  # type: ignore[arg-type]


class _WordIndex:
    """Finds patterns of the kind `exists word` by the words of an event."""

    def __init__(self) -> None:
        self._keys: dict[str, Key] = {}

    def add(self, pattern: Pattern) -> None:
        self._keys[pattern.text.removeprefix("exists ")] = pattern.hash

    def discard(self, pattern: Pattern) -> None:
        self._keys.pop(pattern.text.removeprefix("exists "), None)

    def matching(self, attributes: Attributes) -> set[Key]:
        keys = self._keys
        return {keys[word] for word in attributes if word in keys}


class _Weighed(Simulation):
    """A simulation that weighs messages, and does not take the time to encode and decode them all."""

    def __init__(self, world: EpidemicWorld, make: MakeDispatcher) -> None:
        super().__init__(world, make, make_index=_index)
        self.bytes: Counter[str] = Counter()
        self.messages: Counter[str] = Counter()
        self.is_weighing = False

    def weigh(self, is_weighing: bool = True) -> None:
        """Begin or end to count."""
        self.is_weighing = is_weighing

    def _check(self, host: object) -> None:
        """Not here: worlds of the fuzzer do."""

    def send(self, source: str, to: str, message: Message) -> None:
        if self.is_weighing:
            kind = type(message).__name__
            self.bytes[kind] += len(encode_message(message))
            self.messages[kind] += 1
        arrivals = self.network.arrivals(source, to, self.kernel.now)
        for at in arrivals:
            self.kernel.schedule(at, Arrival(source, to, message))


def _index() -> Index:
    return _WordIndex()


def _draw(world: Reference, settings: DispatcherSettings) -> EpidemicWorld:
    random = Random(f"{world.seed} reference")
    names = tuple(f"d{i}" for i in range(world.dispatchers))
    words = [f"w{i}" for i in range(world.patterns)]
    tree = dispatcher_tree(world.dispatchers, world.degree_max, world.seed)
    script: list[Act] = [
        Subscribes(0.0, name, "c", f"exists {word}")
        for name in names
        for word in random.sample(words, world.patterns_each)
    ]
    begin, end = START_S, START_S + world.warm_s + world.seconds
    payload = bytes(random.randrange(256) for _ in range(world.payload_bytes))
    for name in names:
        at = begin + random.expovariate(world.rate_s)
        while at < end:
            attributes: dict[str, Value] = dict.fromkeys(
                random.sample(words, random.randint(1, world.words)), 1
            )
            script.append(Publishes(at, name, attributes, payload))
            at += random.expovariate(world.rate_s)
    if world.rewire_s is not None:
        script += [
            Rewires(begin + i * world.rewire_s) for i in range(1, int((end - begin) / world.rewire_s) + 1)
        ]
    return EpidemicWorld(
        world.seed,
        names,
        tuple((names[a], names[b]) for a, b in tree.links.tolist()),
        tuple(sorted(script, key=lambda act: act.at)),
        heal_at=float("inf"),
        settings=settings,
        conditions=Conditions(world.latency_s, world.spread_s, world.loss),
        degree_max=world.degree_max,
    )


def _outcome(world: Reference, settings: DispatcherSettings, simulation: _Weighed, begin: float) -> Outcome:
    """Every event published after the warm-up is owed to everybody who subscribes to one of its words."""
    witness = simulation.witness
    takers: dict[str, list[int]] = {}
    delivered: list[dict[EventId, float]] = []
    for client, wishes in witness.wishes.items():
        for text in wishes:
            takers.setdefault(text.removeprefix("exists "), []).append(len(delivered))
        delivered.append(witness.delivered.get(client, {}))
    limit_s = world.in_rounds * settings.gossip_s
    expected = in_time = at_last = events = 0
    for id, (at, attributes, _) in witness.published.items():
        if at < begin:
            continue
        events += 1
        for taker in {taker for word in attributes for taker in takers.get(word, ())}:
            expected += 1
            when = delivered[taker].get(id)
            if when is not None:
                at_last += 1
                in_time += when <= at + limit_s
    return Outcome(
        world,
        settings.algorithm,
        events,
        expected,
        in_time,
        at_last,
        simulation.facts["given up"],
        dict(simulation.bytes),
        dict(simulation.messages),
        simulation.steps,
    )
