"""Subscribers that ask each other before an event is declared lost."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from unisono.engines.effects import Announce, Deliver, Effect, Lose
from unisono.engines.inputs import TICK, Notified, Received
from unisono.engines.topic_managers.peers import Peers, PeerSettings
from unisono.engines.topic_managers.settings import SubscriberSettings
from unisono.engines.topic_managers.subscriber import Subscriber
from unisono.history import Kind
from unisono.model.frames import PeerAsk, PeerTell, Publication, Repair, Stamped
from unisono.sim import cluster
from unisono.sim.moving.draw import draw_moving
from unisono.sim.moving.trial import try_moving
from unisono.sim.simulation import Simulation
from unisono.sim.trial import try_world
from unisono.sim.world import World, draw_world

WAIT = SubscriberSettings("wait", repair=True)


def event(number: int, topic: str = "t", body: bytes = b"") -> Stamped:
    return Stamped(Publication("p", 0, number, topic, body), 0, {topic: number})


def peers(name: str = "a", **bounds: Any) -> Peers:
    return Peers(name, Subscriber(name, {"t": 0}, WAIT), PeerSettings(**bounds))


def gone(engine: Peers, numbers: tuple[int, ...], now: float = 0.0) -> list[Effect]:
    return engine.handle(Received("node", Repair("t", (), numbers, 9)), now)


def tick(engine: Peers) -> tuple[float, list[Effect]]:
    at = engine.next_timer()
    assert at is not None
    return at, engine.handle(TICK, at)


def test_peers_are_asked_and_what_they_tell_is_delivered() -> None:
    a, b = peers("a"), peers("b")
    for number in (1, 2, 3):
        b.handle(Notified(event(number)), 0.0)
    a.handle(Notified(event(3)), 0.0)
    (ask,) = gone(a, (1, 2))
    assert ask == Announce(("t",), PeerAsk("t", "a", (1, 2)))
    assert b.handle(Notified(ask.notification), 0.01) == []
    at, effects = tick(b)
    assert at <= 0.01 + b.settings.answer_s
    assert effects == [Announce(("t",), PeerTell("t", (event(1), event(2))))]
    (delivered,) = a.handle(Notified(effects[0].notification), 0.1)
    assert isinstance(delivered, Deliver)
    assert delivered.events == [event(1), event(2), event(3)]
    assert (a.found, a.asked) == (2, {})


def test_what_nobody_tells_is_lost_after_all_questions() -> None:
    a = peers()
    a.handle(Notified(event(2)), 0.0)
    asked, lost, now = [*gone(a, (1,))], [], 0.0
    while not lost:
        now, effects = tick(a)
        asked += [e for e in effects if isinstance(e, Announce)]
        lost = [e for e in effects if isinstance(e, Lose)]
        a.check()
    assert lost == [Lose("t", (1,))]
    assert len(asked) == a.settings.asks
    assert now == a.settings.wait_s
    gone(a, (1,), now)  # the node says so again: nothing is lost twice
    assert not [e for e in a.handle(TICK, now + 10.0) if isinstance(e, Lose)]


def test_who_hears_it_told_keeps_silent() -> None:
    b = peers("b")
    b.handle(Notified(event(1)), 0.0)
    b.handle(Notified(PeerAsk("t", "a", (1,))), 0.0)
    assert b.to_tell
    b.handle(Notified(PeerTell("t", (event(1),))), 0.001)
    assert not b.to_tell
    b.handle(Notified(PeerAsk("t", "b", (1,))), 0.0)
    assert not b.to_tell  # our own question


def test_nothing_is_taken_that_was_not_asked_for() -> None:
    a = peers()
    assert a.handle(Notified(PeerTell("t", (event(1), event(2)))), 0.0) == []
    gone(a, (1,))
    assert a.handle(Notified(PeerTell("other", (event(1),))), 0.0) == []
    assert a.asked


def test_caches_questions_and_answers_are_bounded() -> None:
    b = peers("b", cache_events=4, cache_bytes=10_000, answers_max=2, answer_bytes=500)
    for number in range(1, 11):
        b.handle(Notified(event(number, body=bytes(300))), 0.0)
        b.check()
    assert [number for _, number in b.cache.events] == [7, 8, 9, 10]
    b.handle(Notified(PeerAsk("t", "a", tuple(range(1, 11)))), 0.0)
    first, answer = tick(b)
    assert answer == [
        Announce(("t",), PeerTell("t", (event(7, body=bytes(300)),)))
    ]  # a second would be too much
    second, answer = tick(b)
    assert second >= first + b.settings.answer_gap_s
    assert answer == [Announce(("t",), PeerTell("t", (event(8, body=bytes(300)),)))]
    assert not b.to_tell
    b.handle(Notified(event(11, body=bytes(20_000))), 1.0)
    assert not b.cache.events  # larger than all of it
    a = peers("a", asking_max=3, numbers_max=2)
    a.handle(Notified(event(9)), 0.0)
    effects = gone(a, (1, 2, 3, 4, 5))
    assert effects == [Lose("t", (4, 5)), Announce(("t",), PeerAsk("t", "a", (1, 2)))]
    assert tick(a)[1] == [Announce(("t",), PeerAsk("t", "a", (3,)))]


def test_a_twin_is_independent_and_behaves_alike() -> None:
    a = peers()
    a.handle(Notified(event(2)), 0.0)
    gone(a, (1,))
    twin = a.copy()
    assert twin.state() == a.state()
    twin.handle(TICK, 10.0)
    assert twin.state() != a.state()
    assert a.asked


# Simulated: the worlds of `lab fuzz`, with rings of three events.


def tiny(seed: int) -> World | None:
    world = draw_world(seed)
    if not world.notifications.loss or not any(s.settings.repair for s in world.subscribers):
        return None
    managers = msgspec.structs.replace(world.managers, ring_events=3)
    return msgspec.structs.replace(world, managers=managers, peers=True)


def lost(world: World) -> int:
    return sum(record.kind is Kind.LOST for record in Simulation(world).run().records)


def test_worlds_with_tiny_rings_keep_every_promise_and_lose_less() -> None:
    worlds = [world for seed in range(80) if (world := tiny(seed)) is not None]
    assert len(worlds) > 30
    for world in worlds:
        trial = try_world(world)
        assert trial.is_good, (world.seed, trial.violations, trial.stuck)
    alone = sum(lost(msgspec.structs.replace(world, peers=False)) for world in worlds)
    assert 0 < 2 * sum(map(lost, worlds)) < alone


def test_so_do_worlds_that_move() -> None:
    count = 0
    for seed in range(40):
        world = draw_moving(seed)
        if world.notifications.loss and not world.retained:
            managers = msgspec.structs.replace(world.managers, ring_events=4)
            trial = try_moving(msgspec.structs.replace(world, managers=managers, peers=True))
            assert trial.is_good, (seed, trial.violations, trial.stuck)
            count += 1
    assert count > 8


class NeverGivesUp(Peers):
    """Waits for peers as long as it takes."""

    def _give_up(self, now: float) -> list[Effect]:
        for one in self.asked.values():
            one.gone_at = now + 60.0
        return []


class TellsNumbersOfItsOwn(Peers):
    """Answers with an event that is near enough."""

    def _note(self, ask: PeerAsk, now: float) -> None:
        for number in ask.numbers:
            other = self.cache.events.get((ask.topic, number + 1))
            if other is not None and (ask.topic, number) not in self.cache.events:
                entries = {**other.entries, ask.topic: number}
                self.cache.keep([msgspec.structs.replace(other, entries=entries)])
        super()._note(ask, now)


@pytest.mark.parametrize("weak", [NeverGivesUp, TellsNumbersOfItsOwn])
def test_planted_bugs_are_caught(weak: type[Peers], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "Peers", weak)
    assert any((world := tiny(seed)) is not None and not try_world(world).is_good for seed in range(80))
