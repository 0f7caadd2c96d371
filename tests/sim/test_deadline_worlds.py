"""Simulated worlds of deadline-causal order: every promise is kept, and broken rules show."""

from __future__ import annotations

from functools import partial

import msgspec
import pytest

from unisono.engines.deadline_causal.broker import Broker
from unisono.engines.deadline_causal.holdback import OVERTAKEN, TOO_LATE
from unisono.engines.deadline_causal.settings import CausalSettings
from unisono.lab.deadline_overhead import weigh
from unisono.lab.fuzz import fuzz, replay
from unisono.lab.shrink import shrink
from unisono.model.errors import ConfigError
from unisono.sim.deadline.draw import draw_deadline
from unisono.sim.deadline.judging import ACCOUNT, CAUSES, DEADLINE, DROPS, ONCE, judge_story
from unisono.sim.deadline.simulation import DeadlineSimulation, Makers
from unisono.sim.deadline.story import Diary, Line, Story
from unisono.sim.deadline.trial import try_deadline, try_deadline_seed
from unisono.sim.deadline.world import BrokerSpec, DeadlineWorld, Say, SubscriberSpec
from unisono.sim.network import Conditions

SETTINGS = CausalSettings(round_s=0.0625, lifetime=16, skew=0, reserve=1)


def test_worlds_whose_network_reaches_everybody_at_once_keep_every_promise():
    makers = Makers(broker=partial(Broker, multicast=True))
    trials = [try_deadline(draw_deadline(seed), makers) for seed in range(50_000, 50_012)]
    assert [trial.seed for trial in trials if trial.violations or trial.stuck] == []


def test_worlds_in_which_all_is_told_now_and_then_only_keep_every_promise():
    makers = Makers(broker=partial(Broker, multicast=True))
    for seed in range(60_000, 60_012):
        world = draw_deadline(seed)
        settings = msgspec.structs.replace(world.settings, sweep=2 + seed % 3)
        trial = try_deadline(msgspec.structs.replace(world, settings=settings), makers)
        assert trial.violations == (), seed


def test_brokers_without_contacts_find_each_other_where_one_multicast_reaches_all():
    world = DeadlineWorld(
        1,
        SETTINGS,
        (BrokerSpec("b1", ("t",)), BrokerSpec("b2", ("t",))),
        (),
        (Say(0.01, "b1", "t", 0.9),),
    )
    simulation = DeadlineSimulation(world, Makers(broker=Strangers))
    story = simulation.run().story
    assert [line.kind for line in story.diaries["b2"].lines] == ["arrived", "delivered"]


class Strangers(Broker):
    """A broker that is told of nobody."""

    def __init__(self, name, settings, topics=(), contacts=None, zone=""):
        super().__init__(name, settings, topics, {}, zone, multicast=True)


def test_a_few_worlds_keep_every_promise():
    result = fuzz(16, engine="deadline_causal")
    assert result.is_good, result.explanation
    assert result.worlds.keys() >= {
        "loss",
        "crashes",
        "sleepers",
        "clock skew",
        "subscribers that move",
        "calm",
    }


@pytest.mark.parametrize(
    ("seed", "what"),
    [
        (2075, "a subscriber less patient than events, on a topic that it took later"),
        (351, "a reply so late that it was still held when the world ended"),
        (4502, "a drop for the sake of what only a broker had seen, through a publisher that moved"),
        (8601, "an event that was here, overtaken by an effect that had to go for its own effect"),
    ],
)
def test_what_ten_thousand_worlds_have_found(seed, what):
    assert try_deadline_seed(seed).violations == (), what


def test_a_seed_tells_every_step_and_goes_the_same_way_again():
    lines = replay(3, "deadline_causal")
    assert lines == replay(3, "deadline_causal")
    assert any("deliver" in line for line in lines)
    assert try_deadline_seed(3, traces=True).digest == try_deadline_seed(3, traces=True).digest


def test_worlds_that_cannot_be_shrunk_are_refused():
    with pytest.raises(ConfigError, match="cannot be shrunk"):
        shrink(1, engine="deadline_causal")


def test_one_late_event_does_not_make_its_effects_late():
    """Two brokers far apart: what the third has to do with neither of them is in time."""
    world = DeadlineWorld(
        0,
        SETTINGS,
        (BrokerSpec("a", ("T",)), BrokerSpec("b", ("T",)), BrokerSpec("c", ("T",), "far")),
        (SubscriberSpec("s", "c", ("T",)),),
        tuple(Say(0.1 * i, "ab"[i % 2], "T", 0.5) for i in range(1, 15)),
        far=Conditions(latency_s=0.01, spread_s=1.0),
        near=Conditions(latency_s=0.01),
    )
    ended = DeadlineSimulation(world).run()
    assert list(judge_story(ended.story)) == []
    lines = ended.story.diaries["s"].lines
    assert sum(line.kind == "delivered" for line in lines) > 5


def _story() -> Story:
    """e, then its effect f."""
    story = Story()
    story.diaries = {name: Diary(name, 0) for name in ("p", "b", "s")}
    for id in ("e", "f"):
        story.published("p", id, "T", 0.0, 10.0)
        story.stamped("b", id, 9)
    return story


def test_judges_see_what_is_wrong():
    def found(*lines: Line) -> set[str]:
        story = _story()
        story.diaries["s"].lines += lines
        return {promise for promise, _ in judge_story(story)}

    def delivered(id: str, at: float = 1.0) -> Line:
        return Line("delivered", id, at, int(at))

    assert found(delivered("e"), delivered("f")) == set()
    assert found(delivered("f"), delivered("e")) == {CAUSES}
    assert found(delivered("e", 11.0)) == {DEADLINE}
    assert found(delivered("e"), delivered("e")) == {ONCE}
    assert found(Line("arrived", "e", 1.0, 1)) == {ACCOUNT}
    assert found(Line("discarded", "e", 5.0, 5, TOO_LATE)) == {DROPS}
    assert found(Line("discarded", "e", 10.0, 10, TOO_LATE)) == set()
    assert found(delivered("f", 9.0), Line("discarded", "e", 9.0, 9, OVERTAKEN)) == set()
    assert found(delivered("f", 8.0), Line("discarded", "e", 9.0, 9, OVERTAKEN)) == {DROPS}
    assert found(Line("discarded", "e", 9.0, 9, OVERTAKEN)) == {DROPS}
    assert found(Line("discarded", "e", 9.0, 9, "no idea")) == {DROPS}


def test_the_bound_on_clocks_is_needed():
    """Clocks further apart than anybody was told: events are refused, or come too late."""
    broken = 0
    for seed in range(30):
        world = draw_deadline(seed)
        if world.settings.skew == 2:
            lied = msgspec.structs.replace(world, settings=msgspec.structs.replace(world.settings, skew=0))
            broken += not try_deadline(lied).is_good
    assert broken > 1


def test_a_broker_that_forgets_what_it_sent_is_caught(monkeypatch):
    def stamp(self, publication, last, context):
        event = whole(self, publication, last, context)
        return msgspec.structs.replace(event, past={})

    whole = Broker.stamp
    monkeypatch.setattr(Broker, "stamp", stamp)
    assert any(not try_deadline(draw_deadline(seed)).is_good for seed in range(10))


def test_what_travels_of_the_matrix_is_a_small_part_of_it():
    overhead = weigh(4, 1, 30, seconds=3.0)
    assert overhead.sent_bytes < 0.6 * overhead.past_bytes < overhead.matrix_bytes
    assert overhead.news_bytes_per_broker <= 8
