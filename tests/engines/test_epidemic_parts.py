"""The parts of a dispatcher: numbers on the wire, windows, caches, streams, trails, routes."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unisono.engines.epidemic.cache import Cache
from unisono.engines.epidemic.covering import Covering
from unisono.engines.epidemic.known import Known
from unisono.engines.epidemic.messages import Event, decode_message, encode_message
from unisono.engines.epidemic.numbers import pack, unpack
from unisono.engines.epidemic.routes import Routes
from unisono.engines.epidemic.streams import Streams
from unisono.engines.epidemic.trails import Tracker, Trail
from unisono.engines.filters import parse
from unisono.model.errors import FrameError
from unisono.model.ids import EventId

KEY = b"pattern1"


def event(n: int, number: int = 0, source: str = "s", age_ms: int = 0) -> Event:
    return Event(source, 1, n, {KEY: number or n}, {"x": n}, b"", age_ms)


@given(st.sets(st.integers(1, 400)))
def test_numbers_travel_as_runs(numbers):
    assert list(unpack(pack(numbers), 1000)) == sorted(numbers)


def test_a_run_without_end_is_read_up_to_the_limit():
    assert list(unpack((1, 10**15), 3)) == [1, 2, 3]
    assert list(unpack((1, 0, -1, 5), 9)) == [1]
    assert list(unpack((1,), 9)) == []


def test_messages_travel_and_rubbish_does_not():
    sent = Event("s", 1, 2, {KEY: 3}, {"x": 1.5, "y": "z", "w": True}, b"p", 4, ("s", "a"), 5, 6)
    assert decode_message(encode_message(sent)) == sent
    with pytest.raises(FrameError):
        decode_message(b"\x01rubbish")
    with pytest.raises(FrameError, match="over the limit"):
        decode_message(encode_message(sent), limit=10)


@given(st.lists(st.integers(1, 40), max_size=80))
def test_a_window_takes_nothing_twice(numbers):
    known, taken = Known(4, 10), []
    for n in numbers:
        if known.add(EventId("s", 1, n), 0.0, 0.0):
            taken.append(n)
        assert EventId("s", 1, n) in known
    assert len(set(taken)) == len(taken)
    highest = 0
    for n in numbers:  # and refuses only what is known or below the window
        highest = max(highest, n)
        assert n in taken or n <= highest - 10


def test_a_source_that_was_forgotten_is_not_taken_for_new():
    known = Known(1, 10)
    assert known.add(EventId("s", 1, 1), 1.0, 1.0)
    assert known.add(EventId("t", 1, 1), 2.0, 2.0)  # s is forgotten
    assert not known.add(EventId("s", 1, 1), 1.0, 3.0)
    assert known.add(EventId("s", 1, 2), 2.5, 3.0)


@pytest.mark.parametrize("policy", ["interest_first", "source_or_subscriber", "fifo", "random"])
def test_a_cache_keeps_its_bound_and_finds_what_it_keeps(policy):
    cache = Cache(10, policy, Random(1))
    for n in range(1, 101):
        cache.add(event(n), float(n), is_own=n % 4 == 0)
        cache.check()
    kept = [e.n for e in cache]
    assert len(kept) == 10
    for n in range(1, 101):
        found = cache.find("s", 1, KEY, n, 200.0)
        assert (found is not None) == (n in kept) == (EventId("s", 1, n) in cache)
        assert found is None or found.age_ms == (200 - n) * 1000


def test_a_number_that_was_given_twice_harms_nobody():
    cache = Cache(2, "fifo", Random(1))
    for n in range(1, 7):
        cache.add(event(n, number=5), 0.0, is_own=True)
        cache.check()
    assert cache.find("s", 1, KEY, 5, 0.0) == event(6, number=5)


def test_each_policy_lets_another_one_go():
    def kept(policy):
        cache = Cache(4, policy, Random(1))
        for n in range(1, 9):
            cache.add(event(n), 0.0, is_own=n <= 4)
        return sorted(e.n for e in cache)

    assert kept("fifo") == [5, 6, 7, 8]
    assert kept("source_or_subscriber") == [1, 2, 3, 4]
    assert kept("interest_first") == [1, 2, 3, 4]  # what passes by goes first
    assert kept("random") not in ([5, 6, 7, 8], [1, 2, 3, 4])


def test_a_cache_of_nothing_keeps_nothing():
    cache = Cache(0, "fifo", Random(1))
    cache.add(event(1), 0.0, is_own=True)
    assert len(cache) == 0


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 4)), max_size=30), st.integers(1, 3))
def test_covering_tells_what_is_needed_and_remembers_a_few(ranges, above_max):
    covering, there = Covering(above_max), {}
    for low, width in ranges:
        pattern = parse(f"x between {low} and {low + width}")
        if pattern.hash in there:
            del there[pattern.hash]
            covering.discard(pattern.hash)
        else:
            covering.add(pattern, list(there.values()))
            there[pattern.hash] = pattern
        covering.check(there)
        told = [p for key, p in there.items() if not covering.is_redundant(key, there)]
        assert all(any(t.covers(p) for t in told) for p in there.values())
        if above_max >= len(there):
            assert not any(a.covers(b) for a in told for b in told if a is not b)


class Same:
    """One of several patterns that say the same in other words."""

    def __init__(self, key: bytes) -> None:
        self.hash = self.text = key

    def covers(self, other: Same) -> bool:
        return True


@pytest.mark.parametrize("order", [(b"1", b"2", b"3"), (b"3", b"1", b"2"), (b"2", b"3", b"1")])
def test_of_patterns_that_say_the_same_one_is_told(order):
    covering, there = Covering(), {}
    for key in order:
        covering.add(Same(key), list(there.values()))
        there[key] = Same(key)
    assert [key for key in there if not covering.is_redundant(key, there)] == [b"1"]
    covering.discard(b"1")
    del there[b"1"]
    assert [key for key in there if not covering.is_redundant(key, there)] == [b"2"]


def test_a_stream_knows_its_holes():
    streams = Streams(10, 10, 2.0)
    assert streams.arrive(event(5), [KEY], 0.0) == []
    streams.arrive(event(9), [KEY], 0.0)
    assert sorted(streams.missing()["s", 1, KEY]) == [6, 7, 8]
    streams.arrive(event(7), [KEY], 0.0)
    assert sorted(streams.missing()["s", 1, KEY]) == [6, 8]
    streams.found(event(8))
    assert streams.expire(1.9) == []
    assert [lost.numbers for lost in streams.expire(2.0)] == [(6,)]
    streams.check()


def test_what_is_told_of_a_stream_is_missing_if_it_is_not_from_before():
    streams = Streams(10, 10, 2.0)
    streams.tell(("s", 1, KEY), 5, published_at=1.0, since=2.0, now=3.0)
    assert streams.lost == 0
    streams.tell(("t", 1, KEY), 5, published_at=2.5, since=2.0, now=3.0)
    assert streams.missing() == {("t", 1, KEY): {5: 5.0}}
    streams.tell(("s", 1, KEY), 7, published_at=2.5, since=2.0, now=3.0)
    assert sorted(streams.missing()["s", 1, KEY]) == [6, 7]
    streams.keep(())
    assert (len(streams), streams.lost) == (0, 0)
    streams.check()


def test_the_oldest_hole_is_given_up_for_the_newest():
    streams = Streams(10, 3, 2.0)
    streams.arrive(event(1), [KEY], 0.0)
    streams.arrive(event(4), [KEY], 0.0)
    given_up = streams.arrive(event(7), [KEY], 1.0)
    assert [lost.numbers for lost in given_up] == [(2,)]
    assert streams.lost == 3


def test_a_trail_remembers_its_last_steps_and_a_tracker_what_it_missed():
    trail, tracker = Trail(7, 2, 3), Tracker(3)
    for n in range(1, 6):
        assert trail.add(("h", "s", 1, n, ())) == n
    assert [step for step, _ in trail.recall(range(9))] == [3, 4, 5]
    tracker.reach(7, 1)
    tracker.reach(7, 4)
    tracker.reach(7, 5, is_here=False)
    assert list(unpack(tracker.ask(9), 9)) == [2, 3, 5]
    tracker.reach(7, 3)
    assert list(unpack(tracker.ask(9), 9)) == [2, 5]
    for _ in range(9):
        tracker.ask(9)
    assert len(tracker) == 0  # asked for often enough
    tracker.reach(8, 100)
    assert len(tracker) == 2  # another trail, the last of it


def test_routes_lead_back_and_the_one_not_used_for_longest_goes():
    routes = Routes(2)
    routes.note("s", ("s", "a", "b"))
    routes.note("t", ("t",))
    routes.note("s", ("s", "b"))
    routes.note("u", ("u",))
    assert routes.back_to("s") == ("b", "s")
    assert routes.back_to("t") == ()
