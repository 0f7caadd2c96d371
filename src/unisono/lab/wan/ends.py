"""The publisher and the subscribers of a run, each a process: `python -m unisono.lab.wan.ends ROLE FILE`.

FILE has the work as JSON. A subscriber prints a line when it is subscribed, and ends when it has everything or is
told to (SIGTERM); what it had, and when, is then in its file. Times are of the machine's steady clock.
"""

from __future__ import annotations

import asyncio
import signal
import struct
import sys
import time
from contextlib import suppress
from pathlib import Path

import msgspec

import unisono

TOPICS = tuple(f"topic.{i}" for i in range(5))
HEAD = struct.Struct("<QII")  # when it was published (ns), in which phase, its number there
RECORD = struct.Struct(HEAD.format + "Q")  # and when it was had
PAD = bytes(100 - HEAD.size)
READY = '{"ready": true}'
WARM_UP = 2**32 - 1  # what does not count: before each phase an event on each topic
SETTLE_S = 1.0  # until what came of starting everything is over
PUBLISH_S = 300.0  # for an acknowledgement: lines may be full


class Phase(msgspec.Struct, frozen=True):
    """Events at a steady rate, each on one of the topics."""

    rate_s: float
    topics: list[int]


class Work(msgspec.Struct, frozen=True):
    """What one process is to do."""

    url: str
    name: str
    phases: list[Phase]
    out: str = ""  # of a subscriber: where it writes what it had

    @property
    def expected(self) -> int:
        """Events in all, warm-ups included."""
        return sum(len(TOPICS) + len(phase.topics) for phase in self.phases)


async def publish(work: Work) -> None:
    """All phases, one after the other; the next begins when the lines have nothing more to carry of the last one."""
    async with unisono.connect(work.url, name=work.name, publish_timeout=PUBLISH_S) as bus:
        for i, phase in enumerate(work.phases):
            await asyncio.gather(*(bus.publish(topic, _payload(WARM_UP, i)) for topic in TOPICS))
            await asyncio.sleep(0 if i else SETTLE_S)
            began = time.monotonic()
            for n, place in enumerate(phase.topics):
                await asyncio.sleep(max(0.0, began + n / phase.rate_s - time.monotonic()))
                bus.publish_nowait(TOPICS[place], _payload(i, n))
            await bus.flush()


def _payload(phase: int, n: int) -> bytes:
    return HEAD.pack(time.monotonic_ns(), phase, n) + PAD


async def subscribe(work: Work) -> None:
    """Take what is due, then write it down."""
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    had: list[bytes] = []
    with suppress(asyncio.CancelledError):
        async with (
            unisono.connect(work.url, name=work.name) as bus,
            bus.subscribe(*TOPICS, order="total") as events,
        ):
            print(READY, flush=True)
            async for event in events:
                had.append(event.data[: HEAD.size] + struct.pack("<Q", time.monotonic_ns()))
                if len(had) == work.expected:
                    break
    _write(work, had)


def _write(work: Work, had: list[bytes]) -> None:
    Path(work.out).write_bytes(b"".join(had))


if __name__ == "__main__":
    roles = {"publish": publish, "subscribe": subscribe}
    asyncio.run(roles[sys.argv[1]](msgspec.json.decode(Path(sys.argv[2]).read_bytes(), type=Work)))
