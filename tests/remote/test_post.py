"""What one turn of the loop sends goes together; that something was heard can wait for company."""

import asyncio

import pytest

from unisono.ens.port import Capabilities
from unisono.model.bundles import Bundle, Part
from unisono.model.errors import FrameError
from unisono.model.frames import Heartbeat, Packet, Publication, Registration, Report, Stamped
from unisono.model.runs import bundle_of, run_of
from unisono.runtime.remote.pieces import Shortener
from unisono.runtime.remote.post import ACKNOWLEDGE_S, Post
from unisono.runtime.remote.wire import decode_notes, decode_packets, encode

SAYS = Report(Registration("s", 1, ("a",)))


class Service:
    def __init__(self):
        self.capabilities = Capabilities(reliable=False, frame_bytes_max=100_000)
        self.frames = []

    def publish(self, topics, frame):
        self.frames.append((topics[0], frame))


def sent(scenario):
    """The packets of each frame that a scenario sends."""

    async def main():
        service = Service()
        await scenario(Post(service))
        return [(topic, decode_packets(frame)) for topic, frame in service.frames]

    return asyncio.run(main())


def heard(upto):
    return Packet(0, upto, None, 1, 1)


def test_an_acknowledgement_waits_for_a_packet_that_says_it_too():
    async def scenario(post):
        post.send("a", heard(3))
        await asyncio.sleep(ACKNOWLEDGE_S / 10)
        post.send("a", Packet(1, 4, SAYS, 1, 1))
        await asyncio.sleep(2 * ACKNOWLEDGE_S)

    assert sent(scenario) == [("a", [Packet(1, 4, SAYS, 1, 1)])]


def test_an_acknowledgement_is_left_out_behind_a_packet_that_says_it_too():
    async def scenario(post):
        for before, after in ((Packet(1, 4, SAYS, 1, 1), heard(4)), (Packet(2, 4, SAYS, 1, 1), heard(5))):
            post.send("a", before)
            post.send("a", after)
        await asyncio.sleep(3 * ACKNOWLEDGE_S)

    packets = [packet for _, packets in sent(scenario) for packet in packets]
    assert packets == [Packet(1, 4, SAYS, 1, 1), Packet(2, 4, SAYS, 1, 1), heard(5)]


def test_but_not_for_long():
    async def scenario(post):
        for n in range(1, 6):
            post.send("a", heard(n))
        await asyncio.sleep(3 * ACKNOWLEDGE_S)

    assert sent(scenario) == [("a", [heard(5)])]


def test_one_that_no_later_packet_says_is_sent_before_it():
    async def scenario(post):
        post.send("a", heard(3))
        post.send("a", Packet(1, 1, SAYS, 2, 1))  # of another life
        await asyncio.sleep(0.01)

    assert sent(scenario) == [("a", [heard(3), Packet(1, 1, SAYS, 2, 1)])]


def test_who_is_met_is_answered_at_once():
    async def scenario(post):
        post.send("a", Packet(0, 0, None, 1, 1))
        await asyncio.sleep(0.01)

    assert len(sent(scenario)) == 1


def published(n, topic):
    return Publication("p", 1, n, topic, b"x", 0, 1.0, n)


def piece_of(topic):
    return bundle_of([published(1, topic)], 1, 1, {}).stamped(1, "n", 1, {topic: 0})


def test_a_single_event_overtakes_no_piece_of_an_earlier_bundle():
    """Pieces of one bundle are on several topics: who hears something later first takes the bundle apart."""
    single, early = Stamped(published(3, "a"), 1, {"a": 2}), Stamped(published(1, "b"), 1, {"b": 1})

    async def main():
        service = Service()
        post = Post(service)

        def shorten(piece):
            return Shortener().shorten(piece)

        said = (("b", early), ("a", shorten(piece_of("a"))), ("b", shorten(piece_of("b"))), ("a", single))
        for topic, note in said:
            post.announce(topic, note)
        post.flush()
        return [(topic, decode_notes(frame)) for topic, frame in service.frames]

    assert asyncio.run(main()) == [
        ("e.b", [early, piece_of("b")]),
        ("e.a", [piece_of("a")]),
        ("e.a", [single]),
    ]


# Frames that several subscriptions of one process hear.


def test_they_are_decoded_once():
    frame = encode([Heartbeat("a", 1, 7)])
    assert decode_notes(frame) is decode_notes(bytes(bytearray(frame)))


def test_a_bundle_that_is_none_is_refused_each_time():
    empty = Bundle("p", 1, 1, b"", b"", (Part("a"),), 1, 1).stamped(1, "n", 1, {"a": 0})
    for _ in range(2):
        with pytest.raises(FrameError, match="a bundle that is none"):
            decode_notes(encode([Shortener().shorten(empty)]))


def test_what_is_made_of_a_piece_is_shared():
    bundle = bundle_of([Publication("p", 1, 1, "a", b"x", 0, 1.0, 1)], 1, 1, {})
    frame = encode([Shortener().shorten(bundle.stamped(1, "n", 1, {"a": 0}))])
    [one], [other] = decode_notes(frame), decode_notes(bytes(bytearray(frame)))
    assert run_of(one) is run_of(other)
    assert run_of(one).publications[0].body == b"x"


def test_what_cannot_be_written_keeps_nothing_else_from_being_sent(caplog):
    async def scenario(post):
        for n in range(1, 6):
            post.send("a", Packet(n if n != 3 else 2**70, 0, SAYS, 1, 1))
        post.send("b", Packet(1, 0, SAYS, 1, 1))
        post.flush()
        assert post.refused == 1

    frames = sent(scenario)
    assert [packet.number for topic, packets in frames if topic == "a" for packet in packets] == [1, 2, 4, 5]
    assert [topic for topic, _ in frames][-1] == "b"
    assert "cannot be written" in caplog.text
