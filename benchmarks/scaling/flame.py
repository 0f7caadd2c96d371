"""Where the time goes in workload A: `python -m benchmarks.scaling.flame` (`make flame`).

Records the publisher, the node and the subscribers, each in a run of its own, with py-spy; writes a flame graph of
each into out/, and prints the functions in which most of the time was spent, as a table in Markdown.
"""

from __future__ import annotations

import asyncio
import re
import signal
import sys
import tempfile
from collections import Counter
from pathlib import Path

from unisono.cli.bench_peers_runs import HEAR_S, PUBLISH_S
from unisono.cli.bench_scaling import all_hold_all
from unisono.cli.bench_scaling_runs import system

EVENTS, SUBSCRIBERS, TOPICS = 1_500_000, 4, 5
SAMPLES_S = 250
TOP = 8
OUT = Path("out")
SPY = Path(sys.executable).with_name("py-spy")


async def record(role: str, form: str, path: Path) -> None:
    """Record one process of a run, until the last event is acknowledged."""
    with tempfile.TemporaryDirectory(prefix="unisono-flame-", ignore_cleanup_errors=True) as folder:
        cell = all_hold_all(TOPICS, SUBSCRIBERS)
        async with system(cell, [(EVENTS, 0)], Path(folder)) as (served, subscribers, publisher):
            pids = {"publisher": publisher.pid, "node": served["nodes"][0], "subscriber": subscribers.pid}
            options = ["-r", str(SAMPLES_S), "-d", "600", "--nonblocking", "-f", form, "-o", str(path)]
            quiet = asyncio.subprocess.DEVNULL
            spy = await asyncio.create_subprocess_exec(
                str(SPY), "record", "-p", str(pids[role]), *options, stdout=quiet, stderr=quiet
            )
            try:
                await asyncio.sleep(1.0)  # until it is there
                publisher.go()
                await publisher.line(PUBLISH_S)
            finally:
                if spy.returncode is None:
                    spy.send_signal(signal.SIGINT)
                await spy.wait()
            await subscribers.line(HEAR_S)


def own_time(folded: str) -> list[tuple[str, float]]:
    """The functions in which most samples ended, each with its share; lines are 'a;b;c count'."""
    ends: Counter[str] = Counter()
    for line in folded.splitlines():
        stack, _, count = line.rpartition(" ")
        frame = stack.split(";")[-1]
        name = re.sub(r":\d+\)$", ")", frame)
        ends[name.replace("src/unisono/", "").replace("site-packages/", "")] += int(count)
    return [(name, count / ends.total()) for name, count in ends.most_common(TOP)]


async def main() -> None:
    """All three, twice: a picture and the figures."""
    print("| process | own time in |\n|---|---|")
    for role in ("publisher", "node", "subscriber"):
        picture = OUT / f"flame-{role}.svg"
        await record(role, "flamegraph", picture)
        picture.write_text(picture.read_text().replace(f"{SPY.parent}/", ""))  # it says where py-spy is
        folded = OUT / f"flame-{role}.txt"
        await record(role, "raw", folded)
        cells = (f"`{name}` {share:.0%}" for name, share in own_time(folded.read_text()))
        print(f"| {role} | {', '.join(cells)} |", flush=True)


if __name__ == "__main__":
    OUT.mkdir(exist_ok=True)
    asyncio.run(main())
