"""A desk that is killed in the middle of its work, and goes on where it was: nothing is missing, nothing counts twice.

Run it as it is: `python examples/durable_desk.py`. It starts the bundled NATS server in a temporary folder.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import sqlite3
import tempfile
from pathlib import Path

import unisono
from unisono.ens.registry import open_service
from unisono.runtime.remote.node import Node
from unisono.server import BundledServer, ServerSettings

EVENTS = 300


def desk(url: str, ledger: str) -> None:
    """A process that books payments and refunds, in their order, until everything is booked."""

    async def book() -> None:
        # Whoever is called "ledger" holds its place. We know that the one before us is dead, so we take it.
        place = {"name": "ledger", "ack": "auto", "start": "earliest", "held": "take"}
        async with unisono.connect(url) as bus, bus.subscribe("payments", "refunds", **place) as events:
            async for event in events:
                with sqlite3.connect(ledger) as books:  # an event may come again; its id does not change
                    books.execute("INSERT OR IGNORE INTO booked VALUES (?, ?)", (event.id, event.data))
                    if books.execute("SELECT count(*) FROM booked").fetchone()[0] == EVENTS:
                        return

    asyncio.run(book())


def booked(ledger: str) -> tuple[int, int]:
    """How many events are in the books, and what they add up to."""
    with sqlite3.connect(ledger) as books:
        count, total = books.execute("SELECT count(*), coalesce(sum(amount), 0) FROM booked").fetchone()
    return count, total


async def main() -> None:
    """A broker, a node, a publisher, and a desk that is killed."""
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as data:
        ledger = str(Path(data) / "ledger.db")
        with sqlite3.connect(ledger) as books:
            books.execute("CREATE TABLE booked (id TEXT PRIMARY KEY, amount INTEGER)")
        server = BundledServer(ServerSettings(data=Path(data) / "server"))
        async with (
            server,
            Node(open_service(server.url), "n1") as node,
            unisono.connect(server.url) as bus,
        ):
            await node.ready()
            first = context.Process(target=desk, args=(server.url, ledger))
            first.start()
            for n in range(EVENTS):
                await bus.publish("refunds" if n % 3 == 2 else "payments", -1 if n % 3 == 2 else 2)
            while booked(ledger)[0] < EVENTS // 10:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            first.kill()
            first.join()
            print(f"killed with {booked(ledger)[0]} of {EVENTS} events booked")
            second = context.Process(target=desk, args=(server.url, ledger))
            second.start()
            await asyncio.to_thread(second.join, 60)
        print("{} events booked, which add up to {}".format(*booked(ledger)))


if __name__ == "__main__":
    asyncio.run(main())
