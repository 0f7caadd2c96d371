"""The brokers of a run: servers of its own, their data in a folder of its own."""

from __future__ import annotations

import asyncio
import os
import random
import socket
import subprocess
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from unisono.lab.faults.nursery import Nursery
from unisono.lab.faults.processes import Process
from unisono.model.errors import ServerError
from unisono.server import BundledCluster, ServerSettings
from unisono.testing.servers import HOST, free_port, program

START_S = 30.0
DISK_MB = 24  # of a disk that will be full
SMALL_STORE = "16MB"  # what a server may store that will be full
HOG_BYTES = (64 * 1024, 512)  # of what fills it: large pieces, then small ones


class Broker:
    """One server, killed and started again on what it has stored."""

    servers = 1

    def __init__(self, nursery: Nursery, folder: Path, transport: str) -> None:
        self.port = free_port()
        self.url = f"{transport}://{HOST}:{self.port}"
        self.data = folder / "data"
        self.data.mkdir(exist_ok=True)
        self._conf = folder / "nats.conf"
        self._disk = Disk(self.data)
        if transport == "nats":
            self._allow("8GB")
            argv = [program("nats-server"), "-c", str(self._conf)]
        else:
            place = ["--port", str(self.port), "--bind", HOST, "--dir", str(self.data)]
            durable = ["--save", "", "--appendonly", "yes", "--appendfsync", "always"]
            argv = [program("redis-server"), *place, *durable]
        self.process = Process(nursery, "server", argv, folder, program=True)

    def _allow(self, store: str) -> None:
        settings = f'store_dir: "{self.data}", max_file_store: {store}'
        self._conf.write_text(f"listen: {HOST}:{self.port}\njetstream {{ {settings} }}\n")

    def make_small(self, how: str) -> None:
        """Let its disk be full soon, or on request."""
        if how == "disk":
            self._disk.mount()
        else:
            self._allow(SMALL_STORE)

    async def start(self) -> None:
        """Start it, and return when it answers."""
        await self.process.start()
        async with asyncio.timeout(START_S):
            while not answers(self.port):
                if not self.process.is_running:
                    raise RuntimeError(f"the server does not start; see {self.process.log}")
                await asyncio.sleep(0.02)

    async def kill(self) -> None:
        """kill -9."""
        await self.process.kill()

    async def fill(self, how: str) -> None:
        """There is no room on its disk, or it may store no more."""
        if how == "disk":
            self._disk.fill()
            return
        import nats  # an extra: the command line must start without it
        from nats.js.errors import APIError

        async with await nats.connect(self.url) as client:
            stream = client.jetstream()
            await stream.add_stream(name="hog", subjects=["hog"])
            for size in HOG_BYTES:
                with suppress(APIError):
                    while await stream.publish("hog", bytes(size)):
                        pass

    async def make_room(self) -> None:
        """There is room again; what nats-server has given up it takes up again when it is restarted."""
        self._disk.free()
        self._allow("8GB")
        self.process.ask_to_stop()
        if not await self.process.ended(START_S):
            await self.process.kill()
        await self.start()

    async def close(self) -> None:
        """Leave nothing behind."""
        await self.kill()
        self._disk.unmount()


class Disk:
    """A small file system of its own."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self._hog = place / "hog"
        self._mounted = False

    def mount(self) -> None:
        """Put it where the data will be."""
        command = ["mount", "-t", "tmpfs", "-o", f"size={DISK_MB}m", "unisono-faults", str(self._place)]
        subprocess.run(command, check=True, capture_output=True)
        self._mounted = True

    def fill(self) -> None:
        """Use everything that is left of it."""
        file = os.open(self._hog, os.O_WRONLY | os.O_CREAT)
        try:
            for size in HOG_BYTES:
                with suppress(OSError):
                    while os.write(file, bytes(size)):
                        pass
        finally:
            os.close(file)

    def free(self) -> None:
        """Give it back."""
        self._hog.unlink(missing_ok=True)

    def unmount(self) -> None:
        """Take it away, with what is on it."""
        if self._mounted:
            subprocess.run(["umount", "-l", str(self._place)], check=False, capture_output=True)


class Cluster:
    """Three NATS servers that store everything together, of which one is killed."""

    servers = 3

    def __init__(self, folder: Path, dice: random.Random) -> None:
        data = folder / "data"
        self._cluster = BundledCluster(ServerSettings(data=data, port=0), on_trouble=_ignore)
        self._dice = dice

    @property
    def url(self) -> str:
        """All of them."""
        url = self._cluster.url
        return f"{url}{'&' if '?' in url else '?'}durability=replicated"

    async def start(self) -> None:
        """Start them all."""
        await self._cluster.start()

    async def leaders(self, lanes: Iterable[str]) -> dict[str, str]:
        """The server that leads each lane, and the records, as far as it is known."""
        streams = {lane: f"u_lane_{lane}" for lane in lanes} | {"": "KV_unisono"}
        found = {lane: await self._cluster.stream_leader(stream) for lane, stream in streams.items()}
        return {lane: leader for lane, leader in found.items() if leader}

    def any_server(self) -> str:
        """One that runs."""
        return self._dice.choice(self._cluster.running)

    async def kill(self, name: str) -> None:
        """kill -9 of one."""
        await self._cluster.kill(name)

    async def revive(self, name: str) -> None:
        """Start it again; returns when it has caught up."""
        await self._cluster.start_server(name)

    async def close(self) -> None:
        """Stop them all."""
        await self._cluster.stop()


def _ignore(error: ServerError) -> None:
    pass


def answers(port: int) -> bool:
    """Whether somebody listens there."""
    with suppress(OSError), socket.create_connection((HOST, port), timeout=0.2):
        return True
    return False


def why_no_disk() -> str | None:
    """Why no file system can be mounted here; None if it can."""
    return None if os.geteuid() == 0 else "mounting a small file system takes root"
