"""One seed of deadline-causal order, from its world to what is wrong with it."""

from __future__ import annotations

from collections.abc import Iterator

from unisono.sim.deadline.draw import draw_deadline
from unisono.sim.deadline.judging import ARRIVES, judge_story
from unisono.sim.deadline.simulation import AS_THEY_ARE, DeadlineSimulation, Ended, Makers
from unisono.sim.deadline.world import DeadlineWorld
from unisono.sim.trial import Trial

SETTLED_ROUNDS = 12  # after which everybody has found everybody
PATIENT_ROUNDS = 6  # an event that is of use for so long after it was sent reaches everybody in a calm world


def try_deadline_seed(seed: int, *, traces: bool = False) -> Trial:
    """Draw the world of a seed, run it and judge it."""
    return try_deadline(draw_deadline(seed), traces=traces)


def replay_deadline(seed: int) -> list[str]:
    """Every step of a seed's world, one readable line each."""
    return DeadlineSimulation(draw_deadline(seed), traces=True).run().lines


def try_deadline(
    world: DeadlineWorld, makers: Makers = AS_THEY_ARE, *, traces: bool = False, checks: bool = True
) -> Trial:
    """Run a world and judge it."""
    ended = DeadlineSimulation(world, makers, traces=traces, checks=checks).run()
    violations = [*ended.faults, *(f"{promise}: {how}" for promise, how in judge_story(ended.story))]
    stuck = [f"{ARRIVES}: {how}" for how in _lost(world, ended)]
    return Trial(
        world.seed,
        tuple(violations),
        tuple(stuck),
        ended.steps,
        ended.digest if traces else "",
        tuple(world.traits()),
    )


def _lost(world: DeadlineWorld, ended: Ended) -> Iterator[str]:
    """What a calm world lost, though there was time for it; whether drops are just is judged elsewhere."""
    if not world.is_calm:
        return
    settings = world.settings
    patience_s = (PATIENT_ROUNDS + settings.reserve + 2 * settings.skew) * settings.round_s
    diaries = ended.story.diaries
    dropped = {
        line.id for broker in world.brokers for line in diaries[broker.name].lines if line.kind == "discarded"
    }
    for spec in world.subscribers:
        handed = dropped | {line.id for line in diaries[spec.name].lines if line.kind != "arrived"}
        for event in ended.story.events.values():
            is_patient = event.last is not None and event.deadline_at - event.published_at > patience_s
            is_settled = event.published_at > SETTLED_ROUNDS * settings.round_s
            if event.topic in spec.topics and is_patient and is_settled and event.id not in handed:
                yield f"{spec.name} was never handed {event.id}"
