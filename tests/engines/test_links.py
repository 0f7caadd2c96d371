"""Links: FIFO and lossless over a network that loses, doubles and overtakes (CE-6)."""

from __future__ import annotations

from collections.abc import Hashable
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from unisono.engines.effects import Effect, Fail, Send
from unisono.engines.inputs import TICK, Input, Lost, Publish, Received
from unisono.engines.links import Arrived, LinkBroken, Links, LinkSettings, Packet, Transmit
from unisono.model.frames import Message, Nack

SETTINGS = LinkSettings(retry_s=1.0, retry_s_max=4.0, window=3, queue_max=5)


class Echo:
    """An engine that sends one message to `peer` per Publish input, and remembers what it received."""

    def __init__(self, peer: str = "b") -> None:
        self.peer = peer
        self.sent = 0
        self.heard: list[int] = []
        self.lost: list[int] = []

    def handle(self, input: Input, now: float) -> list[Effect]:
        if isinstance(input, Lost):
            self.lost += [number_of(message) for message in input.messages]
            return []
        if isinstance(input, Received):
            self.heard.append(number_of(input.message))
            return []
        self.sent += 1
        return [Send(self.peer, message(self.sent))]

    def next_timer(self) -> float | None:
        return None

    def check(self) -> None:
        assert self.heard == sorted(set(self.heard))

    def copy(self) -> Echo:
        twin = Echo(self.peer)
        twin.sent, twin.heard = self.sent, list(self.heard)
        return twin

    def state(self) -> Hashable:
        return (self.sent, tuple(self.heard))


GO = Publish([])


def message(n: int) -> Message:
    return Nack("T", "s", (n,))


def number_of(message: Message) -> int:
    assert isinstance(message, Nack)
    return message.numbers[0]


def pair() -> tuple[Links, Links]:
    return Links(Echo("b"), SETTINGS), Links(Echo("a"), SETTINGS)


def packets(effects) -> list[Packet]:
    return [effect.packet for effect in effects if isinstance(effect, Transmit)]


def test_a_send_becomes_a_numbered_packet_and_is_answered():
    a, b = pair()
    (out,) = a.handle(GO, 0.0)
    assert out == Transmit("b", Packet(1, 0, message(1)))
    (back,) = b.handle(Arrived("a", out.packet), 0.1)
    assert back == Transmit("a", Packet(0, 1))
    assert b.engine.heard == [1]
    assert a.handle(Arrived("b", back.packet), 0.2) == []
    assert a.next_timer() is None


def test_what_is_lost_is_repeated_with_growing_pauses():
    a, _ = pair()
    a.handle(GO, 0.0)
    times = []
    for _ in range(5):
        times.append(a.next_timer())
        assert packets(a.handle(TICK, times[-1])) == [Packet(1, 0, message(1))]
    assert times == [1.0, 3.0, 7.0, 11.0, 15.0]


def test_a_lost_answer_is_given_again_for_the_repetition():
    a, b = pair()
    (out,) = a.handle(GO, 0.0)
    b.handle(Arrived("a", out.packet), 0.1)
    (again,) = packets(a.handle(TICK, 1.0))
    assert packets(b.handle(Arrived("a", again), 1.1)) == [Packet(0, 1)]
    assert b.engine.heard == [1]


def test_a_doubled_packet_is_handed_on_once():
    a, b = pair()
    (out,) = a.handle(GO, 0.0)
    for _ in range(3):
        b.handle(Arrived("a", out.packet), 0.1)
    assert b.engine.heard == [1]


def test_an_overtaking_packet_waits_its_turn():
    a, b = pair()
    first, second = packets(a.handle(GO, 0.0) + a.handle(GO, 0.0))
    assert packets(b.handle(Arrived("a", second), 0.1)) == [Packet(0, 0)]
    assert b.engine.heard == []
    assert packets(b.handle(Arrived("a", first), 0.2)) == [Packet(0, 2)]
    assert b.engine.heard == [1, 2]


