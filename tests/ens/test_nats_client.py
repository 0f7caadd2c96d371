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
        self.client._fed(self._usual, data)

    def _usual(self, data):
        self.rest += data


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
        b"INFO {%b}\r\n" % bytes(10_000),
        message(5, sid=8),
        message(5, sid=99),
        message(5, sid=8, reply=b"_INBOX.1"),
        b"HMSG u.t 8 12 13\r\nNATS/1.0\r\n\r\nx\r\n",
        b"MSG u.t 7 x\r\n",
        b"MSG 7\r\n",
        b"MSG\r\n",
    ],
)
def test_everything_else_goes_its_usual_way_and_nothing_that_is_behind_it(other):
    """Else a server that asks whether we live would keep us from the short way for as long as it has much to say."""
    one = reading(Reading)
    whole = message(1) + other + message(2) + other + message(3)
    for at in range(0, len(whole), 11):
        one.feed(whole[at : at + 11])
    assert [data for _, data in one.heard] == [b"%d\r\nMSG " % n for n in (1, 2, 3)]
    assert one.rest == 2 * other


@pytest.mark.parametrize(
    "ours",
    [
        b"MSG u.t 7 _INBOX.1 1\r\nx\r\n",
        b"HMSG u.t 7 12 13\r\nNATS/1.0\r\n\r\nx\r\n",
        b"HMSG u.t 7 _INBOX.1 12 13\r\nNATS/1.0\r\n\r\nx\r\n",
    ],
)
def test_what_has_headers_or_wants_an_answer_is_overtaken_by_nothing(ours):
    one = reading(Reading)
    one.feed(message(1) + ours + message(2))
    assert one.heard == [("u.t", b"1\r\nMSG "), ("u.t", b"x"), ("u.t", b"2\r\nMSG ")]
    assert one.rest == b""


@pytest.mark.parametrize(
    "nonsense", [b"MSG u.t 7 3\r\nabcdef\r\n", b"MSG u.t 7 %d\r\n" % 10**9, b"HMSG u.t 7 9 1\r\nabc\r\n"]
)
def test_behind_nonsense_everything_goes_its_usual_way(nonsense):
    one = reading(Reading)
    one.feed(message(1) + nonsense + message(2))
    one.feed(message(3))
    assert one.heard == [("u.t", b"1\r\nMSG ")]
    assert one.rest == nonsense + message(2) + message(3)


def test_a_line_that_never_ends_is_nonsense_too(monkeypatch):
    monkeypatch.setattr("unisono.ens.nats_client.LINE_BYTES_MAX", 100)
    one = reading(Reading)
    one.feed(message(1) + b"\r\n")
    for _ in range(30):
        one.feed(b"endless ")
    one.feed(message(2))
    assert one.heard == [("u.t", b"1\r\nMSG ")]
    assert one.rest == b"\r\n" + 30 * b"endless " + message(2)


@given(st.lists(st.integers(1, 40), max_size=12), st.lists(st.sampled_from((7, 8)), min_size=6, max_size=6))
@settings(max_examples=100, deadline=None)
def test_nothing_is_lost_or_doubled_wherever_it_is_cut(cuts, sids):
    messages = [message(n, sid) for n, sid in enumerate(sids)]
    whole = b"".join(messages)
    one = reading(Reading)
    at = 0
    for cut in cuts:
        one.feed(whole[at : at + cut])
        at += cut
    one.feed(whole[at:]) if whole[at:] else None
    assert [data for _, data in one.heard] == [b"%d\r\nMSG " % n for n, sid in enumerate(sids) if sid == 7]
    assert one.rest == b"".join(message for message, sid in zip(messages, sids, strict=True) if sid == 8)


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


@pytest.mark.parametrize("portion", [1, 7, 10_000])
def test_what_comes_with_the_greeting_is_heard_too(portion):
    """Bytes that were read before we look at the connection may be a part of a message."""
    payload = b"x\r\nMSG u.t 1 1\r\ny\r\n" + b"z" * 29  # not to be taken for a message

    async def main():
        heard, done, ended = [], asyncio.Event(), asyncio.Event()

        async def serve(reader, writer):
            said = b""

            async def hear(what, times=1):
                nonlocal said
                while said.count(what) < times:
                    if not (more := await reader.read(1000)):
                        raise EOFError(said)
                    said += more

            writer.write(b'INFO {"server_id":"S","version":"2.15.1","max_payload":1048576}\r\n')
            await hear(b"PING\r\n")
            more = b"PING\r\nMSG u.t 1 %d\r\n%b\r\nPING\r\n" % (len(payload), payload)
            writer.write(b"PONG\r\n" + more[:portion])
            await hear(b"SUB u.t")
            writer.write(more[portion:])
            await hear(b"PONG\r\n", 2)
            done.set()
            await reader.read()
            writer.close()
            await writer.wait_closed()
            ended.set()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        client = DirectClient()
        await client.connect(f"nats://127.0.0.1:{server.sockets[0].getsockname()[1]}", allow_reconnect=False)
        await client.listen("u.t", lambda name, data: heard.append((name, data)))
        async with asyncio.timeout(10):
            await done.wait()
            assert heard == [("u.t", payload)]
            await client.close()
            await ended.wait()
        server.close()

    asyncio.run(main())


@pytest.mark.parametrize("half", [True, False])
def test_a_server_that_leaves_right_after_its_greeting_is_looked_for_at_once(half):
    """It says more of itself behind its first answer, and is gone before anybody listens."""
    info = b'INFO {"server_id":"S","version":"2.15.1","max_payload":1048576}\r\n'

    async def main():
        greeted, serving, back = [], set(), asyncio.Event()

        async def serve(reader, writer):
            greeted.append(writer)
            serving.add(asyncio.current_task())
            writer.write(info)
            said = b""
            while b"PING\r\n" not in said:
                said += await reader.read(1000)
            writer.write(b"PONG\r\n" + info)
            if len(greeted) > 1:
                back.set()
            elif half:
                writer.write_eof()
            else:
                writer.close()
            await reader.read()
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        client = DirectClient()
        url = f"nats://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        await client.connect(url, reconnect_time_wait=0.01, max_reconnect_attempts=-1, ping_interval=60)
        async with asyncio.timeout(10):
            await back.wait()
            await client.close()
            await asyncio.gather(*serving)
        server.close()

    asyncio.run(main())
