"""The sweep of deadline-causal order: two events of three brokers in every relation, and news in every order.

Every choice of who publishes, on which of two topics, whether the second event follows the first, and how long both
live; with what gets lost, doubled or late, and with clocks that differ. Then what a subscriber is brought.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from time import perf_counter

from msgspec.structs import replace

from unisono.lab.explore import Exploration, Progress, Sweep
from unisono.sim.explore.deadline import SETTINGS, BrokersScenario, Caused, explore_deadline
from unisono.testing.planted_bugs.deadline_table import CHAIN, FIGURE_3, WITH_RESERVE, WRONG_CLOCKS

GROUPS = (("a", "T"), ("b", "T U"), ("c", "T U"))
LIVES = (2, 5)
QUICK = 48  # of a quick sweep, every so many configurations one


def worlds() -> Iterator[tuple[str, BrokersScenario]]:
    """Two events of three brokers in overlapping groups."""
    first_ones = [(broker, topic) for broker, topics in GROUPS for topic in topics.split()]
    for (one, topic), (other, reply), follows, lives, reply_lives in product(
        first_ones, first_ones, (True, False), LIVES, LIVES
    ):
        if follows and topic not in dict(GROUPS)[other].split():
            continue  # it is never told
        events = (
            Caused("e", one, topic, lives),
            Caused("f", other, reply, reply_lives, "e" if follows else ""),
        )
        about = f"e by {one} on {topic} for {lives}; f by {other} on {reply} for {reply_lives}{' after e' * follows}"
        yield about, BrokersScenario(GROUPS, events, rounds=2)


def explore_deadlines(*, quick: bool = False, progress: Progress | None = None) -> Exploration:
    """Explore all of them, or a few."""
    sweep = Sweep(progress or (lambda what, done, of: None))
    started = perf_counter()
    chosen = list(worlds())[:: QUICK if quick else 1]
    for done, (about, world) in enumerate(chosen):
        sweep.progress("brokers", done, len(chosen))
        skewed = replace(SETTINGS, skew=1)
        for row, scenario in (
            ("any order, any delay", world),
            ("one lost", world.but(losses=1)),
            ("one twice", world.but(doubles=1, rounds=1)),
            ("a clock ahead", world.but(ahead=("b",), settings=skewed)),
        ):
            sweep.add(row, f"{row}; {about}", explore_deadline(scenario))
    for row, large in (
        ("three events of one sender, one lost", CHAIN),
        ("time kept for subscribers", WITH_RESERVE),
        ("clocks apart, short lives", WRONG_CLOCKS),
        ("news in colours (figure 3)", FIGURE_3),
    ):
        sweep.add(row, row, explore_deadline(large))
    sweep.progress("brokers", len(chosen), len(chosen))
    return sweep.result(perf_counter() - started)
