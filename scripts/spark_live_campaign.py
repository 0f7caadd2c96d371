"""Kills drivers, workers, nodes and the server under live Spark queries, and compares what came of it.

Run as `make spark-live-campaign`. Events are published all the while. One query writes them to Parquet, another
publishes them again. In the end both must have what `unisono sub --start earliest` prints: every event that was
acknowledged, once, in that order. Exit code 1 when they have not.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

import unisono
from unisono.model.errors import UnconfirmedError
from unisono.pipeline.declarative import committed_files
from unisono.testing.servers import nats_server

TOPICS = ("a", "b", "c")
FAULTS = ("worker", "takeover", "driver", "server", "planner", "driver while the server is down")
RESUME_S = 240.0  # within which things go on after a fault, on a busy machine
DRAIN_S = 600.0


def main() -> int:
    """Everything, with a fault now and then."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=2, help="How often each fault.")
    parser.add_argument("--rate", type=float, default=2000.0, help="Events a second.")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true", help="Print one JSON document on stdout.")
    parser.add_argument("--role", choices=("driver", "publisher"), help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.role == "driver":
        return drive()
    if chosen.role == "publisher":
        return asyncio.run(publish(chosen.rate))
    with tempfile.TemporaryDirectory(prefix="unisono-live-") as folder, nats_server(jetstream=True) as server:
        result = Campaign(Path(folder), server, chosen).run()
    if chosen.json:
        print(json.dumps(result, indent=2))
    return 1 if result["wrong"] else 0


# Processes of their own.


async def publish(rate: float) -> int:
    """Events until stdin ends, each acknowledged, under an id of its own; then how many there were."""
    dice, n = random.Random(1), 0
    over = asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    async with unisono.connect(os.environ["UNISONO_URL"], name="load", publish_timeout=5) as bus:
        began = time.monotonic()
        while not over.done():
            many = dice.choice((1, 10, 100))
            unsure = {f"e{k}": (dice.choice(TOPICS), k) for k in range(n, n + many)}
            while unsure:
                try:
                    receipts = {id: bus.publish_nowait(t, k, id=id) for id, (t, k) in unsure.items()}
                    async with asyncio.timeout(10):
                        for id, receipt in receipts.items():
                            await receipt
                            del unsure[id]
                except (UnconfirmedError, TimeoutError):
                    continue  # the same again, under the same ids
            n += many
            await asyncio.sleep(max(0.0, began + n / rate - time.monotonic()))
    print(n)
    return 0


def drive() -> int:
    """Two queries, and how far they are, a line each time."""
    from unisono.pipeline.session import open_session

    url, folder = os.environ["UNISONO_URL"], Path(os.environ["CAMPAIGN_FOLDER"])
    spark = open_session("local[2,4]")  # a task may fail, and is tried again
    reader = spark.readStream.format("unisono").option("url", url).option("subscribe", ",".join(TOPICS))
    rows = reader.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", "5000").load()
    kept = rows.select("position", "topic", "id", "value").writeStream.format("parquet")
    kept = kept.option("path", str(folder / "rows")).option("checkpointLocation", str(folder / "kept"))
    again = (
        rows.selectExpr("'out' AS topic", "value")
        .coalesce(1)
        .writeStream.format("unisono")
        .option("url", url)
    )
    again = again.option("checkpointLocation", str(folder / "again"))
    queries = {"kept": kept.trigger(processingTime="200 milliseconds").start(), "again": again.start()}
    while all(query.isActive for query in queries.values()):
        far = {}
        for name, query in queries.items():
            progress = query.lastProgress
            offset = progress["sources"][0]["endOffset"] if progress is not None else None
            offset = json.loads(offset) if isinstance(offset, str) else offset
            far[name] = sum(offset["clock"].values()) if offset else 0
        print(json.dumps(far | {"worker": os.getpid()}), flush=True)
        time.sleep(0.2)
    for name, query in queries.items():
        if (error := query.exception()) is not None:
            print(f"{name}: {str(error)[-1500:]}", file=sys.stderr, flush=True)
    return 1


# The campaign.


class Process:
    """A process with all that it starts, in a group of its own."""

    def __init__(self, *words: str, url: str, folder: Path, **options: Any) -> None:
        env = os.environ | {"UNISONO_URL": url, "CAMPAIGN_FOLDER": str(folder)}
        log = (folder / "log.txt").open("ab")
        with log:
            self.process = subprocess.Popen(
                [sys.executable, *words],
                env=env,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
                **options,
            )
        self.said: dict[str, Any] = {}
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("{"):
                self.said |= json.loads(line)
            elif line.strip().isdigit():
                self.said["count"] = int(line)

    def kill(self) -> None:
        """As a crash would, with everything that it has started."""
        members = [self.process.pid, *_below(self.process.pid)]
        for pid in members:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        self.process.wait()


class Campaign:
    """Everybody, and what is done to them."""

    def __init__(self, folder: Path, server: Any, chosen: argparse.Namespace) -> None:
        self.folder, self.server, self.chosen = folder, server, chosen
        self.dice = random.Random(chosen.seed)
        self.done: Counter[str] = Counter()
        self.restarts = 0
        self.nodes: dict[str, Process] = {}
        self.driver: Process | None = None

    def run(self) -> dict[str, Any]:
        """Faults while events flow; then compare."""
        began = time.monotonic()
        try:
            for name in ("n1", "n2"):
                self._node(name)
            publisher = self._start(
                __file__, "--role", "publisher", "--rate", str(self.chosen.rate), stdin=subprocess.PIPE
            )
            self._drive()
            self._wait_for(self._progress(3000))
            faults = [
                fault for _ in range(self.chosen.rounds) for fault in self.dice.sample(FAULTS, len(FAULTS))
            ]
            for fault in faults:
                getattr(self, "_" + fault.replace(" ", "_"))()
                self.done[fault] += 1
                took = self._wait_for(self._progress(2000))
                print(
                    f"{time.monotonic() - began:6.0f} s  {fault}: goes on after {took:.1f} s",
                    file=sys.stderr,
                    flush=True,
                )
            assert publisher.process.stdin is not None
            publisher.process.stdin.close()
            publisher.process.wait(RESUME_S)
            self._wait_for(lambda: "count" in publisher.said)
            count = publisher.said["count"]
            self._wait_for(lambda: all(self._far(name) >= count for name in ("kept", "again")), DRAIN_S)
            return self._judge(count) | {"seconds": round(time.monotonic() - began)}
        finally:
            for process in (self.driver, *self.nodes.values()):
                if process is not None:
                    process.kill()

    def _start(self, *words: str, **options: Any) -> Process:
        return Process(*words, url=self.server.url, folder=self.folder, **options)

    def _node(self, name: str) -> None:
        self.nodes[name] = self._start("-m", "unisono", "node", "--json", "--name", name)
        self._wait_for(lambda: "ready" in self.nodes[name].said)

    def _drive(self) -> None:
        self.driver = self._start(__file__, "--role", "driver")

    def _far(self, query: str) -> int:
        return 0 if self.driver is None else int(self.driver.said.get(query, 0))

    def _progress(self, events: int) -> Any:
        """Whether both queries have gone on by so many events."""
        before = {name: self._far(name) for name in ("kept", "again")}

        def has_gone_on() -> bool:
            return all(self._far(name) >= before[name] + events for name in before)

        return has_gone_on

    def _wait_for(self, condition: Any, bound_s: float = RESUME_S) -> float:
        """How long it took; a driver that has ended is started again, as a supervisor would."""
        began = time.monotonic()
        while not condition():
            if self.driver is not None and self.driver.process.poll() is not None:
                far = dict(self.driver.said)
                self.restarts += 1
                self._drive()
                self.driver.said |= {k: v for k, v in far.items() if k in ("kept", "again")}
            if time.monotonic() - began > bound_s:
                log = (self.folder / "log.txt").read_text(errors="replace")[-3000:]
                raise SystemExit(f"nothing goes on for {bound_s:.0f} s after {dict(self.done)}\n{log}")
            time.sleep(0.1)
        return time.monotonic() - began

    # Faults.

    def _worker(self) -> None:
        workers = [pid for pid in _below(self.driver.process.pid) if b"pyspark.daemon" in _words(pid)]
        if len(workers) > 1:  # the first of them forks the others
            os.kill(self.dice.choice(sorted(workers)[1:]), signal.SIGKILL)

    def _planner(self) -> None:
        planners = [
            pid for pid in _below(self.driver.process.pid) if b"python_streaming_source_runner" in _words(pid)
        ]
        if planners:
            os.kill(self.dice.choice(sorted(planners)), signal.SIGKILL)

    def _driver(self) -> None:
        far = dict(self.driver.said)
        self.driver.kill()
        self._drive()
        self.driver.said |= {k: v for k, v in far.items() if k in ("kept", "again")}

    def _server(self) -> None:
        self.server.restart(kill=True)

    def _driver_while_the_server_is_down(self) -> None:
        self.server.kill()
        self._driver()
        time.sleep(2)  # long enough for everybody to notice
        self.server.start()

    def _takeover(self) -> None:
        name = self.dice.choice(sorted(self.nodes))
        self.nodes[name].kill()
        self._node(name)

    def _judge(self, count: int) -> dict[str, Any]:
        told = _heard(self.server.url, TOPICS, count)
        rows = sorted(
            (row["position"], row["id"], bytes(row["value"]))
            for file in committed_files(self.folder / "rows")
            for row in pq.ParquetFile(file).read().to_pylist()
        )
        again = [line["data"] for line in _heard(self.server.url, ("out",), count)]
        wrong = []
        if {line["id"] for line in told} != {f"e{n}" for n in range(count)}:
            wrong.append("`unisono sub` did not print what was acknowledged")
        if [row[1] for row in rows] != [line["id"] for line in told]:
            wrong.append(f"the source: {len(rows)} rows for {count} events, or in another order")
        if again != [str(line["data"]) for line in told]:
            wrong.append(f"the sink: {len(again)} events for {count} rows, or in another order")
        result = {
            "events": count,
            "rows": len(rows),
            "published_again": len(again),
            "faults": dict(self.done),
        }
        print(f"{result}; {'; '.join(wrong) or 'no loss, no duplicates, the same order'}", file=sys.stderr)
        return result | {"driver_restarts": self.restarts, "wrong": wrong}


def _heard(url: str, topics: tuple[str, ...], count: int) -> list[dict[str, Any]]:
    """What `unisono sub` prints; it waits for one more than there should be, for a while."""
    command = [
        sys.executable,
        "-m",
        "unisono",
        "sub",
        *topics,
        "--start",
        "earliest",
        "--json",
        "--count",
        str(count + 1),
    ]
    process = subprocess.Popen(
        command, env=os.environ | {"UNISONO_URL": url}, stdout=subprocess.PIPE, text=True
    )
    lines: list[dict[str, Any]] = []

    def listen() -> None:
        assert process.stdout is not None
        lines.extend(said for line in process.stdout if "topic" in (said := json.loads(line)))

    reader = threading.Thread(target=listen, daemon=True)
    reader.start()
    last, since = -1, time.monotonic()
    while reader.is_alive() and time.monotonic() - since < (5 if len(lines) >= count else 60):
        if len(lines) != last:
            last, since = len(lines), time.monotonic()
        time.sleep(0.1)
    process.kill()
    process.wait()
    return lines


def _words(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _below(pid: int) -> list[int]:
    """The processes that a process has started, and those that they have."""
    try:
        threads = [task.name for task in Path(f"/proc/{pid}/task").iterdir()]
        children = [c for t in threads for c in Path(f"/proc/{pid}/task/{t}/children").read_text().split()]
    except OSError:
        return []
    return [found for child in map(int, children) for found in (child, *_below(child))]


if __name__ == "__main__":
    sys.exit(main())
