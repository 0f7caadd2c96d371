"""Paper 002, one run: a world of dispatchers with one of the algorithms, and how a single loss is mended.

Without numbers in the text, the world is a smaller reference world (docs/lab.md) whose publishers are few and busy: with
one event of a source and pattern in a minute, no pull would notice anything.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from random import Random
from statistics import fmean

from unisono.engines.epidemic.dispatcher import Dispatcher
from unisono.engines.epidemic.patterns import Index, Key, Parser
from unisono.engines.epidemic.recovery import Recovery
from unisono.engines.epidemic.settings import DispatcherSettings
from unisono.lab.experiments import Figures, Value
from unisono.lab.reproduce.experiments import GOSSIP_ALGORITHMS, USUAL
from unisono.sim.epidemic.reference import START_S, Reference, reference_settings, run_reference
from unisono.sim.epidemic.simulation import MakeDispatcher
from unisono.sim.epidemic.weighed import WORD, WeighedSimulation
from unisono.sim.epidemic.world import EpidemicWorld, Publishes, Subscribes
from unisono.sim.network import Conditions
from unisono.sim.topologies.dispatchers import dispatcher_tree

WARM_S = 2.0  # published before what is counted
TAIL_S = 5.0  # and after it, while what was lost is looked for
WITHIN_S = 1.0  # what counts as in time, whatever the gossip interval
LOSSY_S = 0.05  # a single event is published, and lost somewhere
NEVER = 10**9  # rounds

PAPERS: dict[str, object] = {"trails": False, "watermarks_max": 0, "adaptive": False, "cache_policy": "fifo"}
# The two pulls and nothing else: no push, and no word from sources that have fallen silent.
PULLS: dict[str, object] = {"algorithm": "combined", "push_every": NEVER, "silence_rounds": NEVER}
VARIANTS: dict[str, dict[str, object]] = {
    "none": PAPERS | {"algorithm": "none"},
    "push": PAPERS | {"algorithm": "push"},
    "local push": PAPERS | {"algorithm": "push"},
    "adaptive push": PAPERS | {"algorithm": "push", "adaptive": True},
    "subscriber pull": PAPERS | {"algorithm": "subscriber_pull"},
    "publisher pull": PAPERS | {"algorithm": "publisher_pull"},
    "both pulls": PAPERS | PULLS,
    "immediate pulls": PAPERS | PULLS | {"immediate": True},
    "ours": {},
}
assert tuple(VARIANTS) == GOSSIP_ALGORITHMS


class _LocalRecovery(Recovery):
    """Pushes only what somebody here subscribes to: what the paper decides against."""

    def pushed(self) -> Collection[Key]:
        return self.table.local


def _local(
    name: str, life: int, random: Random, parse: Parser, settings: DispatcherSettings, index: Index
) -> Dispatcher:
    made = Dispatcher(name, life, random, parse, settings, index)
    made.recovery = _LocalRecovery(
        name, settings, random, made.table, made.cache, made.known, made.streams, made.routes
    )
    return made


def _settings(algorithm: str, **more: object) -> DispatcherSettings:
    return reference_settings(**VARIANTS[algorithm] | more)


def _maker(algorithm: str) -> MakeDispatcher:
    return _local if algorithm == "local push" else Dispatcher


def run(parameters: Mapping[str, Value], seed: int) -> Figures:
    """Steady load for a while: how much arrives, what finding it costs, who bears it."""
    algorithm, policy = str(parameters["algorithm"]), str(parameters["policy"])
    words, rewire_s = int(parameters["words"]), float(parameters["rewire_s"])
    settings = _settings(
        algorithm,
        gossip_s=float(parameters["gossip_s"]),
        forward_probability=float(parameters["forward"]),
        fanout=int(parameters["fanout"]),
        cache_events_max=int(parameters["cache"]),
        **({} if policy == USUAL else {"cache_policy": policy}),
    )
    world = Reference(
        dispatchers=int(parameters["dispatchers"]),
        publishers=int(parameters["publishers"]),
        rate_s=float(parameters["rate_s"]),
        patterns=int(parameters["patterns"]),
        subscribers_each=int(parameters["subscribers"]),
        words=words,
        words_least=words,
        loss=float(parameters["loss"]),
        lossy_share=float(parameters["lossy_share"]),
        rewire_s=rewire_s or None,
        warm_s=WARM_S,
        seconds=float(parameters["duration_s"]),
        tail_s=TAIL_S,
        in_rounds=max(1, round(WITHIN_S / settings.gossip_s)),
        seed=seed + 1,
    )
    outcome = run_reference(world, settings, _maker(algorithm))
    asked, answered = outcome.asked, outcome.answered
    return {
        "delivery": outcome.delivery_at_last,
        "in_time": outcome.delivery,
        "recovery": outcome.recovery,
        "recovered_s": outcome.recovered_s,
        "overhead": outcome.overhead,
        "repairs": outcome.repairs,
        "gossip_each_s": outcome.gossip_each_s,
        "gossip_busiest": outcome.gossip_busiest,
        "gossip_per_repair": outcome.gossip_each_s
        * world.dispatchers
        * world.seconds
        / max(1, outcome.recovered),
        "repairs_of_one": outcome.repairs_of_one,
        "repairs_by_source": outcome.repairs_by_source,
        "lost_of_one": outcome.lost / max(1, outcome.unlucky_events),
        "hits_subscribers": answered[0] / max(1, asked[0]),
        "hits_others": answered[1] / max(1, asked[1]),
        "answers_others": answered[1] / max(1, sum(answered)),
    }


def run_convergence(parameters: Mapping[str, Value], seed: int) -> Figures:
    """One event is lost on some links of the tree, the next one on none: rounds until those who missed it have it."""
    count, algorithm = int(parameters["dispatchers"]), str(parameters["algorithm"])
    settings = _settings(algorithm, gossip_s=float(parameters["gossip_s"]))
    names = tuple(f"d{i}" for i in range(count))
    tree = dispatcher_tree(count, 4, seed + 1)
    source = names[seed % count]
    lost_at = START_S + (1 + seed % 7) * settings.gossip_s / 7
    calm_at = lost_at + LOSSY_S
    world = EpidemicWorld(
        seed,
        names,
        tuple((names[a], names[b]) for a, b in tree.links.tolist()),
        (
            *(Subscribes(0.0, name, "c", f"{WORD}w") for name in names),
            *(Publishes(at, source, {"w": 1}) for at in (START_S - 1, lost_at, calm_at + 0.001)),
        ),
        heal_at=float("inf"),
        settings=settings,
        conditions=Conditions(0.001, 0.001, 0.0),
    )
    simulation = WeighedSimulation(world, _maker(algorithm))
    simulation.start()
    simulation.kernel.run(simulation.occur, until=lost_at)
    simulation.network.change(Conditions(0.001, 0.001, float(parameters["loss"])))
    simulation.kernel.run(simulation.occur, until=calm_at)
    simulation.network.heal()
    simulation.kernel.run(simulation.occur, until=calm_at + settings.lost_s_max)
    lost_id = next(id for id in simulation.witness.published if id.n == 2)
    times = [heard.get(lost_id) for heard in simulation.witness.delivered.values()]
    late = [at for at in times if at is None or at > calm_at]
    rounds = [(settings.lost_s_max if at is None else at - calm_at) / settings.gossip_s for at in late]
    return {
        "had": 1 - len(late) / count,
        "missed": float(len(late)),
        "rounds": fmean(rounds) if rounds else 0.0,
        "rounds_sum": sum(rounds),
        "rounds_last": max(rounds, default=0.0),
        "never": float(sum(at is None for at in late)),
    }
