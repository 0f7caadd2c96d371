"""The brokers of a run: a server process of its own, its data in a folder of its own."""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from pathlib import Path

from unisono.lab.faults.nursery import Nursery
from unisono.lab.faults.processes import Process
from unisono.testing.servers import HOST, free_port, program

START_S = 30.0


class Broker:
    """One server, killed and started again on what it has stored."""

    def __init__(self, nursery: Nursery, folder: Path, transport: str) -> None:
        self.port = free_port()
        self.url = f"{transport}://{HOST}:{self.port}"
        data = folder / "data"
        data.mkdir(exist_ok=True)
        if transport == "nats":
            path = folder / "nats.conf"
            path.write_text(
                f'listen: {HOST}:{self.port}\njetstream {{ store_dir: "{data}", max_file_store: 8GB }}\n'
            )
            argv = [program("nats-server"), "-c", str(path)]
        else:
            place = ["--port", str(self.port), "--bind", HOST, "--dir", str(data)]
            durable = ["--save", "", "--appendonly", "yes", "--appendfsync", "always"]
            argv = [program("redis-server"), *place, *durable]
        self.process = Process(nursery, "server", argv, folder, program=True)

    async def start(self) -> None:
        """Start it, and return when it answers."""
        await self.process.start()
        async with asyncio.timeout(START_S):
            while not answers(self.port):
                if not self.process.is_running:
                    raise RuntimeError(f"the server does not start; see {self.process.log}")
                await asyncio.sleep(0.02)


def answers(port: int) -> bool:
    """Whether somebody listens there."""
    with suppress(OSError), socket.create_connection((HOST, port), timeout=0.2):
        return True
    return False
