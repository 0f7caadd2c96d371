"""Leaves and those they hang on, without a network."""

from __future__ import annotations

from unisono.engines.epidemic.leaves import (
    Full,
    Here,
    LeafHost,
    LeafKeeper,
    LeafSettings,
    SendLeaf,
    Taken,
)
from unisono.engines.epidemic.tree import Attach, Detach
from unisono.engines.inputs import TICK

FEW = LeafSettings(leaves_max=2)


def test_a_leaf_hangs_on_the_first_that_takes_it_and_stays() -> None:
    leaf = LeafKeeper(["a", "b"])
    assert leaf.handle(TICK, 0.0) == [SendLeaf("a", Here())]
    assert leaf.hear("a", Taken(("c",)), 0.1) == [Attach("a")]
    assert leaf.hear("a", Taken(), 0.2) == []
    assert leaf.handle(TICK, 0.25) == [SendLeaf("a", Here())]
    assert leaf.candidates == ["a", "c", "b"]
    leaf.check()


def test_who_was_told_of_last_comes_next() -> None:
    leaf = LeafKeeper(["a", "b"], LeafSettings(candidates_max=4))
    leaf.handle(TICK, 0.0)
    leaf.hear("a", Taken(("c", "d")), 0.1)
    leaf.hear("a", Taken(("e", "c")), 0.3)  # d is told of no more
    assert leaf.candidates == ["a", "e", "c", "d"]
    assert leaf.handle(TICK, 1.9) == [Detach("a"), SendLeaf("e", Here())]
    leaf.check()


def test_when_its_host_is_silent_it_moves_on_and_comes_round() -> None:
    leaf = LeafKeeper(["a", "b"])
    leaf.handle(TICK, 0.0)
    leaf.hear("a", Taken(), 0.1)
    leaf.overhear("b", 1.0)
    for n in range(1, 8):
        assert leaf.handle(TICK, 0.2 * n) == [SendLeaf("a", Here())]
    assert leaf.handle(TICK, 1.7) == [Detach("a"), SendLeaf("b", Here())]
    assert leaf.hear("a", Taken(), 1.75) == []  # too late
    assert leaf.handle(TICK, 3.3) == [SendLeaf("a", Here())]
    assert leaf.hear("a", Taken(), 3.4) == [Attach("a")]
    leaf.overhear("a", 4.0)
    assert leaf.handle(TICK, 5.4) == [SendLeaf("a", Here())]


def test_who_is_full_says_so_and_names_others() -> None:
    host = LeafHost(FEW)
    assert host.hear("x", ["p"], 0.0) == [Attach("x"), SendLeaf("x", Taken(("p",)))]
    assert host.hear("x", [], 0.1) == [SendLeaf("x", Taken())]
    host.hear("y", [], 0.2)
    assert host.hear("z", ["p"], 0.3) == [SendLeaf("z", Full(("p",)))]
    host.check()
    leaf = LeafKeeper(["a"])
    leaf.handle(TICK, 0.0)
    assert leaf.hear("a", Full(("p", "q")), 0.1) == [SendLeaf("p", Here())]
    assert leaf.hear("p", Full(("a", "q")), 0.2) == [SendLeaf("q", Here())]
    assert leaf.hear("q", Full(("a", "p")), 0.21) == []  # all were asked: now one with every beat
    assert leaf.handle(TICK, 0.3) == [SendLeaf("a", Here())]
    assert leaf.hear("a", Full(), 0.31) == []
    assert leaf.handle(TICK, 0.5) == [SendLeaf("p", Here())]
    assert leaf.hear("p", Taken(), 0.51) == [Attach("p")]


def test_a_host_forgets_leaves_that_are_silent() -> None:
    host = LeafHost(FEW)
    assert host.next_timer() is None
    host.hear("x", [], 0.0)
    host.hear("y", [], 0.5)
    assert host.next_timer() == 1.5
    assert host.handle(TICK, 1.5) == [Detach("x")]
    assert host.handle(TICK, 1.9) == []
    host.hear("y", [], 1.9)
    assert host.handle(TICK, 2.1) == []
    assert host.handle(TICK, 3.4) == [Detach("y")]


def test_nobody_to_hang_on_is_no_error() -> None:
    leaf = LeafKeeper([])
    assert leaf.handle(TICK, 0.0) == []
    assert leaf.handle(TICK, 5.0) == []
    assert leaf.hear("a", Taken(), 5.1) == []
