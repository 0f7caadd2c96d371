"""Dispatchers keep one tree among themselves: it forms, heals, and never has a loop for long."""

from __future__ import annotations

from random import Random

import msgspec
import pytest

from unisono.engines.epidemic.settings import TreeSettings
from unisono.engines.epidemic.tree import Attach, Beat, BeatHeard, Detach, Meet, SendBeat, TreeKeeper
from unisono.engines.inputs import TICK
from unisono.model.errors import ConfigError
from unisono.sim.kernel import Kernel

HEAL_S = 3.0


class Grove:
    """Keepers that beat over a network that loses."""

    def __init__(
        self, count: int, seed: int, loss: float = 0.1, known: int | None = None, **settings: object
    ) -> None:
        self.random = Random(f"{seed} grove")
        self.loss = loss
        self.kernel: Kernel = Kernel()
        self.settings = TreeSettings(**settings)
        self.names = [f"d{i:02}" for i in range(count)]
        self.known = known
        self.keepers: dict[str, TreeKeeper] = {}
        self.links: dict[str, set[str]] = {}
        self.lives: dict[str, int] = {}
        for name in self.names:
            self.begin(name)

    def begin(self, name: str) -> None:
        life = self.lives[name] = self.lives.get(name, 0) + 1
        others = [other for other in self.names if other != name]
        if self.known is not None:
            others = self.random.sample(others, min(self.known, len(others)))
        self.keepers[name] = TreeKeeper(name, life, Random(f"{name} {life}"), others, self.settings)
        self.links[name] = set()
        self.give(name, TICK)

    def kill(self, name: str) -> None:
        del self.keepers[name], self.links[name]

    def give(self, name: str, input: object) -> None:
        keeper = self.keepers.get(name)
        if keeper is None:
            return
        for effect in keeper.handle(input, self.kernel.now):
            match effect:
                case SendBeat(to, beat):
                    if self.random.random() >= self.loss:
                        at = self.kernel.now + self.random.uniform(0.001, 0.02)
                        self.kernel.schedule(at, (to, BeatHeard(name, beat)))
                case Attach(other):
                    self.links[name].add(other)
                case Detach(other):
                    self.links[name].discard(other)
        keeper.check()
        assert self.links[name] == keeper.neighbours
        if input is TICK:
            self.kernel.schedule(keeper.next_timer(), (name, TICK))

    def run(self, seconds: float) -> None:
        self.kernel.run(lambda what: self.give(*what), until=self.kernel.now + seconds)

    def is_one_tree(self) -> bool:
        edges = {frozenset((a, b)) for a, others in self.links.items() for b in others}
        is_mutual = all(
            b in self.links and a in self.links[b] for a, others in self.links.items() for b in others
        )
        seen, todo = set(), [min(self.keepers)]
        while todo:
            node = todo.pop()
            if node not in seen:
                seen.add(node)
                todo += self.links.get(node, ())
        return is_mutual and len(edges) == len(self.keepers) - 1 and seen == set(self.keepers)

    def healed_after(self, limit: float) -> float:
        """How long until there is one tree, and it stays."""
        began, since = self.kernel.now, None
        while self.kernel.now < began + limit + 2.0:
            self.run(0.05)
            if not self.is_one_tree():
                since = None
            elif since is None:
                since = self.kernel.now
            elif self.kernel.now > since + 1.5:
                return since - began
        return float("inf")


@pytest.mark.parametrize("seed", range(2))
def test_one_tree_forms_and_stays(seed):
    grove = Grove(20, seed)
    assert grove.healed_after(HEAL_S) < HEAL_S
    assert all(len(links) <= 4 for links in grove.links.values())
    before = {name: set(links) for name, links in grove.links.items()}
    grove.run(10.0)
    assert grove.links == before


@pytest.mark.parametrize("seed", range(3))
def test_it_heals_after_a_crash_of_anybody_within_three_seconds(seed):
    grove = Grove(20, seed)
    grove.run(4.0)
    inner = [name for name in grove.names if len(grove.links[name]) >= 3 and not grove.keepers[name].is_root]
    grove.kill(grove.random.choice(inner))
    assert grove.healed_after(HEAL_S) < HEAL_S
    root = next(name for name in grove.keepers if grove.keepers[name].is_root)
    grove.kill(root)
    assert grove.healed_after(HEAL_S) < HEAL_S
    grove.begin(root)
    assert grove.healed_after(HEAL_S) < HEAL_S


def test_dispatchers_that_know_only_a_few_others_make_one_tree_too():
    grove = Grove(30, 1, known=5)
    assert grove.healed_after(6.0) < 6.0


FEW = {"known": 0, "candidates_max": 6}  # nobody can know all of twenty


def test_all_may_join_the_same_one_though_it_cannot_know_them_all():
    grove = Grove(20, 3, **FEW)
    for name in grove.names[1:]:
        grove.give(name, Meet((grove.names[0],)))
    assert grove.healed_after(10.0) < 10.0
    grove.kill(grove.names[0])  # the root, and all that most of them knew
    assert grove.healed_after(6.0) < 6.0


