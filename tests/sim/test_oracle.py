"""Members beside receivers of paper 003: they agree, and where one of them is wrong, it shows."""

import pytest

from unisono.engines.topic_managers.rules import blocker
from unisono.lab.fuzz import digests, fuzz, replay
from unisono.model.errors import ConfigError
from unisono.model.frames import Publication, Stamped
from unisono.sim.moving.draw_atoms import draw_atoms
from unisono.sim.moving.oracle import Oracle, Watched, WatchedMember
from unisono.sim.moving.processes import Makers
from unisono.sim.moving.trial import try_moving


def event(topic, **entries):
    return Stamped(Publication("p", 1, entries[topic], topic), 0, entries)


def two_groups(met=None):
    oracle = Oracle("r")
    oracle.admit("G", 4, {})
    oracle.admit("H", 2, {"G": 4} if met is None else met)
    return oracle


def test_numbers_count_from_where_the_member_joined():
    assert two_groups().numbers(event("G", G=5, H=3)).entries == {"G": 1, "G&H": 2}
    assert two_groups().numbers(event("H", G=4, H=3, X=9)).entries == {"H": 1, "G&H": 1}


def test_what_is_next_by_the_group_and_by_its_atoms_goes_at_once():
    oracle = two_groups()
    assert oracle.blocker(event("G", G=5, H=3)) == "G&H"
    assert oracle.blocker(event("G", G=6, H=2)) == "G"
    assert oracle.deliver(event("H", G=4, H=3)) is None
    assert oracle.deliver(event("G", G=5, H=3)) is None
    assert oracle.deliver(event("H", G=5, H=5)) == "H", "a hole"


def test_numbers_that_nobody_will_see_count_for_nothing():
    oracle = two_groups()
    assert oracle.blocker(event("G", G=6, H=3)) == "G"
    oracle.lose("G", [5])
    assert oracle.blocker(event("G", G=6, H=3)) == "G&H"
    oracle.lose("H", [3])
    assert oracle.blocker(event("G", G=6, H=3)) is None


def test_what_was_numbered_before_the_join_is_no_part_of_the_atom_and_comes_first():
    oracle = two_groups(met={"G": 6})
    assert oracle.numbers(event("G", G=5, H=1)).entries == {"G": 1}
    assert oracle.blocker(event("H", G=6, H=3)) == "G&H", "the atom begins behind the sixth of G"
    assert oracle.deliver(event("G", G=5, H=1)) is None
    assert oracle.deliver(event("G", G=6, H=2)) is None
    assert oracle.deliver(event("H", G=6, H=3)) is None


def test_worlds_whose_work_is_spread_keep_every_promise_and_agree_with_the_paper():
    result = fuzz(20, engine="sequencing_atoms")
    assert result.is_good, result.explanation
    assert result.worlds["work is spread"] == 20
    assert result.worlds["components on several nodes"] > 10
    assert result.worlds["takeovers"] > 5
    assert result.worlds["churn during publication"] > 10


def test_a_seed_is_one_world():
    assert digests(range(2), "sequencing_atoms") == digests(range(2), "sequencing_atoms")
    assert replay(1, "sequencing_atoms") != replay(1)
    with pytest.raises(ConfigError, match="topic_managers, sequencing_atoms"):
        replay(1, "quarks")


def watched(kind):
    class Odd(WatchedMember):
        def __init__(self, name, settings, **more):
            super().__init__(name, settings, **more)
            self.inner = kind(name, settings)

    return Makers(member=Odd)


class DeliversAtAHole(Watched):
    """Goes on when something of another topic is missing."""

    def blocker(self, event):
        found = super().blocker(event)
        return None if found in event.entries and found != event.topic else found


class WaitsForOthers(Watched):
    """Waits for topics it does not hold."""

    def blocker(self, event):
        others = dict.fromkeys(event.entries, 0) | self.reached
        return super().blocker(event) or blocker(event.entries, event.topic, others)

    def _is_next(self, event):
        return False


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        (DeliversAtAHole, "is delivered, and 003 would wait"),
        (WaitsForOthers, "is held, and 003 would deliver"),
    ],
)
def test_the_oracle_sees_who_is_wrong(kind, says):
    tried = (try_moving(draw_atoms(seed), watched(kind)) for seed in range(40))
    assert any(says in problem for trial in tried for problem in trial.violations)
