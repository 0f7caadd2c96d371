"""From a seed to a world of dispatchers: a few of them, a tree, what they want and publish, and what befalls them."""

from __future__ import annotations

from random import Random
from typing import Any

from unisono.engines.epidemic.patterns import Value
from unisono.engines.epidemic.settings import Algorithm, CachePolicy, DispatcherSettings, TreeSettings
from unisono.sim.epidemic.world import Act, Crashes, EpidemicWorld, Publishes, Rewires, Subscribes
from unisono.sim.network import Conditions

POLICIES: tuple[CachePolicy, ...] = (
    "interest_first",
    "interest_first",
    "source_or_subscriber",
    "fifo",
    "random",
)
ALGORITHMS: tuple[Algorithm, ...] = (
    "combined",
    "combined",
    "combined",
    "combined",
    "combined",
    "combined",
    "push",
    "push",
    "subscriber_pull",
    "publisher_pull",
    "none",
)
CALM_S = 1.5  # before anything is published or breaks: routes are laid
QUIET_S = 4.0  # the same where a leaf has to have found its dispatcher, though messages are lost
MOVED_S = 2.5  # until a leaf that has lost its dispatcher has surely found another one


def draw_epidemic(seed: int) -> EpidemicWorld:
    """The world of a seed."""
    from unisono.sim.topologies.dispatchers import dispatcher_tree  # wants NumPy, which few commands need

    random = Random(f"{seed} epidemic")
    count = random.randint(3, 9)
    names = tuple(f"d{i}" for i in range(count))
    keeps_tree = random.random() < 0.3
    tree = dispatcher_tree(count, 4, seed)
    end = CALM_S + random.uniform(1.0, 4.0)
    patterns = _patterns(random)
    script: list[Act] = [*_subscriptions(names, patterns, end, random)]
    script += _publications(names, end, random)
    script += _harm(names, end, keeps_tree, random)
    return EpidemicWorld(
        seed,
        names,
        tuple((names[a], names[b]) for a, b in tree.links.tolist()),
        tuple(sorted(script, key=lambda act: act.at)),
        end + random.uniform(0.0, 1.0),
        _settings(random),
        _conditions(random),
        _tree(seed) if keeps_tree else None,
        leaves=_leaves(names, seed) if keeps_tree else {},
    )


def _tree(seed: int) -> TreeSettings:
    """Some dispatchers cannot know all others; chance of its own here too."""
    return TreeSettings(candidates_max=Random(f"{seed} candidates").choice((64, 6)))


def _leaves(names: tuple[str, ...], seed: int) -> dict[str, tuple[str, ...]]:
    """The last few are leaves, perhaps; chance of its own, so that the rest of the world is as it was without."""
    random = Random(f"{seed} leaves")
    count = random.choice((0, 1, 2, 3))
    inner = names[: max(2, len(names) - count)]
    return {name: tuple(random.sample(inner, random.randint(2, len(inner)))) for name in names[len(inner) :]}


def draw_quiet(seed: int) -> EpidemicWorld:
    """A world in which the dispatcher of a leaf crashes, one event is published, and nothing after it."""
    random = Random(f"{seed} quiet")
    names = tuple(f"d{i}" for i in range(random.randint(4, 9)))
    leaf, first, second = "leaf", *random.sample(names, 2)
    mine, others = random.choice((("x < 9", []), ("x < 9", ["x < 9"]), ("x < 6", ["x < 9", 'kind == "a"'])))
    script: list[Act] = [Subscribes(0.0, leaf, "u", mine)]
    script += [Subscribes(0.0, random.choice([n for n in names if n != first]), "u", text) for text in others]
    at = QUIET_S + random.uniform(0.0, 0.5)
    publisher = random.choice([name for name in names if name != first])
    script.append(Crashes(at, first, at + 60.0))
    script.append(Publishes(at + random.uniform(0.0, MOVED_S), publisher, {"x": random.randint(0, 5)}))
    return EpidemicWorld(
        seed,
        (*names, leaf),
        (),
        tuple(sorted(script, key=lambda act: act.at)),
        at + MOVED_S,
        DispatcherSettings(lost_rounds_max=100),
        Conditions(latency_s=0.001, spread_s=0.005, loss=random.choice((0.0, 0.0, 0.1))),
        TreeSettings(),
        leaves={leaf: (first, second)},
    )


