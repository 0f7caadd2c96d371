"""The sweep of atoms: which worlds there are, that all is well in some of them, and that it would show if not."""

import pytest

from unisono.engines.sequencing_atoms import Receiver
from unisono.lab import explore_atoms as sweep
from unisono.sim.moving.oracle import WatchedSubscriber


def test_memberships_that_differ_in_names_only_are_one():
    found = list(sweep.memberships())
    assert len(found) == 611
    assert len({min(sweep._renamed(*one)) for one in found}) == 611
    everybody = (("G", "H", "K"),) * 4
    assert [events for held, events in found if held == everybody] == [
        ("G", "G", "G"),
        ("G", "G", "H"),
        ("G", "H", "K"),
    ]


def test_a_sample_of_all_memberships_keeps_every_promise():
    result = sweep.explore_atoms(quick=True)
    assert result.held, result.first
    assert result.configurations == 4 * 26 + 2
    assert {row.cut for row in result.rows} == {0}


class DeliversAtAHole(WatchedSubscriber):
    def blocker(self, event):
        found = super().blocker(event)
        return None if found != event.topic else found


class IgnoresAtoms(Receiver):
    def blocker(self, message):
        found = super().blocker(message)
        return found if found == message.topic else None


@pytest.mark.parametrize(
    ("name", "weak", "promise"),
    [
        ("WatchedSubscriber", DeliversAtAHole, "invariants"),
        ("AtomScenario", None, "total_notification_order"),
    ],
)
def test_who_delivers_at_a_hole_is_found(monkeypatch, name, weak, promise):
    def scenario(graph, events, make=sweep.AtomScenario):
        return make(graph, events, make_receiver=IgnoresAtoms, invariants=False)

    monkeypatch.setattr(sweep, name, weak or scenario)
    everything = (("G", "H", "K"),) * 4
    monkeypatch.setattr(sweep, "memberships", lambda: iter([(everything, ("G", "H", "K"))]))
    result = sweep.explore_atoms(quick=True)
    assert result.first.promise == promise