def test_an_old_answer_changes_nothing():
    a, _ = pair()
    a.handle(GO, 0.0)
    a.handle(GO, 0.0)
    a.handle(Arrived("b", Packet(0, 2)), 0.1)
    assert a.handle(Arrived("b", Packet(0, 1)), 0.2) == []
    assert a.next_timer() is None


def test_no_more_than_the_window_is_on_its_way():
    a, _ = pair()
    sent = [packets(a.handle(GO, 0.0)) for _ in range(5)]
    assert [len(p) for p in sent] == [1, 1, 1, 0, 0]
    assert [p.number for p in packets(a.handle(Arrived("b", Packet(0, 1)), 0.1))] == [4]
    assert [p.number for p in packets(a.handle(Arrived("b", Packet(0, 4)), 0.2))] == [5]
    a.check()


def test_a_peer_that_never_answers_breaks_the_link_at_the_bound():
    a, _ = pair()
    effects = [e for _ in range(3 + 5 + 1) for e in a.handle(GO, 0.0)]
    assert [type(e.error) for e in effects if isinstance(e, Fail)] == [LinkBroken]
    assert isinstance(effects[-1], Fail)


def test_peers_do_not_wait_for_each_other():
    a, _ = pair()
    for _ in range(4):
        a.handle(GO, 0.0)
    a.engine.peer = "c"
    assert packets(a.handle(GO, 0.0)) == [Packet(1, 0, message(5))]


def test_a_twin_is_independent():
    a, _ = pair()
    a.handle(GO, 0.0)
    twin = a.copy()
    assert twin.state() == a.state()
    twin.handle(Arrived("b", Packet(0, 1)), 0.1)
    assert a.next_timer() == 1.0
    assert twin.next_timer() is None


@given(st.integers(1, 8), st.randoms(use_true_random=False))
def test_whatever_the_network_does_all_arrives_in_order_once(count, random):
    """Any mix of loss, duplication and overtaking, then a network that loses nothing."""
    a, b = pair()
    now, flying = 0.0, [("b", p) for _ in range(count) for p in packets(a.handle(GO, 0.0))]
    for step in range(400):
        now += 0.25
        for links, name, peer in ((a, "a", "b"), (b, "b", "a")):
            due = links.next_timer()
            if due is not None and due <= now:
                flying += [(peer, p) for p in packets(links.handle(TICK, now))]
            links.check()
            assert name != peer
        if flying:
            to, packet = flying.pop(random.randrange(len(flying)))
            if step < 40 and random.random() < 0.3:
                continue
            if random.random() < 0.2:
                flying.append((to, packet))
            source, links = ("a", b) if to == "b" else ("b", a)
            back = packets(links.handle(Arrived(source, packet), now))
            flying += [("a" if to == "b" else "b", p) for p in back]
    assert b.engine.heard == list(range(1, count + 1))


# Lives.


def lives(left: int, right: int) -> tuple[Links, Links]:
    return Links(Echo("b"), SETTINGS, life=left), Links(Echo("a"), SETTINGS, life=right)


def meet(a: Links, b: Links, now: float = 0.0) -> None:
    """Carry packets to and fro until nobody says anything more."""
    flying = [("b", p) for p in packets(a.handle(TICK, now))]
    while flying:
        to, packet = flying.pop(0)
        source, links, back = ("a", b, "a") if to == "b" else ("b", a, "b")
        flying += [(back, p) for p in packets(links.handle(Arrived(source, packet), now))]


def test_strangers_get_to_know_each_other_and_nothing_is_lost():
    a, b = lives(1, 1)
    (out,) = packets(a.handle(GO, 0.0))
    assert (out.life, out.to) == (1, 0)
    (answer,) = packets(b.handle(Arrived("a", out), 0.1))
    assert b.engine.heard == [], "it was meant for nobody in particular"
    (again,) = packets(a.handle(Arrived("b", answer), 0.2))
    assert (again.number, again.to) == (1, 1)
    b.handle(Arrived("a", again), 0.3)
    assert b.engine.heard == [1]