def _patterns(random: Random) -> list[str]:
    """Ranges, some of them within others, and two of another kind."""
    found = [f"x < {random.randint(3, 10)}", f'kind == "{random.choice("ab")}"']
    for _ in range(random.randint(1, 4)):
        low = random.randint(0, 6)
        found.append(f"x between {low} and {low + random.randint(0, 4)}")
    return list(dict.fromkeys(found))


def _subscriptions(names: tuple[str, ...], patterns: list[str], end: float, random: Random) -> list[Act]:
    script: list[Act] = []
    for name in names:
        chosen = random.sample(patterns, random.randint(0, min(2, len(patterns))))
        script += [Subscribes(0.0, name, random.choice("uv"), pattern) for pattern in chosen]
    for _ in range(random.choice((0, 0, 2, 6))):
        at = random.uniform(CALM_S, end)
        name, client, pattern = random.choice(names), random.choice("uv"), random.choice(patterns)
        script.append(Subscribes(at, name, client, pattern))
        if random.random() < 0.6:
            script.append(Subscribes(at + random.uniform(0.0, 1.0), name, client, pattern, False))
    return script


def _publications(names: tuple[str, ...], end: float, random: Random) -> list[Act]:
    script: list[Act] = []
    publishers = random.sample(names, random.randint(1, min(4, len(names))))
    for _ in range(random.randint(5, 60)):
        attributes: dict[str, Value] = {"x": random.randint(0, 9)}
        if random.random() < 0.3:
            attributes["kind"] = random.choice("abc")
        payload = bytes([random.randrange(256)])
        script.append(Publishes(random.uniform(CALM_S, end), random.choice(publishers), attributes, payload))
    return script


def _harm(names: tuple[str, ...], end: float, keeps_tree: bool, random: Random) -> list[Act]:
    script: list[Act] = []
    for _ in range(random.choice((0, 0, 1, 2))):
        at = random.uniform(CALM_S, end)
        script.append(Crashes(at, random.choice(names), at + random.uniform(0.4, 2.0)))
    if not keeps_tree:
        script += [Rewires(random.uniform(CALM_S, end)) for _ in range(random.choice((0, 0, 1, 4)))]
    return script


def _settings(random: Random) -> DispatcherSettings:
    more: dict[str, Any] = {}
    if random.random() < 0.3:
        more["cache_events_max"] = random.randint(3, 40)
    if random.random() < 0.3:
        more |= {
            "lost_max": random.randint(2, 20),
            "streams_max": random.randint(2, 20),
            "routes_max": random.randint(1, 4),
            "trail_steps_max": random.randint(1, 8),
            "told_max": random.randint(1, 8),
            "digest_ids_max": random.randint(1, 8),
            "changes_max": random.randint(1, 3),
            "unconfirmed_max": random.randint(1, 6),
            "lost_rounds_max": random.randint(2, 20),
        }
    return DispatcherSettings(
        algorithm=random.choice(ALGORITHMS),
        adaptive=random.random() < 0.25,
        slow_down_max=4,
        immediate=random.random() < 0.25,
        covering=random.random() < 0.6,
        trails=random.random() < 0.8,
        push_every=random.choice((2, 4, 8)),
        watermarks_max=random.choice((0, 4, 16)),
        cache_policy=random.choice(POLICIES),
        **more,
    )


def _conditions(random: Random) -> Conditions:
    return Conditions(
        latency_s=random.choice((0.001, 0.005, 0.02)),
        spread_s=random.choice((0.0, 0.005, 0.05)),
        loss=random.choice((0.0, 0.05, 0.1, 0.3, 0.6)),
        duplication=random.choice((0.0, 0.0, 0.1)),
    )
