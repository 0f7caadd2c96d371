"""The reference world: a hundred dispatchers under steady load, and how much of what is published arrives in time.

Patterns are single words and events a few of them, as in the evaluations of the paper's authors. What a message weighs
is its encoded size; digests and requests are weighed apart from the events on the tree and from repairs past it.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from statistics import fmean

import msgspec

from unisono.engines.epidemic.dispatcher import Dispatcher
from unisono.engines.epidemic.messages import GOSSIP, Event, Repair
from unisono.engines.epidemic.patterns import Value
from unisono.engines.epidemic.settings import DispatcherSettings
from unisono.sim.epidemic.simulation import MakeDispatcher
from unisono.sim.epidemic.weighed import WORD, WeighedSimulation
from unisono.sim.epidemic.world import Act, EpidemicWorld, Publishes, Rewires, Subscribes
from unisono.sim.network import Conditions
from unisono.sim.topologies.dispatchers import dispatcher_tree

START_S = 3.0  # routes are laid, nothing is published yet
SPELL_S = 1.0  # how long links lose and do not lose, together, where they do not always


class Reference(msgspec.Struct, frozen=True):
    """What the world is like; the rate is of each publisher, so it is 50 events/s in all."""

    dispatchers: int = 100
    degree_max: int = 4
    patterns: int = 70
    patterns_each: int = 2  # that a dispatcher subscribes to
    subscribers_each: int = 0  # instead: dispatchers that subscribe to a pattern
    publishers: int = 0  # the first so many dispatchers; 0: all
    words: int = 3  # patterns that an event matches, at most
    words_least: int = 1
    rate_s: float = 0.5
    loss: float = 0.1
    lossy_share: float = 1.0  # of the time; links then lose as much more
    latency_s: float = 0.001
    spread_s: float = 0.001
    payload_bytes: int = 256
    warm_s: float = 3.0  # published before it is counted
    seconds: float = 20.0
    tail_s: float = 0.0  # published after what is counted; 0: nothing, and it is waited until all is given up
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
    recovered: int  # of those, past the tree
    recovered_s: float  # how long after publication, on average
    unlucky_events: int  # that the tree lost for somebody
    given_up: int
    bytes: dict[str, int]  # by kind of message
    messages: dict[str, int]
    gossip_each_s: float  # digests and requests that a dispatcher sends in a second
    gossip_busiest: float  # how many times as many the busiest one sends
    repairs_of_one: (
        float  # copies of an event that one dispatcher sends past the tree, at most; the mean over events
    )
    repairs_by_source: float  # share of repairs that publishers send
    asked: tuple[int, int]  # numbers that subscriber pulls asked of subscribers to the pattern, and of others
    answered: tuple[int, int]
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
    def recovery(self) -> float:
        """The share of what the tree had lost that was there when the world ended."""
        return self.recovered / self.lost if self.lost else 1.0

    @property
    def lost(self) -> int:
        """Deliveries that the tree did not make."""
        return self.expected - self.at_last + self.recovered

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
    simulation = WeighedSimulation(_draw(world, settings), make)
    simulation.start()
    begin = START_S + world.warm_s
    end = begin + world.seconds
    last = end + (world.tail_s or 2 * settings.lost_s_max)
    for until, loss in _spells(world, begin, end, last):
        simulation.network.change(Conditions(world.latency_s, world.spread_s, loss))
        simulation.weigh(begin <= simulation.kernel.now < end)
        simulation.kernel.run(simulation.occur, until=until)
    if simulation.faults or simulation.witness.broken:
        raise AssertionError([*simulation.faults, *simulation.witness.broken][:3])
    return _outcome(world, settings, simulation, begin, end)


def _spells(world: Reference, begin: float, end: float, last: float) -> Iterator[tuple[float, float]]:
    """Until when links lose how much."""
    if world.lossy_share >= 1:
        yield from ((at, world.loss) for at in (begin, end, last))
        return
    at, lossy_s = 0.0, SPELL_S * world.lossy_share
    edges = {begin, end, last}
    while at < last:
        edges |= {at + lossy_s, at + SPELL_S}
        at += SPELL_S
    now = 0.0
    for until in sorted(edge for edge in edges if edge <= last):
        is_lossy = (now + 1e-9) % SPELL_S < lossy_s - 1e-6
        yield until, world.loss / world.lossy_share if is_lossy else 0.0
        now = until


def reference_settings(**more: object) -> DispatcherSettings:
    """The defaults; no pattern of this world covers another, so that is not looked for."""
    return DispatcherSettings(**({"covering": False} | more))  # type: ignore[arg-type]


def _draw(world: Reference, settings: DispatcherSettings) -> EpidemicWorld:
    random = Random(f"{world.seed} reference")
    names = tuple(f"d{i}" for i in range(world.dispatchers))
    words = [f"w{i}" for i in range(world.patterns)]
    tree = dispatcher_tree(world.dispatchers, world.degree_max, world.seed)
    script: list[Act] = [
        Subscribes(0.0, name, "c", WORD + word) for name, word in _wishes(world, names, words, random)
    ]
    begin, end = START_S, START_S + world.warm_s + world.seconds + world.tail_s
    payload = bytes(random.randrange(256) for _ in range(world.payload_bytes))
    for name in names[: world.publishers or None]:
        at = begin + random.expovariate(world.rate_s)
        while at < end:
            count = random.randint(world.words_least, world.words)
            attributes: dict[str, Value] = dict.fromkeys(random.sample(words, count), 1)
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


def _wishes(
    world: Reference, names: tuple[str, ...], words: list[str], random: Random
) -> Iterator[tuple[str, str]]:
    if world.subscribers_each:
        for word in words:
            yield from ((name, word) for name in random.sample(names, world.subscribers_each))
    else:
        for name in names:
            yield from ((name, word) for word in random.sample(words, world.patterns_each))


def _outcome(
    world: Reference, settings: DispatcherSettings, simulation: WeighedSimulation, begin: float, end: float
) -> Outcome:
    """Every event published in the time that counts is owed to everybody who subscribes to one of its words."""
    witness = simulation.witness
    takers: dict[str, list[str]] = {}
    for client, wishes in witness.wishes.items():
        for text in wishes:
            takers.setdefault(text.removeprefix(WORD), []).append(client.dispatcher)
    delivered = {client.dispatcher: times for client, times in witness.delivered.items()}
    limit_s = world.in_rounds * settings.gossip_s
    expected = in_time = at_last = events = unlucky = 0
    waits: list[float] = []
    for id, (at, attributes, _) in witness.published.items():
        if not begin <= at < end:
            continue
        events += 1
        is_unlucky = False
        for taker in dict.fromkeys(taker for word in attributes for taker in takers.get(word, ())):
            expected += 1
            when = delivered.get(taker, {}).get(id)
            is_recovered = (taker, id) in simulation.recovered
            if when is not None:
                at_last += 1
                in_time += when <= at + limit_s
                if is_recovered:
                    waits.append(when - at)
            is_unlucky |= is_recovered or when is None
        unlucky += is_unlucky
    repairs = simulation.repairs
    sent = sum(simulation.gossip.values())
    busiest = max(simulation.gossip.values(), default=0)
    return Outcome(
        world,
        settings.algorithm,
        events,
        expected,
        in_time,
        at_last,
        len(waits),
        fmean(waits) if waits else 0.0,
        unlucky,
        simulation.facts["given up"],
        dict(simulation.bytes),
        dict(simulation.messages),
        sent / world.dispatchers / world.seconds,
        busiest * world.dispatchers / sent if sent else 0.0,
        fmean(max(by.values()) for by in repairs.values()) if repairs else 0.0,
        sum(by[id.publisher] for id, by in repairs.items())
        / max(1, sum(by.total() for by in repairs.values())),
        (simulation.asked[True], simulation.asked[False]),
        (simulation.answered[True], simulation.answered[False]),
        simulation.steps,
    )
