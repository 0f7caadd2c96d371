"""Many runs, each in a process of its own, a few side by side; and what they come to."""

from __future__ import annotations

import asyncio
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import count, islice
from pathlib import Path

import msgspec

from unisono.lab.faults.brokers import why_no_disk
from unisono.lab.faults.clocks import why_no_clock
from unisono.lab.faults.run import Result, Run
from unisono.lab.faults.world import ELECTIONS, OUTAGES, TRANSPORTS, draw
from unisono.model.errors import ConfigError

SLOWEST = 10
RUN_S = 180.0  # a run that takes longer is broken


class KindRow(msgspec.Struct):
    """One kind of fault in all runs."""

    runs: int = 0
    faults: int = 0
    failed: int = 0
    resume_s_p50: float | None = None
    resume_s_p95: float | None = None
    resume_s_max: float | None = None


class CampaignResult(msgspec.Struct):
    """What a campaign came to."""

    transport: str
    runs: int
    seconds: float = 0.0
    published: int = 0
    acknowledged: int = 0
    delivered: int = 0
    lost: int = 0
    duplicates: int = 0
    violations: int = 0
    stuck: int = 0
    resume_s_p95: float | None = None  # after kills of nodes, of the server, of any server of a cluster
    election_resume_s_p95: float | None = (
        None  # after kills of the server that leads the lane of the hottest topic
    )
    slowest: list[Slow] = []  # the kills after which it took longest
    heal_s_p95: float | None = None  # from the last healing until all that was owed had come
    kinds: dict[str, KindRow] = {}
    left_out: dict[str, str] = {}  # kinds that are not possible on this machine, and why
    failures: list[Failure] = []

    @property
    def held(self) -> bool:
        """Whether every promise was kept."""
        return not self.failures


class Slow(msgspec.Struct):
    """A kill, and how long it took."""

    seed: int
    kind: str
    seconds: float
    kinds: list[str]  # what else was done in that run


class Failure(msgspec.Struct):
    """A run that was not as it should be, and how to run it again."""

    seed: int
    why: str
    folder: str
    again: str


def play(seed: int, transport: str, kind: str | None, folder: Path) -> Result:
    """One run, here."""
    return asyncio.run(Run(draw(seed, transport, kind), folder).carry_out())


def campaign(
    runs: int,
    *,
    first: int = 0,
    transport: str = "nats",
    kind: str | None = None,
    jobs: int = 2,
    keep: Path | None = None,
    progress: Callable[[int, Result], None] = lambda done, result: None,
) -> CampaignResult:
    """Runs of the seeds from `first` on; folders of failed runs stay, under `keep` or where temporary files are."""
    base = keep or Path(tempfile.mkdtemp(prefix="unisono-faults-"))
    began = time.monotonic()
    left_out = impossible()
    seeds = possible_seeds(runs, first, transport, kind, left_out)
    results = asyncio.run(_all(seeds, transport, kind, jobs, base, progress))
    total = summarise(results, transport, kind)
    total.left_out = {name: why for name, why in left_out.items() if name in TRANSPORTS[transport]}
    total.seconds = round(time.monotonic() - began, 1)
    if total.held and keep is None:
        shutil.rmtree(base, ignore_errors=True)
    return total


def impossible() -> dict[str, str]:
    """Kinds of faults that this machine does not let us do, and why."""
    reasons = {"disk_full": why_no_disk(), "clock_jump": why_no_clock()}
    return {kind: why for kind, why in reasons.items() if why is not None}


def possible_seeds(
    runs: int, first: int, transport: str, kind: str | None, left_out: dict[str, str]
) -> list[int]:
    """The next seeds whose worlds are possible here."""
    if kind in left_out:
        raise ConfigError(f"no '{kind}' on this machine: {left_out[kind]}")
    possible = (s for s in count(first) if not left_out.keys() & set(draw(s, transport, kind).kinds))
    return list(islice(possible, runs))


