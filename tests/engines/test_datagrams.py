"""Datagrams of peers that share a key: who, how often, and what strangers can do about it."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unisono.engines.datagrams import Guard, GuardSettings, Met, Opened, Outgoing
from unisono.engines.datagrams.guard import Happened
from unisono.engines.datagrams.replays import Replays
from unisono.engines.datagrams.wire import DATA, HELLO_BYTES, Letter, parse, seal
from unisono.model.errors import ConfigError, PayloadError

KEY = b"sixteen bytes or more"
A, B, X = ("10.0.0.1", 7), ("10.0.0.2", 7), ("10.6.6.6", 6)


def guard(name: str, *, life: int = 1, secret: bytes = b"s", key: bytes = KEY, **bounds: object) -> Guard:
    return Guard(name, key, life, secret + name.encode(), GuardSettings(**bounds))  # type: ignore[arg-type]


def pair() -> tuple[Guard, Guard, list[bytes]]:
    """Two that have met, and everything that passed on the way to b."""
    a, b = guard("a"), guard("b")
    wire = [out.data for out in a.send(B, b"first", 0.0)]
    (welcome,) = b.receive(wire[0], A, 0.0)
    assert isinstance(welcome, Outgoing)
    met, data = a.receive(welcome.data, B, 0.0)
    assert met == Met("b", B)
    assert isinstance(data, Outgoing)
    wire.append(data.data)
    assert b.receive(data.data, A, 0.0) == [Opened("a", A, b"first")]
    return a, b, wire


def only(happened: list[Happened] | list[Outgoing]) -> bytes:
    (out,) = happened
    assert isinstance(out, Outgoing)
    return out.data


def test_what_waits_for_a_token_is_sent_with_it_and_what_follows_at_once() -> None:
    a, b, _ = pair()
    assert b.receive(only(a.send(B, b"second", 1.0)), A, 1.0) == [Opened("a", A, b"second")]
    assert a.next_timer() is None


def test_nothing_counts_twice() -> None:
    _, b, wire = pair()
    assert b.receive(wire[1], A, 2.0) == []
    assert b.refused == {"came before": 1}


def test_a_hello_without_an_answer_is_repeated_less_and_less_often() -> None:
    a, times, now = guard("a"), [], 0.0
    a.send(B, b"x", now)
    while (due := a.next_timer()) is not None and len(times) < 7:
        now = due
        assert len(only(a.tick(now))) == HELLO_BYTES
        times.append(round(now, 3))
    assert times == [0.2, 0.6, 1.4, 3.0, 6.2, 9.4, 12.6]


def test_what_was_sent_to_somebody_else_or_from_elsewhere_does_not_count() -> None:
    _, _, wire = pair()
    c = guard("c")
    (unknown,) = c.receive(wire[1], A, 0.0)
    assert isinstance(unknown, Outgoing)
    assert c.refused == {"with a token that is not ours": 1}
    _, b, wire = pair()
    assert not any(isinstance(it, Opened) for it in b.receive(wire[1], X, 0.0))


def test_one_that_has_begun_anew_is_met_again_and_takes_nothing_old() -> None:
    a, _, wire = pair()
    b = guard("b", life=2, secret=b"t")
    assert not any(isinstance(it, Opened) for it in b.receive(wire[1], A, 5.0))
    unknown = only(b.receive(only(a.send(B, b"lost", 5.0)), A, 5.0))
    hello = only(a.receive(unknown, B, 5.0))
    a.send(B, b"kept", 5.0)
    met, data = a.receive(only(b.receive(hello, A, 5.0)), B, 5.0)
    assert met == Met("b", B)
    assert isinstance(data, Outgoing)
    assert b.receive(data.data, A, 5.0) == [Opened("a", A, b"kept")]


def test_an_earlier_life_of_a_sender_does_not_come_back() -> None:
    _, b, wire = pair()
    later = guard("a", life=2)
    (welcome,) = b.receive(only(later.send(B, b"new", 1.0)), A, 1.0)
    assert isinstance(welcome, Outgoing)
    _, data = later.receive(welcome.data, B, 1.0)
    assert isinstance(data, Outgoing)
    assert b.receive(data.data, A, 1.0) == [Opened("a", A, b"new")]
    for old in wire:
        assert not any(isinstance(it, Opened) for it in b.receive(old, A, 2.0))


def test_a_sender_that_moved_leaves_nothing_to_be_replayed() -> None:
    a, b, wire = pair()
    elsewhere = ("10.0.0.9", 9)
    a.forget(B)
    (welcome,) = b.receive(only(a.send(B, b"moved", 1.0)), elsewhere, 1.0)
    assert isinstance(welcome, Outgoing)
    _, data = a.receive(welcome.data, B, 1.0)
    assert isinstance(data, Outgoing)
    assert b.receive(data.data, elsewhere, 1.0) == [Opened("a", elsewhere, b"moved")]
    assert not any(isinstance(it, Opened) for it in b.receive(wire[1], A, 2.0))


def test_of_too_many_senders_the_forgotten_one_leaves_nothing_to_be_replayed() -> None:
    b, recorded = guard("b", peers_max=2), {}
    for i in range(3):
        sender, home = guard(f"a{i}"), ("10.0.1.1", i)
        _, data = sender.receive(only(b.receive(only(sender.send(B, b"x", 0.0)), home, 0.0)), B, 0.0)
        assert isinstance(data, Outgoing)
        assert b.receive(data.data, home, 0.0) == [Opened(f"a{i}", home, b"x")]
        recorded[home] = data.data
    for home, data in recorded.items():
        assert not any(isinstance(it, Opened) for it in b.receive(data, home, 1.0))


def test_who_has_another_key_gets_no_answer_at_all() -> None:
    _, b, _ = pair()
    stranger = guard("a", key=b"another key, long enough")
    assert b.receive(only(stranger.send(B, b"x", 0.0)), A, 0.0) == []
    forged = seal(b"another key, long enough", Letter(DATA, 1, 0, 9, b"a", b"forged"))
    assert b.receive(forged, A, 0.0) == []
    assert b.refused == {"made with another key": 2}


@given(st.binary(max_size=300))
def test_nonsense_is_counted_and_nothing_else(data: bytes) -> None:
    b = guard("b")
    assert b.receive(data, X, 0.0) == []
    assert b.refused.total() == 1


def test_a_flood_of_replays_and_forgeries_is_answered_with_less_than_it_sends_and_disturbs_nobody() -> None:
    a, b, wire = pair()
    random = Random(1)
    sent = answered = 0
    for i in range(20_000):
        data = bytearray(random.choice(wire))
        if i % 2:
            data[random.randrange(len(data))] ^= 1 << random.randrange(8)
        where = (f"10.6.{i % 256}.6", random.randrange(65536))
        now = 1.0 + i / 20_000
        sent += len(data)
        for it in b.receive(bytes(data), where, now):
            assert isinstance(it, Outgoing), "a replay was taken"
            assert len(it.data) <= len(data)
            answered += len(it.data)
    assert answered < sent / 20
    assert b.receive(only(a.send(B, b"still here", 3.0)), A, 3.0) == [Opened("a", A, b"still here")]


def test_what_waits_is_bounded_and_what_is_too_large_is_refused() -> None:
    a = guard("a", waiting_max=2, datagram_bytes_max=500)
    for n in range(5):
        a.send(B, b"%d" % n, 0.0)
    assert a.dropped == 3
    with pytest.raises(PayloadError, match="datagram_bytes_max"):
        a.send(B, bytes(500), 0.0)
    assert len(only(pair()[0].send(B, bytes(guard("a").payload_bytes_max), 0.0))) <= 1400
    a.forget(B)
    assert a.dropped == 5
    assert a.next_timer() is None


@pytest.mark.parametrize(("name", "key"), [("", KEY), ("n" * 65, KEY), ("a", b"short"), ("a", bytes(65))])
def test_names_and_keys_have_bounds(name: str, key: bytes) -> None:
    with pytest.raises(ConfigError, match="bytes"):
        Guard(name, key, 1, b"s")


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32))
def test_over_a_network_that_loses_doubles_and_reorders_everything_counts_at_most_once(seed: int) -> None:
    random, now = Random(seed), 0.0
    guards = {A: guard("a"), B: guard("b")}
    lives = {A: 1, B: 1}
    air: list[tuple[tuple[str, int], tuple[str, int], bytes]] = []
    recorded = []
    got: list[bytes] = []
    for n in range(150):
        now += random.random() / 20
        here, there = random.choice(((A, B), (B, A)))
        did: list[Happened] = [*guards[here].send(there, b"%d" % n, now), *guards[here].tick(now)]
        if random.random() < 0.03:
            lives[here] += 1
            guards[here] = guard("a" if here == A else "b", life=lives[here], secret=b"%d" % lives[here])
            did = []
        air += [(here, there, it.data) for it in did if isinstance(it, Outgoing)]
        random.shuffle(air)
        for _ in range(random.randrange(4)):
            if not air:
                break
            source, to, data = air.pop()
            recorded.append((source, to, data))
            if random.random() < 0.2:
                air.append((source, to, data))
            if random.random() < 0.2:
                air.append(random.choice(recorded))
            if random.random() < 0.2:
                continue
            for it in guards[to].receive(data, source, now):
                if isinstance(it, Outgoing):
                    air.append((to, source, it.data))
                elif isinstance(it, Opened):
                    got.append(it.payload)
    assert len(got) == len(set(got))


def test_without_loss_everything_comes() -> None:
    a, b, _ = pair()
    got = []
    for n in range(3000):
        for it in b.receive(only(a.send(B, b"%d" % n, 0.0)), A, 0.0):
            assert isinstance(it, Opened)
            got.append(it.payload)
    assert got == [b"%d" % n for n in range(3000)]


@given(st.lists(st.integers(1, 60), max_size=80))
def test_replays_are_told_from_what_is_late(numbers: list[int]) -> None:
    replays, come, newest = Replays(16), set(), 0
    for number in numbers:
        expected = number not in come and number > newest - 16
        assert replays.is_new(number) == expected
        if expected:
            replays.add(number)
            come.add(number)
            newest = max(newest, number)


def test_a_letter_survives_the_wire() -> None:
    letter = Letter(DATA, 7, 8, 9, b"name", b"payload")
    data = seal(KEY, letter)
    assert parse(data) == letter
    assert all(parse(data[:n]) is None for n in range(len(data) - len(b"payload")))
