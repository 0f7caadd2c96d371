"""MQTT passes the contract against a real Mosquitto, and survives what happens to brokers."""

import asyncio
import dataclasses
import logging

import pytest
from ens_kit import (
    close_while_the_server_is_away,
    connected,
    listen,
    load_across_a_restart,
    outage_with_a_full_outbox,
    refusal,
    somebody_else,
    until,
)

from unisono.ens.registry import open_service
from unisono.model.errors import ClosedError, GapError, UnconfirmedError
from unisono.testing import EnsContract
from unisono.testing.servers import free_port, mosquitto_server, why_no_mosquitto


@pytest.fixture(autouse=True)
def _quiet(caplog):
    caplog.set_level(logging.CRITICAL + 1, "unisono")


pytestmark = pytest.mark.skipif(why_no_mosquitto() is not None, reason=str(why_no_mosquitto()))


@pytest.fixture(scope="module")
def server():
    with mosquitto_server() as running:
        yield running


class MqttContract(EnsContract):
    is_ordered = True
    options = ""

    @pytest.fixture(autouse=True)
    def _server(self, server):
        self.url = server.url + self.options

    def make_service(self):
        service = open_service(self.url)
        # While nothing fails, nothing is lost either, whatever is promised: hold it to that.
        service._capabilities = dataclasses.replace(service.capabilities, reliable=True)
        return service


class TestQos1(MqttContract):
    pass


class TestQos0(MqttContract):
    options = "?qos=0"


@pytest.fixture(scope="module")
def fragile():
    """A broker that tests may stop; never the one of the contract."""
    with mosquitto_server() as running:
        yield running


def test_qos_1_loses_nothing_when_the_broker_is_restarted(fragile):
    published, heard, troubles = asyncio.run(load_across_a_restart(fragile.url, fragile, kill=False))
    assert set(heard) == {*published, b"end"}  # QoS 1 is at least once
    assert troubles == []


def test_a_broker_that_forgets_our_session_is_a_gap(fragile):
    published, heard, troubles = asyncio.run(load_across_a_restart(fragile.url, fragile, kill=True))
    assert set(heard) - {b"end"} <= set(published)
    assert any(isinstance(t, GapError) and "has forgotten our session" in str(t) for t in troubles)


@pytest.mark.parametrize("query", ["?", "?qos=0&"])
def test_during_an_outage_frames_wait_up_to_a_bound(fragile, query):
    async def main():
        heard, taken = await outage_with_a_full_outbox(fragile.url + query, fragile)
        assert {int(frame) for frame in heard} <= set(range(taken))

    asyncio.run(main())


def test_closing_is_bounded_while_the_broker_is_away(fragile):
    took_s, troubles = asyncio.run(close_while_the_server_is_away(fragile.url + "?", fragile))
    assert took_s < 2
    assert [type(t) for t in troubles] == [UnconfirmedError]


def test_an_end_to_reconnecting_closes_the_service(fragile):
    async def main():
        async with connected(f"{fragile.url}?max_reconnect=1&reconnect_wait=0.01") as service:
            fragile.stop()
            try:
                await until(lambda: service.troubles)
            finally:
                fragile.start()
            assert "attempts to connect failed" in str(service.troubles[0])
            with pytest.raises(ClosedError):
                service.publish(("t",), b"x")

    asyncio.run(main())


def test_a_reader_that_lags_behind_gets_everything(server):
    async def main():
        async with connected(server.url) as reader, connected(server.url) as writer:
            heard = await listen(reader, "lag")
            frames = [b"%d" % n + bytes(1000) for n in range(3000)]  # Mosquitto's own limit would be 1,000
            for frame in frames:
                writer.publish(("lag",), frame)
            await writer.flush()
            await until(lambda: len(heard) >= len(frames))
            assert heard == frames

    asyncio.run(main())


def test_a_client_id_begins_anew(server):
    async def main():
        url = f"{server.url}?client_id=desk-7"
        first = open_service(url)
        await first.connect()
        await first.subscribe(frozenset({"old"}), lambda frame: None)
        first._ids.clear()  # as if it had crashed: it does not take its leave
        await first.close()
        async with connected(url) as second:
            assert not second.client.had_session
            heard = await listen(second, "new")
            second.publish(("old",), b"old")
            second.publish(("new",), b"new")
            await until(lambda: heard == [b"new"])

    asyncio.run(main())


def test_an_unreachable_broker():
    port = free_port()
    says, took_s = refusal(f"mqtt://127.0.0.1:{port}")
    assert says.startswith(f"no MQTT broker answers at 127.0.0.1:{port}")
    assert "start one with `mosquitto`, or use memory://" in says
    assert took_s < 2


def test_a_port_that_belongs_to_something_else():
    with somebody_else() as port:
        says, took_s = refusal(f"mqtt://127.0.0.1:{port}?connect_timeout=0.5")
    assert "is no MQTT 5 broker" in says
    assert took_s < 4


def test_wrong_credentials():
    with mosquitto_server("allow_anonymous false") as server:
        where = server.url.removeprefix("mqtt://")
        assert "does not admit user 'alice'" in refusal(f"mqtt://alice:wrong@{where}")[0]
        assert "does not admit a client without a user" in refusal(f"mqtt://{where}")[0]
