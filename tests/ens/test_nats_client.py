"""The short way into the NATS client: whatever comes in whatever portions, listeners hear it once and in order."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unisono.ens.nats_client import DirectClient, _Hearer


class Subscription:
    def __init__(self, callback):
        self._cb = callback


class Reading:
    """A client that has been connected, and what its ordinary way would have been given."""

    def __init__(self):
        self.client = DirectClient()
        self.heard = []
        self.rest = b""
        self.client._subs = {7: Subscription("ours"), 8: Subscription("a queue's")}
        self.client._hears = {"ours": _Hearer(lambda name, data: self.heard.append((name, data)), str, True)}
        self.reader = asyncio.StreamReader()

    def feed(self, data):
        self.client._fed(self.reader, self._usual, data)

    def _usual(self, data):
        self.rest += data
        self.reader._buffer.extend(data)


def message(n, sid=7, reply=b""):
    payload = b"%d\r\nMSG " % n
    return b"MSG u.t %d %b%d\r\n%b\r\n" % (sid, reply and reply + b" ", len(payload), payload)


def reading(made):
    """Make one where there is a loop, which a reader wants."""

    async def main():
        return made()

    return asyncio.run(main())


def test_what_is_ours_is_heard_at_once():
    one = reading(Reading)
    one.feed(message(1) + message(2))
    assert one.heard == [("u.t", b"1\r\nMSG "), ("u.t", b"2\r\nMSG ")]
    assert one.rest == b""


def test_a_subject_that_is_no_text_is_left_out_and_nothing_else():
    one = reading(Reading)
    one.feed(message(1) + b"MSG u.\xff 7 3\r\nabc\r\n" + message(2))
    assert one.heard == [("u.t", b"1\r\nMSG "), ("u.t", b"2\r\nMSG ")]
    assert one.rest == b""


def test_ways_are_forgotten_when_there_are_too_many(monkeypatch):
    monkeypatch.setattr("unisono.ens.nats_client.WAYS_MAX", 3)
    one = reading(Reading)
    for n in range(10):
        one.feed(b"MSG u.%d 7 1\r\nx\r\n" % n)
    assert [name for name, _ in one.heard] == [f"u.{n}" for n in range(10)]
    assert len(one.client._ways) <= 3
    assert len(one.client._lines) <= 3


def test_subjects_that_come_once_are_not_remembered():
    one = reading(Reading)
    one.client._hears["ours"] = one.client._hears["ours"]._replace(remember=False)
    for n in range(3):
        one.feed(b"MSG u.%d 7 1\r\nx\r\n" % n)
    assert [name for name, _ in one.heard] == ["u.0", "u.1", "u.2"]
    assert not one.client._ways
    assert not one.client._lines


def test_what_can_wait_is_done_when_everything_that_was_read_has_been_heard():
    one = reading(Reading)
    done = []

    def hear(name, data):
        one.client.soon(lambda: done.append((len(one.heard), data)))
        one.heard.append((name, data))

    one.client._hears["ours"] = one.client._hears["ours"]._replace(hear=hear)
    one.feed(b"MSG u.t 7 1\r\na\r\n" * 3)
    assert done == [(3, b"a")] * 3


def test_what_is_done_then_may_raise_and_may_want_to_do_more():
    async def main():
        one, done = Reading(), []

        def hear(name, data):
            one.client.soon(lambda: 1 / 0)
            one.client.soon(lambda: one.client.soon(lambda: done.append(data)))

        one.client._hears["ours"] = one.client._hears["ours"]._replace(hear=hear)
        one.feed(b"MSG u.t 7 1\r\na\r\n")
        assert not done
        await asyncio.sleep(0)
        assert done == [b"a"]
        one.client.soon(lambda: done.append(b"b"))  # nothing is being read: in the next turn
        assert done == [b"a"]
        await asyncio.sleep(0)
        assert done == [b"a", b"b"]

    asyncio.run(main())


@pytest.mark.parametrize(
    "other",
    [
        b"PING\r\n",
        b"PONG\r\n",
        b"-ERR 'x'\r\n",
        b"+OK\r\n",
        message(5, sid=8),
        message(5, sid=99),
        message(5, reply=b"_INBOX.1"),
        b"HMSG u.t 7 12 13\r\nNATS/1.0\r\n\r\nx\r\n",
        b"MSG u.t 7 x\r\n",
        b"MSG u.t 7\r\n\r\n",
        b"MSG u.t 7 3\r\nabcdef\r\n",
    ],
)
def test_everything_else_goes_its_usual_way_and_so_does_what_is_behind_it(other):
    one = reading(Reading)
    one.feed(message(1) + other + message(2))
    one.feed(message(3))
    assert one.heard == [("u.t", b"1\r\nMSG ")]
    assert one.rest == other + message(2) + message(3)


@given(st.lists(st.integers(1, 40), max_size=12))
@settings(max_examples=100, deadline=None)
def test_nothing_is_lost_or_doubled_wherever_it_is_cut(cuts):
    whole = b"".join(message(n) for n in range(6))
    one = reading(Reading)
    at = 0
    for cut in cuts:
        one.feed(whole[at : at + cut])
        at += cut
    one.feed(whole[at:]) if whole[at:] else None
    heard = b"".join(message(n) for n in range(len(one.heard)))
    assert [data for _, data in one.heard] == [b"%d\r\nMSG " % n for n in range(len(one.heard))]
    assert heard + one.rest == whole


def test_a_long_message_that_comes_in_portions_is_heard_when_it_is_whole():
    payload = bytes(1000)
    whole = message(1) + b"MSG u.t 7 1000\r\n%b\r\n" % payload + message(2)
    one = reading(Reading)
    for at in range(0, len(whole), 60):
        one.feed(whole[at : at + 60])
    assert [data for _, data in one.heard] == [b"1\r\nMSG ", payload, b"2\r\nMSG "]
    assert one.rest == b""


def test_whoever_raises_ends_nothing(caplog):
    one = reading(Reading)
    one.client._hears = {"ours": _Hearer(lambda name, data: 1 / 0, str, True)}
    one.feed(message(1) + b"PING\r\n")
    assert one.rest == b"PING\r\n"
    assert "raised" in caplog.text


class Transport:
    def __init__(self):
        self.log = []
        self.closing = False

    def pause_reading(self):
        self.log.append("pause")

    def resume_reading(self):
        self.log.append("resume")

    def is_closing(self):
        return self.closing


@pytest.mark.parametrize(
    ("size", "closing", "full", "log"),
    [
        (10, False, False, []),
        (40_000, False, False, ["pause", "resume"]),
        (40_000, True, False, ["pause"]),
        (40_000, False, True, ["pause"]),
    ],
)
def test_who_was_told_much_has_its_turn_before_more_is_read(size, closing, full, log):
    async def main():
        one, transport = Reading(), Transport()
        one.client._reading = one.reader, transport
        one.reader._paused, transport.closing = full, closing
        one.feed(b"MSG u.t 7 %d\r\n%b\r\n" % (size, bytes(size)))
        assert transport.log == log[:1]
        await asyncio.sleep(0)
        assert transport.log == log

    asyncio.run(main())
