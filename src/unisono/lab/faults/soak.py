"""A long run of mixed load and faults, during which the memory of one process of each sort is watched.

Those that are watched are paused, cut off and surrounded by kills, but live from the beginning to the end: a publisher,
a subscriber, a node and the server. Memory that is bounded fills up to its bounds first, so the beginning does not count.
"""

from __future__ import annotations

import asyncio
import random
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from unisono.lab.faults.run import Result, Run
from unisono.lab.faults.world import Fault, World

WATCHED = {"publisher": "p1", "subscriber": "s1", "node": "n1", "server": "server"}
TOPICS = ("t1", "t2", "t3", "t4")
RATES = {"t1": 120.0, "t2": 80.0, "t3": 60.0, "t4": 40.0}
FAULT_EVERY_S = 12.0
SAMPLE_S = 1.0
WARM_SHARE = 0.5  # of the run, while what is bounded fills up
JUDGED_S = 240.0  # a shorter run says nothing about memory
GROWTH_SHARE_MAX = 0.1  # over what is judged, of what it has in the middle
GROWTH_MB_MAX = 8.0
BARS = "▁▂▃▄▅▆▇█"

FAULTS = (
    ("node_kill", "n2", (0.5, 4.0), ""),
    ("node_pause", "n2", (2.5, 5.0), ""),
    ("publisher_kill", "p2", (0.2, 2.0), ""),
    ("subscriber_kill", "s2", (0.2, 2.0), ""),
    ("publisher_pause", "p1", (0.5, 3.0), ""),
    ("subscriber_pause", "s1", (0.5, 4.0), ""),
    ("node_pause", "n1", (0.3, 4.0), ""),
    ("server_pause", "server", (0.3, 2.0), ""),
    ("link_silent", "s1", (0.5, 3.0), "stays"),
    ("link_reset", "p1", (0.5, 2.0), "stays"),
)


class Memory(msgspec.Struct):
    """The resident memory of one process, in MB."""

    samples: list[float] = []
    first_mb: float = 0.0
    middle_mb: float = 0.0  # the median of the first quarter of what is judged
    last_mb: float = 0.0  # the median of its last quarter
    slope_mb_per_minute: float = 0.0  # of what is judged
    plot: str = ""
    is_flat: bool | None = None  # None: the run was too short to tell


class SoakResult(msgspec.Struct):
    """What a soak came to."""

    minutes: float
    run: Result
    memory: dict[str, Memory] = {}

    @property
    def held(self) -> bool:
        """Whether nothing was lost and no memory grew."""
        return self.run.held and all(one.is_flat is not False for one in self.memory.values())


def soak(
    minutes: float,
    *,
    seed: int = 0,
    keep: Path | None = None,
    rate: float = 1.0,
    tell: Callable[[str], None] = lambda text: None,
) -> SoakResult:
    """Play it; `rate` multiplies the load."""
    folder = keep or Path(tempfile.mkdtemp(prefix="unisono-soak-"))
    folder.mkdir(parents=True, exist_ok=True)
    result = asyncio.run(_soak(Run(world(minutes, seed, rate), folder, tell), minutes))
    if result.held and keep is None:
        shutil.rmtree(folder, ignore_errors=True)
    return result


def world(minutes: float, seed: int, rate: float) -> World:
    """Faults all the time, one after another."""
    dice = random.Random(f"soak {seed}")
    faults, at_s = list[Fault](), 2.0
    while at_s < minutes * 60 - 8.0:
        kind, target, (shortest, longest), how = dice.choice(FAULTS)
        faults.append(Fault(round(at_s, 2), kind, target, round(dice.uniform(shortest, longest), 2), how))
        at_s += dice.uniform(0.5, 1.5) * FAULT_EVERY_S
    rates = {topic: one * rate for topic, one in RATES.items()}
    few = {topic: one / 10 for topic, one in rates.items()}
    ears = {"s1": TOPICS, "s2": TOPICS[:3], "s3": TOPICS[1:]}
    after_s = max(2.0, minutes * 60 - (faults[-1].at_s + faults[-1].for_s if faults else 0.0))
    return World(seed, "nats", 2, {"p1": rates, "p2": few}, ears, TOPICS, tuple(faults), after_s)


async def _soak(run: Run, minutes: float) -> SoakResult:
    playing = asyncio.create_task(run.carry_out())
    memory = {name: Memory([]) for name in WATCHED}
    end = None
    while not playing.done() and (end is None or time.monotonic() < end):
        if run.is_ready:
            end = end or time.monotonic() + minutes * 60
            for name, target in WATCHED.items():
                memory[name].samples.append(resident_mb(run.process(target).pid))
        await asyncio.wait([playing], timeout=SAMPLE_S)
    result = SoakResult(minutes, await playing, memory)
    for one in memory.values():
        judge_memory(one, minutes * 60)
    return result


def resident_mb(pid: int) -> float:
    """What a process has in memory."""
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in text.splitlines() if line.startswith("VmRSS")), 0.0)


def judge_memory(memory: Memory, seconds: float) -> None:
    """Whether it grew once it was warm."""
    samples = memory.samples
    judged = samples[int(len(samples) * WARM_SHARE) :]
    if not judged:
        return
    quarter = max(1, len(judged) // 4)
    memory.first_mb = round(samples[0], 1)
    memory.middle_mb = round(_median(judged[:quarter]), 1)
    memory.last_mb = round(_median(judged[-quarter:]), 1)
    memory.slope_mb_per_minute = round(_slope(judged) * 60 / SAMPLE_S, 3)
    memory.plot = plot(samples)
    if seconds >= JUDGED_S:
        allowed = max(GROWTH_MB_MAX, GROWTH_SHARE_MAX * memory.middle_mb)
        memory.is_flat = memory.last_mb - memory.middle_mb <= allowed


def plot(samples: list[float], width: int = 60) -> str:
    """The samples as a row of bars, from nothing to the largest."""
    top = max(samples, default=0.0) or 1.0
    step = max(1, len(samples) // width)
    means = [sum(samples[i : i + step]) / len(samples[i : i + step]) for i in range(0, len(samples), step)]
    return "".join(BARS[min(len(BARS) - 1, int(mean / top * len(BARS)))] for mean in means)


def _median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]


def _slope(values: list[float]) -> float:
    """By least squares, per sample."""
    n = len(values)
    if n < 2:
        return 0.0
    mean_x, mean_y = (n - 1) / 2, sum(values) / n
    over = sum((x - mean_x) * (y - mean_y) for x, y in enumerate(values))
    return over / sum((x - mean_x) ** 2 for x in range(n))
