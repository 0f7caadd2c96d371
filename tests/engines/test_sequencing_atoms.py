"""Sequencing atoms: numbers, paths, and the receiver's decision."""

from __future__ import annotations

import random

import pytest

from unisono.engines.effects import Announce, Deliver, Reject, Send
from unisono.engines.inputs import TICK, Notified, Received
from unisono.engines.sequencing_atoms import (
    Atom,
    AtomGraph,
    Ingress,
    Receiver,
    atom_address,
    atoms_of,
    check_graph,
    line_of_atoms,
)
from unisono.model.errors import PlanError
from unisono.model.frames import Create, Fill, Publication, Sequenced, Stamped
from unisono.sim.explore import Explorer, Planned
from unisono.sim.explore.atoms import AtomScenario

GROUPS = {"X": frozenset("ABD"), "Y": frozenset("ABC"), "Z": frozenset("BCD")}
LINE = AtomGraph(GROUPS, {"X": ("X&Y", "Y&Z", "X&Z"), "Y": ("X&Y", "Y&Z"), "Z": ("Y&Z", "X&Z")})


def event(topic: str, **entries: int) -> Stamped:
    return Stamped(
        Publication("p", 0, entries["n"], topic),
        0,
        {k.replace("_", "&"): v for k, v in entries.items() if k != "n"},
    )


def test_an_atom_for_every_double_overlap() -> None:
    assert atoms_of(GROUPS) == {"X&Y": ("X", "Y"), "X&Z": ("X", "Z"), "Y&Z": ("Y", "Z")}
    assert atoms_of({"X": frozenset("AB"), "Y": frozenset("BC")}) == {}


def test_the_ingress_numbers_the_group_and_the_path_begins() -> None:
    publication = Publication("p", 0, 1, "X")
    ingress = Ingress("X", LINE)
    fill = Fill(publication, 0, {"X": 1}, ("X&Y", "X&Z"), ("Y&Z", "X&Z"))
    assert ingress.handle(Received("p", Create(publication)), 0) == [Send(atom_address("X&Y"), fill)]


def test_a_transit_atom_passes_messages_on_untouched() -> None:
    publication = Publication("p", 0, 1, "X")
    atom = Atom("Y&Z")
    fill = Fill(publication, 0, {"X": 1, "X&Y": 1}, ("X&Y", "X&Z"), ("X&Z",))
    passed = Fill(publication, 0, {"X": 1, "X&Y": 1}, ("X&Y", "X&Z"), ())
    assert atom.handle(Received("atom/X&Y", fill), 0) == [Send(atom_address("X&Z"), passed)]
    assert atom.number == 0


def test_the_last_atom_announces_and_tells_the_publisher() -> None:
    publication = Publication("p", 0, 1, "X")
    fill = Fill(publication, 0, {"X": 1, "X&Y": 1}, ("X&Y", "X&Z"), ())
    entries = {"X": 1, "X&Y": 1, "X&Z": 1}
    assert Atom("X&Z").handle(Received("atom/Y&Z", fill), 0) == [
        Announce(("X",), Stamped(publication, 0, entries)),
        Send("p", Sequenced("X", publication.id, 0, entries)),
    ]


def test_a_group_without_atoms_is_announced_by_its_ingress() -> None:
    graph = line_of_atoms({"X": frozenset("AB"), "Y": frozenset("BC")})
    publication = Publication("p", 0, 1, "X")
    effects = Ingress("X", graph).handle(Received("p", Create(publication)), 0)
    assert effects[0] == Announce(("X",), Stamped(publication, 0, {"X": 1}))


def test_what_makes_no_sense_is_refused() -> None:
    for engine in (Ingress("X", LINE), Atom("X&Y"), Receiver("A", LINE)):
        assert [type(effect) for effect in engine.handle(TICK, 0)] == [Reject]


def test_a_receiver_decides_at_once() -> None:
    receiver = Receiver("A", LINE)  # of X and Y: Y&Z and X&Z are not its business
    first = event("X", n=1, X=1, X_Y=1, X_Z=1)
    second = event("Y", n=2, Y=1, X_Y=2, Y_Z=5)
    assert receiver.handle(Notified(second), 0) == []
    assert receiver.blocker(second) == "X&Y"
    assert receiver.handle(Notified(first), 0) == [Deliver([first, second])]
    assert receiver.handle(Notified(first), 0) == []


def test_a_receiver_is_handed_nothing_of_other_groups() -> None:
    assert Receiver("A", LINE).handle(Notified(event("Z", n=1, Z=1)), 0) == []


def test_the_line_is_lawful_for_random_memberships() -> None:
    rng = random.Random(3)
    for _ in range(200):
        groups = {g: frozenset(rng.sample("ABCDEF", rng.randint(2, 5))) for g in "WXYZ"}
        check_graph(line_of_atoms(groups))


@pytest.mark.parametrize(
    ("paths", "law"),
    [
        ({"X": ("X&Y", "Y&Z"), "Y": ("X&Y", "Y&Z"), "Z": ("Y&Z", "X&Z")}, "C1"),
        ({"X": ("X&Y", "X&Z"), "Y": ("X&Y", "Y&Z"), "Z": ("Y&Z", "X&Z")}, "C2"),
        ({"X": ("X&Y", "Y&Z", "X&Z"), "Y": ("Y&Z", "X&Y"), "Z": ("Y&Z", "X&Z")}, "C3"),
    ],
)
def test_each_law_is_checked(paths: dict[str, tuple[str, ...]], law: str) -> None:
    with pytest.raises(PlanError, match=law):
        check_graph(AtomGraph(GROUPS, paths))


def test_random_memberships_on_the_line_keep_every_promise() -> None:
    rng = random.Random(5)
    explorer = Explorer()
    explored = 0
    while explored < 12:
        groups = {g: frozenset(rng.sample("ABCDE", rng.randint(2, 4))) for g in "XYZ"}
        if not atoms_of(groups):
            continue
        explored += 1
        events = (Planned("x", "X"), Planned("y", "Y"), Planned("z", "Z"), Planned("w", rng.choice("XYZ")))
        assert explorer.explore(AtomScenario(line_of_atoms(groups), events)).findings == ()
