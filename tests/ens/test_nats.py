"""NATS core and JetStream pass the contract against a real server, and survive what happens to servers."""

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
from unisono.model.errors import (
    ClosedError,
    ConfigError,
    GapError,
    PayloadError,
    UnconfirmedError,
)
from unisono.testing import EnsContract
from unisono.testing.servers import free_port, nats_server


@pytest.fixture(autouse=True)
def _quiet(caplog):
    caplog.set_level(logging.CRITICAL + 1, "unisono")


@pytest.fixture(scope="module")
def server():
    with nats_server(jetstream=True) as running:
        yield running


class NatsContract(EnsContract):
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


class TestCore(NatsContract):
    pass


class TestJetStream(NatsContract):
    options = "?jetstream=CONTRACT"


@pytest.fixture(scope="module")
def fragile():
    """A server that tests may stop; never the one of the contract."""
    with nats_server(jetstream=True) as running:
        yield running


def test_core_goes_on_after_a_restart_and_says_what_it_may_have_cost(fragile):
    published, heard, troubles = asyncio.run(load_across_a_restart(fragile.url, fragile))
    assert set(heard) - {b"end"} <= set(published)
    assert heard[-1] == b"end"
    assert any(isinstance(t, GapError) and "NATS core keeps nothing" in str(t) for t in troubles)


def test_jetstream_loses_and_doubles_nothing_when_the_server_is_killed(fragile):
    published, heard, troubles = asyncio.run(load_across_a_restart(fragile.url + "?jetstream=LOAD", fragile))
    assert heard == [*published, b"end"]
    assert troubles == []


@pytest.mark.parametrize("query", ["?", "?jetstream=LOAD&"])
def test_during_an_outage_frames_wait_up_to_a_bound(fragile, query):
    async def main():
        heard, taken = await outage_with_a_full_outbox(fragile.url + query, fragile)
        assert {int(frame) for frame in heard} <= set(range(taken))

    asyncio.run(main())


def test_closing_is_bounded_while_the_server_is_away(fragile):
    took_s, troubles = asyncio.run(close_while_the_server_is_away(fragile.url + "?", fragile))
    assert took_s < 2
    assert [type(t) for t in troubles] == [UnconfirmedError]
    assert "1 frames were never sent" in str(troubles[0])


def test_an_end_to_reconnecting_closes_the_service(fragile):
    async def main():
        async with connected(f"{fragile.url}?max_reconnect=1&reconnect_wait=0.01") as service:
            fragile.stop()
            try:
                await until(lambda: any(isinstance(t, ClosedError) for t in service.troubles))
            finally:
                fragile.start()
            with pytest.raises(ClosedError):
                service.publish(("t",), b"x")

    asyncio.run(main())


def test_an_unreachable_server():
    port = free_port()
    says, took_s = refusal(f"nats://127.0.0.1:{port}")
    assert (
        says == f"no NATS server answers at 127.0.0.1:{port}; start one with `nats-server`, or use memory://"
    )
    assert took_s < 2


def test_several_unreachable_servers():
    says, took_s = refusal(f"nats://127.0.0.1:{free_port()},127.0.0.1:{free_port()}")
    assert says.startswith("no NATS server answers at 127.0.0.1:")
    assert took_s < 4


def test_a_port_that_belongs_to_something_else():
    with somebody_else() as port:
        says, took_s = refusal(f"nats://127.0.0.1:{port}")
    assert "is no NATS server" in says
    assert took_s < 4


def test_wrong_credentials():
    with nats_server(config="authorization { user: alice, password: secret }") as server:
        where = server.url.removeprefix("nats://")
        says, _ = refusal(f"nats://alice:wrong@{where}")
        assert "does not admit user 'alice'" in says
        says, _ = refusal(f"nats://{where}")
        assert "does not admit a client without these credentials" in says

        async def main():
            async with connected(f"nats://alice:secret@{where}") as service:
                await service.flush()

        asyncio.run(main())


def test_credentials_that_are_not_there():
    with pytest.raises(ConfigError, match=r"creds='/no/such/file.creds': there is no such file"):
        open_service("nats://h?creds=/no/such/file.creds")


def test_what_one_connection_brings_is_heard_in_its_order_whatever_the_topic(server):
    """The client of nats-py has a queue for each subscription; ours must not."""

    async def main():
        async with connected(f"{server.url}?pending_frames=1") as service:
            heard: list[bytes] = []
            for topic in "abc":
                await service.subscribe(frozenset({topic}), heard.append)
            for n in range(3000):
                service.publish(("abc"[n % 3],), b"%d" % n)
            await service.flush()
            await until(lambda: len(heard) == 3000)
            assert heard == [b"%d" % n for n in range(3000)]
            assert not service.troubles

    asyncio.run(main())


def test_a_slow_jetstream_consumer_gets_everything_all_the_same(server):
    async def main():
        async with connected(
            f"{server.url}?jetstream=CONTRACT&pending_frames=40&heartbeat=0.1&reconnect_wait=0.01"
        ) as service:
            heard = await listen(service, "slow")
            for n in range(300):
                service.publish(("slow",), b"%d" % n)
            await service.flush()
            await until(lambda: len(heard) >= 300)
            assert [int(frame) for frame in heard] == list(range(300))

    asyncio.run(main())


def test_frames_that_left_the_stream_are_a_gap(fragile):
    async def main():
        async with connected(f"{fragile.url}?jetstream=SHORT&prefix=short.&max_bytes=5000") as service:
            heard = await listen(service, "t")
            service.publish(("t",), b"first")
            await until(lambda: heard == [b"first"])
            service.client.options["reconnect_time_wait"] = 1  # so that others are quicker
            fragile.restart()
            async with connected(f"{fragile.url}?jetstream=SHORT&prefix=short.") as other:
                for _ in range(100):
                    other.publish(("t",), bytes(200))
                await other.flush()
            await until(lambda: service.troubles)
            assert isinstance(service.troubles[0], GapError)
            assert "left the stream 'SHORT'" in str(service.troubles[0])

    asyncio.run(main())


def test_a_server_without_jetstream_says_so():
    with nats_server() as server:
        says, _ = refusal(server.url + "?jetstream=S")
        assert "runs without JetStream; start it with `nats-server -js`" in says


def test_a_stream_that_holds_something_else_is_not_touched(server):
    async def main():
        async with connected(f"{server.url}?jetstream=OTHER&prefix=other."):
            pass

    asyncio.run(main())
    says, _ = refusal(server.url + "?jetstream=OTHER&prefix=mine.")
    assert "the stream 'OTHER'" in says
    assert "not 'mine.>'" in says


def test_a_server_with_smaller_frames_says_so():
    with nats_server(config="max_payload: 65536") as server:
        says, _ = refusal(server.url)
        assert "say frame_max=65536 in the URL" in says


def test_what_cannot_be_carried_is_refused(server):
    async def main():
        service = open_service(server.url + "?frame_max=1024")
        with pytest.raises(ClosedError, match="not connected"):
            service.publish(("t",), b"x")
        await service.connect()
        with pytest.raises(PayloadError, match="carries bytes, not tuple"):
            service.publish(("t",), ("x",))
        with pytest.raises(PayloadError, match="1025 bytes is over the limit"):
            service.publish(("t",), bytes(1025))
        with pytest.raises(ConfigError, match="one topic at a time"):
            service.publish(("t", "u"), b"x")
        await service.close()
        with pytest.raises(ClosedError):
            await service.connect()

    asyncio.run(main())
