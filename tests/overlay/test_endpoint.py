"""Real sockets on this machine, behind their guards."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from unisono.engines.datagrams import Guard
from unisono.model.errors import ConfigError
from unisono.runtime.overlay.endpoint import Endpoint, Where
from unisono.runtime.overlay.key import VARIABLE, find_key, key_for

KEY = b"the key of these tests"
BOUND_S = 10.0


class Peer:
    """An endpoint, and what came."""

    def __init__(self, name: str, key: bytes) -> None:
        self.got: list[tuple[str, bytes]] = []
        self.some = asyncio.Event()
        self.where: Where = ("", 0)
        self.guard = Guard(name, key, time.time_ns(), name.encode())
        self.endpoint = Endpoint(self._opened)

    def _opened(self, name: str, where: Where, payload: bytes) -> None:
        self.got.append((name, payload))
        self.some.set()
        if payload == b"raise":
            raise RuntimeError("whatever")

    async def has(self, count: int) -> None:
        async with asyncio.timeout(BOUND_S):
            while len(self.got) < count:
                self.some.clear()
                await self.some.wait()


@asynccontextmanager
async def peers(*names: str, key: bytes = KEY) -> AsyncIterator[list[Peer]]:
    async with AsyncExitStack() as stack:
        made = [Peer(name, key) for name in names]
        for peer in made:
            peer.where = await peer.endpoint.open("127.0.0.1", 0)
            peer.endpoint.begin(peer.guard)
            stack.callback(peer.endpoint.close)
        yield made


def test_payloads_come_whole_once_and_with_the_name_of_their_sender() -> None:
    async def scene() -> None:
        async with peers("a", "b") as (a, b):
            for n in range(50):
                a.endpoint.send(b.where, b"%d" % n)
            await b.has(50)
            assert sorted(b.got, key=lambda it: int(it[1])) == [("a", b"%d" % n) for n in range(50)]
            b.endpoint.send(a.where, b"back")
            await a.has(1)
            assert a.got == [("b", b"back")]

    asyncio.run(scene())


def test_what_makes_the_taker_raise_ends_nothing() -> None:
    async def scene() -> None:
        async with peers("a", "b") as (a, b):
            a.endpoint.send(b.where, b"raise")
            a.endpoint.send(b.where, b"after")
            await b.has(2)
            assert b.endpoint.stumbles == 1

    asyncio.run(scene())


def test_a_peer_that_begins_anew_at_the_same_address_is_met_again() -> None:
    async def scene() -> None:
        async with peers("a", "b") as (a, b):
            a.endpoint.send(b.where, b"one")
            await b.has(1)
            b.endpoint.close()
            await asyncio.sleep(0)
            again = Peer("b", KEY)
            await again.endpoint.open(*b.where)
            again.endpoint.begin(Guard("b", KEY, time.time_ns(), b"another life"))
            try:
                async with asyncio.timeout(BOUND_S):
                    while not again.got:
                        a.endpoint.send(b.where, b"two")
                        await asyncio.sleep(0.02)
            finally:
                again.endpoint.close()

    asyncio.run(scene())


def test_a_flood_of_forged_and_replayed_datagrams_changes_nothing_for_others() -> None:
    async def scene() -> None:
        async with peers("a", "b") as (a, b):
            a.endpoint.send(b.where, b"one")
            await b.has(1)
            recorded: list[bytes] = []
            transport = a.endpoint._transport
            assert transport is not None
            send = transport.sendto

            class Recorder:
                def __getattr__(self, name: str) -> object:
                    return getattr(transport, name)

                def sendto(self, data: bytes, to: Where) -> None:
                    recorded.append(data)
                    send(data, to)

            a.endpoint._transport = Recorder()  # type: ignore[assignment]
            a.endpoint.send(b.where, b"two")
            await b.has(2)
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
                for i in range(5000):
                    forged = bytearray(recorded[0])
                    forged[i % len(forged)] ^= 1 + i % 255
                    stranger.sendto(recorded[0] if i % 2 else bytes(forged), b.where)
                    if i % 100 == 0:
                        a.endpoint.send(b.where, b"%d" % i)
                        await asyncio.sleep(0)
            await b.has(2 + 50)
            assert len(b.got) == 52
            assert b.endpoint.guard.refused.total() > 1000

    asyncio.run(scene())


def test_another_key_is_not_heard() -> None:
    async def scene() -> None:
        async with peers("a", "b") as (a, b), peers("x", key=b"some other key, longer") as (x,):
            x.endpoint.send(b.where, b"hello?")
            a.endpoint.send(b.where, b"one")
            await b.has(1)
            assert b.got == [("a", b"one")]
            assert b.endpoint.guard.refused == {"made with another key": 1}

    asyncio.run(scene())


def test_an_address_that_is_taken_or_nowhere_is_said_so() -> None:
    async def scene() -> None:
        async with peers("a") as (a,):
            for host, port in (a.where, ("192.0.2.1", 0), ("no such host.invalid", 0)):
                with pytest.raises(ConfigError, match="cannot be taken"):
                    await Peer("b", KEY).endpoint.open(host, port)

    asyncio.run(scene())


def test_keys_come_from_a_file_or_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert find_key() is None
    file = tmp_path / "key"
    file.write_text("0123456789abcdef0123\n")
    monkeypatch.setenv(VARIABLE, "0123456789abcdef0123")
    assert find_key(str(file)) == find_key()
    file.write_text("short")
    with pytest.raises(ConfigError, match="5 bytes"):
        find_key(str(file))
    with pytest.raises(ConfigError, match="cannot be read"):
        find_key(str(tmp_path / "none"))


def test_without_a_key_only_this_machine_is_talked_to() -> None:
    assert key_for("127.0.0.1", None) == key_for("localhost", None) == key_for("::1", None)
    assert key_for("10.0.0.1", b"key") == b"key"
    with pytest.raises(ConfigError, match="key_file"):
        key_for("10.0.0.1", None)
