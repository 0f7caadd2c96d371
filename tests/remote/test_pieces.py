"""Pieces of bundles on their way: heads are written once, clocks of wide groups are short, and nothing is ever wrong."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from remote_kit import connect, nodes, run, take

from unisono.model.errors import FrameError
from unisono.model.frames import Heartbeat, Publication
from unisono.model.runs import bundle_of
from unisono.runtime.remote import pieces as on_their_way
from unisono.runtime.remote.pieces import FULL_EVERY, NARROW, Delta, Lengthener, Piece, Shortener, read
from unisono.runtime.remote.wire import decode_notes, encode

WIDE = tuple(f"t{i}" for i in range(NARROW + 4))


def pieces(names, epoch=1, wide=WIDE):
    """What a node says of bundles of two events, each on the topics named."""
    clock, made = dict.fromkeys(wide, 0), []
    for index, topics in enumerate(names, 1):
        events = [Publication("p", 1, 2 * index + i, t, b"x", 0, 1.0, 1) for i, t in enumerate(topics)]
        bundle = bundle_of(events, index, 1, {})
        made += bundle.stamped(epoch, "n", index, dict(clock)).pieces()
        for topic in topics:
            clock[topic] += 1
    return made


PAIRS = st.lists(st.tuples(st.sampled_from(WIDE[:3]), st.sampled_from(WIDE[:3])), min_size=1, max_size=30)


@given(PAIRS, st.randoms(use_true_random=False), st.floats(0, 0.5))
@settings(max_examples=100, deadline=None)
def test_whoever_misses_something_hears_the_clock_or_that_there_is_one(names, random, loss):
    said = pieces(names)
    shortener, lengthener = Shortener(), Lengthener()
    for piece in said:
        (short,) = decode_notes(encode([shortener.shorten(piece)]))
        if random.random() < loss:
            continue
        heard = lengthener.lengthen(short)
        topic = piece.parts[0].topic
        assert heard in (piece, Heartbeat(topic, 1, piece.newest(topic)))
        if not loss:
            assert heard == piece
            assert list(heard.clock) == list(piece.clock)


def test_most_are_short_and_some_are_full():
    shortener = Shortener()
    sent = [shortener.shorten(piece) for piece in pieces([("t0", "t0")] * (2 * FULL_EVERY + 10))]
    full = [i for i, one in enumerate(sent) if not one.since]
    assert full == [0, FULL_EVERY + 1, 2 * FULL_EVERY + 2]
    assert all(list(read(one).changed) == ["t0"] for one in sent if one.since)
    assert len(encode([sent[1]])) < len(encode([sent[0]])) - 50


def test_narrow_clocks_stay_as_they_are():
    shortener = Shortener()
    said = pieces([("t0", "t1")] * 3, wide=WIDE[:5])
    assert [read(shortener.shorten(piece)) for piece in said] == said


def test_what_pieces_have_in_common_is_written_once_and_read_once():
    shortener = Shortener()
    for wide in (WIDE, WIDE[:5]):  # clocks are whole, go on, are whole because all of them have changed
        for said in (pieces([wide[:3]]), pieces([wide[:3]] * 2)[3:], pieces([wide] * 2)[-len(wide) :]):
            sent = [shortener.shorten(piece) for piece in said]
            assert len({id(one.head) for one in sent}) == 1
            first, *others = [read(one) for one in decode_pieces(sent)]
            for other in others:
                assert (first.piece.order if isinstance(first, Delta) else first.clock) is (
                    other.piece.order if isinstance(other, Delta) else other.clock
                )


def decode_pieces(sent):
    """As they come from the network, each in a frame of its own."""
    return [msgspec.msgpack.decode(msgspec.msgpack.encode(one), type=Piece) for one in sent]


def test_a_clock_of_which_all_has_changed_is_whole():
    shortener = Shortener()
    sent = [shortener.shorten(piece) for piece in pieces([WIDE] * 3)]
    assert not any(one.since for one in sent)
    some = [shortener.shorten(piece) for piece in pieces([WIDE[1:]] * 5)]
    assert some[-1].since


def test_a_piece_that_makes_no_sense_is_refused():
    one, other = (Shortener().shorten(piece) for piece in pieces([("t0", "t1")]))
    (stranger,) = (Shortener().shorten(piece) for piece in pieces([("t2", "t2")]))
    replace = msgspec.structs.replace
    for wrong in (
        replace(one, head=b""),
        replace(one, head=b"\xc1"),
        replace(one, head=one.head[:-1]),
        replace(one, head=stranger.head),
        replace(one, part=stranger.part),
        replace(one, part=replace(one.part, times=b"")),
        replace(one, head=msgspec.msgpack.encode(pieces([("t0", "t1")])[0])),  # with a part
        replace(one, head=msgspec.msgpack.encode(replace(read(one), parts=(), clock={"t0": 0}))),
        replace(one, head=msgspec.msgpack.encode(replace(read(one), parts=(), order=b"\x00\x07"))),
    ):
        with pytest.raises(FrameError):
            decode_notes(encode([other, wrong]))
    assert decode_notes(encode([one, other]))


def test_who_comes_new_gets_a_full_one():
    shortener, newcomer = Shortener(), Lengthener()
    first, second, third = pieces([("t0", "t0")] * 3)
    shortener.shorten(first)
    shortener.shorten(second)
    shortener.forget(["t0"])
    assert newcomer.lengthen(read(shortener.shorten(third))) == third


def test_two_who_hear_the_same_share_it():
    shortener = Shortener()
    frames = [encode([shortener.shorten(piece)]) for piece in pieces([("t0", "t0")] * 3)]
    one, other = Lengthener(), Lengthener()
    for frame in frames:
        a, b = (each.lengthen(decode_notes(frame)[0]) for each in (one, other))
        assert a is b


def test_a_clock_that_makes_no_sense_is_refused():
    shortener, lengthener = Shortener(), Lengthener()
    first, second = pieces([("t0", "t0")] * 2)
    lengthener.lengthen(read(shortener.shorten(first)))
    short = read(shortener.shorten(second))
    for changed in ({"t0": -1}, {"t0": 2, "stranger": 7}):
        with pytest.raises(FrameError):
            lengthener.lengthen(Delta(short.since, changed, short.piece))


def test_between_processes(nats_url, monkeypatch):
    """With a wide group, also for who comes later and who wants no order, and after a loss."""
    completed = []
    original = on_their_way._completed

    def counted(note, before):
        completed.append(note)
        return original(note, before)

    monkeypatch.setattr(on_their_way, "_completed", counted)

    async def scenario():
        async with (
            nodes(nats_url, "n1"),
            connect(nats_url, "p") as bus,
            connect(nats_url, "s") as other,
            other.subscribe(*WIDE) as early,
            other.subscribe(*WIDE, order="none") as plain,
        ):
            for round_ in range(6):
                await bus.publish_many([(WIDE[n % 3], (round_, n)) for n in range(60)])
            async with other.subscribe(*WIDE) as late:
                for round_ in range(6, 9):
                    await bus.publish_many([(WIDE[n % 3], (round_, n)) for n in range(60)])
                everything = await take(early, 540)
                assert [e.id for e in await take(late, 180)] == [e.id for e in everything[360:]]
                assert len({e.id for e in await take(plain, 540)}) == 540
                assert len(everything[-1].stamp) == len(WIDE)

    run(scenario())
    assert completed