def test_what_a_former_life_sent_never_reaches_anybody():
    a, b = lives(1, 1)
    a.handle(GO, 0.0)
    meet(a, b, 1.0)
    (old,) = packets(a.handle(GO, 2.0))
    reborn = Links(Echo("b"), SETTINGS, life=2)
    reborn.handle(GO, 3.0)
    meet(reborn, b, 4.0)
    assert b.engine.heard == [1, 1], "each life counts from 1"
    assert b.handle(Arrived("a", old), 5.0) == []
    assert b.engine.heard == [1, 1]


def test_what_was_meant_for_a_former_life_is_dropped():
    a, b = lives(1, 1)
    a.handle(GO, 0.0)
    meet(a, b, 1.0)
    late = [p for _ in range(5) for p in packets(a.handle(GO, 2.0))]
    reborn = Links(Echo("a"), SETTINGS, life=2)
    for packet in reversed(late):
        for answer in packets(reborn.handle(Arrived("a", packet), 3.0)):
            a.handle(Arrived("b", answer), 3.1)
    assert reborn.engine.heard == []
    assert a.next_timer() is None, "nothing of it is repeated, nor sent from the queue"
    assert a.engine.lost == [2, 3, 4, 5, 6], "and whoever sent it is told"
    a.handle(GO, 4.0)
    meet(a, reborn, 9.0)
    assert reborn.engine.heard == [7]


def test_an_answer_to_a_former_life_acknowledges_nothing():
    a, b = lives(1, 1)
    a.handle(GO, 0.0)
    meet(a, b, 1.0)
    (old,) = packets(a.handle(GO, 2.0))
    (answer,) = packets(b.handle(Arrived("a", old), 2.1))
    reborn = Links(Echo("b"), SETTINGS, life=2)
    reborn.handle(GO, 3.0)
    reborn.handle(Arrived("b", answer), 3.1)
    assert reborn.next_timer() is not None
    meet(reborn, b, 9.0)
    assert b.engine.heard == [1, 2, 1]


def test_a_twin_is_of_its_kind():
    class Kind(Links):
        pass

    twin = Kind(Echo("b"), SETTINGS, life=3).copy()
    assert isinstance(twin, Kind)
    assert twin.life == 3


@given(st.integers(1, 6), st.integers(0, 2**32))
def test_whenever_processes_restart_each_life_hears_each_in_order(count, seed):
    """Each life of the receiver hears, of each life of the sender, numbers that follow each other."""
    random = Random(seed)
    now, life = 0.0, {"a": 1, "b": 1}
    sides = dict(zip("ab", lives(1, 1), strict=True))
    flying: list[tuple[str, Packet]] = []
    said = {1: 0}  # life of a -> what it said
    heard: dict[tuple[int, int], list[int]] = {}  # life of a, life of b -> what was heard
    for step in range(300):
        now += 0.5
        if step < 100 and random.random() < 0.05:
            name = random.choice("ab")
            life[name] += 1
            sides[name] = Links(Echo("b" if name == "a" else "a"), SETTINGS, life=life[name])
            said.setdefault(life["a"], 0)
        if step < 100 and said[life["a"]] < count and random.random() < 0.3:
            said[life["a"]] += 1
            flying += [("b", p) for p in packets(sides["a"].handle(GO, now))]
        for name, peer in (("a", "b"), ("b", "a")):
            if (due := sides[name].next_timer()) is not None and due <= now:
                flying += [(peer, p) for p in packets(sides[name].handle(TICK, now))]
        if flying:
            to, packet = flying.pop(random.randrange(len(flying)))
            if step < 100 and random.random() < 0.2:
                continue
            if random.random() < 0.2:
                flying.append((to, packet))
            source = "a" if to == "b" else "b"
            before = len(sides[to].engine.heard)
            flying += [(source, p) for p in packets(sides[to].handle(Arrived(source, packet), now))]
            if to == "b":
                heard.setdefault((packet.life, life["b"]), []).extend(sides["b"].engine.heard[before:])
    for (sender, _), numbers in heard.items():
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers))) if numbers else True
        assert all(n <= said[sender] for n in numbers)