def test_who_comes_late_is_heard_by_those_who_know_enough_others():
    grove = Grove(12, 1, **FEW)
    early, late = grove.names[:9], grove.names[9:]
    for name in early:
        grove.give(name, Meet(tuple(early)))
    grove.run(3.0)
    for name in late:
        grove.give(name, Meet(tuple(grove.random.sample(early, 3))))
    assert grove.healed_after(HEAL_S) < HEAL_S


def test_who_is_gone_makes_room_for_who_comes():
    keeper = TreeKeeper("d5", 1, Random(1), ["d6", "d7"], TreeSettings(candidates_max=2))
    keeper.handle(TICK, 0.0)
    stranger = Beat("d5", (1, 1), ("d9", "d5"), (), True)  # of the same tree, so it has somebody to hang on
    alive = Beat("d6", (1, 1), ("d6",), (), True)
    keeper.handle(BeatHeard("d6", alive), 1.0)
    keeper.handle(BeatHeard("d8", msgspec.structs.replace(stranger, path=("d8", "d9", "d5"))), 1.1)
    assert list(keeper.candidates) == ["d6", "d7"]
    keeper.handle(Meet(("d9",)), 1.3)  # d7 was never heard
    assert list(keeper.candidates) == ["d6", "d9"]
    keeper.check()


def test_who_hangs_on_us_is_not_forgotten_for_a_stranger():
    keeper = TreeKeeper("d5", 1, Random(1), ["d6", "d7"], TreeSettings(candidates_max=2))
    keeper.handle(TICK, 0.0)
    keeper.handle(BeatHeard("d6", Beat("d5", (1, 1), ("d6", "d5"), (), True)), 0.1)
    for n in range(10, 30):
        keeper.handle(BeatHeard(f"e{n}", Beat(f"e{n}", (1, 1), (f"e{n}",), (), True)), 0.2)
        assert "d6" in keeper.candidates
        assert f"e{n}" in keeper.candidates
        keeper.check()


def test_two_parts_that_meet_become_one():
    grove = Grove(10, 2, loss=0.0, known=0)
    left, right = grove.names[:5], grove.names[5:]
    for part in (left, right):
        for name in part:
            grove.give(name, Meet(tuple(part)))
    grove.run(4.0)
    assert {grove.keepers[name].root for name in right} == {right[0]}
    grove.give(right[3], Meet((left[2],)))
    assert grove.healed_after(HEAL_S) < HEAL_S


def test_a_root_that_is_gone_is_not_believed_again():
    keeper = TreeKeeper("d5", 1, Random(1), ["d0", "d1"])
    keeper.handle(TICK, 0.0)
    old = Beat("d0", (1, 7), ("d1", "d0"), ("d5",), True)
    keeper.handle(BeatHeard("d1", old), 0.1)
    assert (keeper.root, keeper.parent) == ("d0", "d1")
    now = 0.2
    while now < 3.0:  # d1 lives, but has nothing new of d0
        keeper.handle(TICK, now)
        keeper.handle(BeatHeard("d1", old), now + 0.01)
        now += 0.15
    assert (keeper.root, keeper.parent) == ("d5", None)
    for count, root in (
        ((1, 8), "d5"),
        ((1, 30), "d0"),
    ):  # what others had heard of it, and what it must have said
        keeper.handle(BeatHeard("d1", Beat("d0", count, ("d1", "d0"), ("d5",), True)), now)
        assert keeper.root == root


def test_who_hangs_on_us_is_never_our_parent():
    keeper = TreeKeeper("d5", 1, Random(1), ["d1"])
    keeper.handle(TICK, 0.0)
    keeper.handle(BeatHeard("d1", Beat("d0", (1, 7), ("d1", "d5", "d0"), (), True)), 0.1)
    assert keeper.parent is None


def test_beats_that_make_no_sense_change_nothing():
    keeper = TreeKeeper("d5", 1, Random(1), ["d1"], TreeSettings(candidates_max=2))
    keeper.handle(TICK, 0.0)
    before = keeper.state()
    for source, beat in [
        ("d1", Beat("d0", (1, 7), (), (), True)),
        ("d1", Beat("d0", (1, 7), ("d2", "d0"), (), True)),
        ("d1", Beat("d0", (1, 7), ("d1", "d2"), (), True)),
        ("d1", Beat("d0", (1, 7), ("d1", *"abcdefgh" * 9, "d0"), (), True)),
        ("d5", Beat("d0", (1, 7), ("d5", "d0"), (), True)),
    ]:
        assert keeper.handle(BeatHeard(source, beat), 0.0) == []
    assert keeper.state() == before
    for i in range(9):
        keeper.handle(BeatHeard(f"x{i}", Beat("x", (1, 1), (f"x{i}", "x"), (), True)), 0.1)
    assert len(keeper.candidates) == 2


def test_settings_of_the_tree_that_make_no_sense_are_refused():
    with pytest.raises(ConfigError):
        TreeSettings(beat_s=1.0)
    with pytest.raises(ConfigError):
        TreeSettings(degree_max=1)