async def _all(
    seeds: list[int],
    transport: str,
    kind: str | None,
    jobs: int,
    base: Path,
    progress: Callable[[int, Result], None],
) -> list[Result]:
    room, results = asyncio.Semaphore(jobs), list[Result]()

    async def one(seed: int) -> None:
        async with room:
            result = await _apart(seed, transport, kind, base / f"{transport}-{seed}")
        results.append(result)
        if result.held:
            shutil.rmtree(result.folder, ignore_errors=True)
        progress(len(results), result)

    async with asyncio.TaskGroup() as group:
        for seed in seeds:
            group.create_task(one(seed))
    return sorted(results, key=lambda result: result.seed)


async def _apart(seed: int, transport: str, kind: str | None, folder: Path) -> Result:
    """One run in a process of its own; what breaks it is a failure of it."""
    _clear(folder)
    code = "import sys; from unisono.lab.faults.campaign import main; main(*sys.argv[1:])"
    with (folder / "driver.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", code, str(seed), transport, kind or "", str(folder), stdout=log, stderr=log
        )
    try:
        async with asyncio.timeout(RUN_S):
            await process.wait()
    except TimeoutError:
        process.kill()
    finally:
        await process.wait()
    try:
        return msgspec.json.decode((folder / "result.json").read_bytes(), type=Result)
    except FileNotFoundError:
        kinds = list(draw(seed, transport, kind).kinds)
        said = (folder / "driver.log").read_text(errors="replace").strip().splitlines()
        why = said[-1] if said else f"it took longer than {RUN_S:g} s"
        return Result(seed, transport, kinds, stuck=[why], folder=str(folder))


def _clear(folder: Path) -> None:
    """Make a folder, without what an earlier campaign has left in it."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)


def main(seed: str, transport: str, kind: str, folder: str) -> None:
    """One run, as a process."""
    play(int(seed), transport, kind or None, Path(folder))


def summarise(results: list[Result], transport: str, kind: str | None) -> CampaignResult:
    """Put the results of runs together."""
    total = CampaignResult(transport, len(results))
    times: dict[str, list[float]] = {}
    for result in results:
        for name in ("published", "acknowledged", "delivered", "lost", "duplicates"):
            setattr(total, name, getattr(total, name) + getattr(result, name))
        total.violations += len(result.violations)
        total.stuck += len(result.stuck)
        for name in result.kinds:
            row = total.kinds.setdefault(name, KindRow())
            row.runs += 1
            row.failed += not result.held
        for resumed in result.resumed:
            total.kinds.setdefault(resumed.kind, KindRow()).faults += 1
            times.setdefault(resumed.kind, []).append(resumed.seconds)
            if resumed.kind in OUTAGES:
                total.slowest.append(Slow(result.seed, resumed.kind, resumed.seconds, result.kinds))
        if not result.held:
            why = (
                "; ".join([*result.violations, *result.stuck])
                or f"{result.lost} lost, {result.duplicates} twice"
            )
            more = f" --kind {kind}" if kind else ""
            again = f"unisono lab faults --transport {transport} --runs 1 --from {result.seed}{more}"
            total.failures.append(Failure(result.seed, why, result.folder, again))
    for name, seconds in times.items():
        row = total.kinds[name]
        row.resume_s_p50, row.resume_s_p95 = quantile(seconds, 0.5), quantile(seconds, 0.95)
        row.resume_s_max = max(seconds)
    total.resume_s_p95 = quantile([s for name in OUTAGES for s in times.get(name, ())], 0.95)
    total.election_resume_s_p95 = quantile([s for name in ELECTIONS for s in times.get(name, ())], 0.95)
    total.heal_s_p95 = quantile([result.heal_s for result in results], 0.95)
    total.slowest = sorted(total.slowest, key=lambda slow: -slow.seconds)[:SLOWEST]
    total.kinds = dict(sorted(total.kinds.items()))
    return total


def quantile(values: list[float], share: float) -> float | None:
    """The value that so large a share of them does not exceed; None of nothing."""
    if not values:
        return None
    ranked = sorted(values)
    return round(ranked[max(0, -int(-len(ranked) * share // 1) - 1)], 3)
