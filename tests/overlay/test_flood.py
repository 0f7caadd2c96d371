"""A dispatcher process under a flood of forged and replayed datagrams: nothing changes for others."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from random import Random

import pytest

import unisono
from unisono.engines.datagrams import Outgoing
from unisono.runtime.overlay.endpoint import Endpoint
from unisono.runtime.overlay.key import VARIABLE

PACKETS = int(os.environ.get("FLOOD_PACKETS", "20000"))  # make overlay-flood: 100,000
AT_ONCE = 50
GROWN_KIB_MAX = 16 * 1024  # of the dispatcher's memory
SEEDS = Random(9)


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """What peers in this process send, as somebody on the way could record it."""
    taken: list[bytes] = []
    send = Endpoint._send

    def send_and_record(self: Endpoint, out: Outgoing) -> None:
        if len(taken) < 2_000:
            taken.append(out.data)
        send(self, out)

    monkeypatch.setattr(Endpoint, "_send", send_and_record)
    return taken


def bad_datagram(recorded: list[bytes]) -> bytes:
    """A replay, a replay with a bit changed, one with another end, or noise."""
    data = bytearray(SEEDS.choice(recorded))
    kind = SEEDS.randrange(4)
    if kind == 1:
        data[SEEDS.randrange(len(data))] ^= 1 << SEEDS.randrange(8)
    if kind == 2:
        data[-16:] = SEEDS.randbytes(16)
    return SEEDS.randbytes(SEEDS.randrange(1, 1400)) if kind == 3 else bytes(data)


def resident_kib(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))


def dropped_by_the_system(port: int) -> int:
    """Datagrams to this port that nobody fetched in time."""
    lines = [line.split() for line in Path("/proc/net/udp").read_text().splitlines()[1:]]
    return sum(int(line[-1]) for line in lines if int(line[1].split(":")[1], 16) == port)


class Attacker:
    """Sends from many ports of its own, and counts what comes back."""

    def __init__(self, to: tuple[str, int]) -> None:
        self._sockets = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(20)]
        for one in self._sockets:
            one.setblocking(False)
            one.connect(to)
        self.sent = self.came = 0

    async def flood(self, recorded: list[bytes], packets: int) -> None:
        for n in range(packets):
            self.sent += self._sockets[n % 20].send(bad_datagram(recorded))
            if n % AT_ONCE == 0:
                self.listen()
                await asyncio.sleep(0.001)

    def listen(self) -> None:
        for one in self._sockets:
            try:
                while data := one.recv(65536):
                    self.came += len(data)
            except (BlockingIOError, ConnectionError):
                continue

    def close(self) -> None:
        for one in self._sockets:
            one.close()


@pytest.mark.timeout(240)
def test_a_flood_changes_nothing_for_others(tmp_path: Path, recorded: list[bytes]) -> None:
    key = tmp_path / "key"
    key.write_text("a key that the attacker does not have")
    words = ["dispatcher", "--json", "--listen", "udp://127.0.0.1:0"]
    process = subprocess.Popen(
        [sys.executable, "-m", "unisono", *words],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, VARIABLE: key.read_text()},  # as good as a file
    )
    assert process.stdout is not None
    url = json.loads(process.stdout.readline())["url"]
    host, port = url.removeprefix("udp://").split(":")
    attacker = Attacker((host, int(port)))

    async def scene() -> None:
        async with (
            unisono.connect(f"{url}?key_file={key}") as near,
            near.subscribe("t", order="fifo", on_gap="skip", max_hold=10) as events,
            unisono.connect(f"{url}?key_file={key}") as publisher,
        ):
            for n in range(200):
                await publisher.publish("t", n)
            assert [(await events.get_one(timeout=10)).data for _ in range(200)] == list(range(200))
            before_kib, published = resident_kib(process.pid), 200
            began = time.monotonic()
            flood = asyncio.create_task(attacker.flood(recorded, PACKETS))
            while not flood.done():
                publisher.publish_nowait("t", published)
                published += 1
                await asyncio.sleep(0.01)
            await flood
            lasted_s = time.monotonic() - began
            got = [(await events.get_one(timeout=10)).data for _ in range(published - 200)]
            assert got == list(range(200, published))  # all of it, in order, nothing twice
            attacker.listen()
            met = PACKETS - dropped_by_the_system(int(port))
            grown_kib = resident_kib(process.pid) - before_kib
            print(
                f"{PACKETS:,} datagrams in {lasted_s:.1f} s ({met:,} met the guard), {attacker.sent:,} bytes in, {attacker.came:,} out; "
                f"{published - 200} events of others, all came; memory grew by {grown_kib} KiB"
            )
            assert met > PACKETS / 2
            assert 0 < attacker.came <= attacker.sent / 10
            assert grown_kib < GROWN_KIB_MAX
            assert process.poll() is None

    try:
        asyncio.run(scene())
    finally:
        attacker.close()
        process.kill()
        process.wait()
        process.stdout.close()