# Bounds.

BOUNDED = LinkSettings(
    retry_s=1.0, retry_s_max=4.0, window=3, queue_max=5, family_max=2, peers_max=4, silent_s=10.0
)


def hello(links: Links, peer: str, now: float = 1.0) -> list[Packet]:
    return packets(links.handle(Arrived(peer, Packet(1, 0, None, 7, 0)), now))


def test_whoever_was_silent_longest_is_forgotten_first():
    links = Links(Echo("x"), BOUNDED, life=5)
    for peer in ("a.1", "b.1", "a.2", "b.2"):
        hello(links, peer)
    hello(links, "a.1")
    hello(links, "a.3")
    assert list(links.peers) == ["b.1", "b.2", "a.1", "a.3"], "of its own family"
    hello(links, "c")
    assert list(links.peers) == ["b.2", "a.1", "a.3", "c"], "or of all"
    links.check()


def test_a_forgotten_peer_meets_a_new_life():
    links = Links(Echo("x"), BOUNDED, life=5)
    (first,) = hello(links, "a.1")
    links.forget("a.1")
    (again,) = hello(links, "a.1")
    assert (first.life, again.life) == (5, 6)


def test_nodes_are_never_forgotten():
    links = Links(Echo("x"), BOUNDED, life=5, kept={"a.1", "n"})
    for peer in ("n", "a.1", "a.2", "a.3", "b", "c", "d"):
        hello(links, peer)
    assert {"n", "a.1"} <= links.peers.keys()
    assert len(links.peers) == 4
    hello(links, "e", 100.0)
    assert set(links.peers) == {"n", "a.1", "e"}, "all others were silent"


def test_what_is_sent_to_somebody_silent_is_given_up():
    links = Links(Echo("b"), BOUNDED, life=5)
    links.handle(GO, 50.0)
    now = 50.0
    while (due := links.next_timer()) is not None:
        now = due
        links.handle(TICK, now)
    assert 60.0 < now < 75.0
    assert not links.peers


def test_only_the_oldest_is_repeated_to_somebody_who_does_not_answer():
    settings = LinkSettings(retry_s=1.0, retry_s_max=64.0, probe_after=2)
    links = Links(Echo("b"), settings)
    for _ in range(3):
        links.handle(GO, 0.0)
    repeated = []
    for _ in range(4):
        now = links.next_timer()
        repeated.append([packet.number for packet in packets(links.handle(TICK, now))])
    assert repeated == [[1, 2, 3], [1, 2, 3], [1], [1]]


@given(st.integers(0, 2**32))
def test_whoever_is_forgotten_is_heard_in_order_all_the_same(seed):
    """What was under way is lost, and told so; what is handed on follows what was handed on before."""
    random, now = Random(seed), 0.0
    a, b = Links(Echo("b"), SETTINGS, life=1), Links(Echo("a"), SETTINGS, life=1)
    flying: list[tuple[str, Packet]] = []
    said = 0
    for step in range(200):
        now += 0.5
        if step < 60 and random.random() < 0.4:
            said += 1
            flying += [("b", p) for p in packets(a.handle(GO, now))]
        if step < 60 and random.random() < 0.1:
            b.forget("a")
        for links, peer in ((a, "b"), (b, "a")):
            if (due := links.next_timer()) is not None and due <= now:
                flying += [(peer, p) for p in packets(links.handle(TICK, now))]
        for _ in range(3):
            if flying:
                to, packet = flying.pop(random.randrange(len(flying)))
                if step < 60 and random.random() < 0.2:
                    continue
                source, links = ("a", b) if to == "b" else ("b", a)
                flying += [(source, p) for p in packets(links.handle(Arrived(source, packet), now))]
    heard = b.engine.heard
    assert heard == sorted(set(heard))
    if a.next_timer() is None:
        assert set(heard) | set(a.engine.lost) == set(range(1, said + 1))
