"""`unisono bench spark`: how fast events come into Spark, and rows out of it, with everything on this machine."""

from __future__ import annotations

import json as jsons
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from rich.table import Table

from unisono.cli.bench_spark_costs import Memory, cpu_s
from unisono.cli.bench_spark_load import TOPICS
from unisono.cli.output import Json, finish, people, print_json
from unisono.cli.pipeline import needs_spark
from unisono.model.errors import ConfigError

IN_S_MIN, OUT_S_MIN = 50_000, 20_000
BACKLOG_MIB_MAX = (
    2_048  # of all Python processes of the query together: its memory does not grow with the backlog
)
TRIGGER = 200_000
WAIT_S = 900.0
Figures = dict[str, Any]


def spark(
    live: Annotated[
        int, typer.Option(min=10_000, help="Events that are published while Spark reads.")
    ] = 1_500_000,
    rate: Annotated[float, typer.Option(min=1, help="How many of them a second.")] = 60_000,
    backlog: Annotated[
        int, typer.Option(min=10_000, help="Events that are there when Spark begins.")
    ] = 5_000_000,
    out: Annotated[int, typer.Option(min=10_000, help="Rows that Spark publishes.")] = 400_000,
    cores: Annotated[int, typer.Option(min=1, help="How many cores Spark may use.")] = 2,
    json: Json = False,
) -> None:
    """A server, a node, a publisher and Spark on one machine: live, out again, and a backlog drained."""
    with needs_spark():
        from unisono.pipeline.session import open_session
    with _system() as url, people.status("starting Spark") as status:
        session = open_session(f"local[{cores}]")
        result: Figures = {"cores": cores, "load_before": os.getloadavg()[0]}
        try:
            _publish(url, 100_000, 0).wait(WAIT_S)
            _drain(session, url, "earliest")  # warms up Java, and Python's imports
            status.update(f"{live:,} events into Spark while they are published")
            result["live"] = _live(session, url, live, rate)
            status.update(f"{out:,} rows out of Spark")
            result["out"] = _out(session, url, out)
            status.update(f"publishing a backlog of {backlog:,}")
            before = 100_000 + live
            result["backlog"] = _backlog(session, url, backlog, before)
        finally:
            session.stop()
    result["missed"] = missed(result)
    print_json(result) if json else _show(result)
    finish(held=not result["missed"])


@contextmanager
def _system() -> Iterator[str]:
    """A server and a node."""
    from unisono.testing.servers import nats_server

    command = [
        sys.executable,
        "-m",
        "unisono",
        "node",
        "--json",
        "--name",
        "n1",
        "--retain-records",
        "20000000",
    ]
    with nats_server(jetstream=True) as server:
        env = os.environ | {"UNISONO_URL": server.url}
        with subprocess.Popen(command, env=env, stdout=subprocess.PIPE) as node:
            try:
                assert node.stdout is not None
                if not jsons.loads(node.stdout.readline() or b"{}").get("ready"):
                    raise ConfigError("the node did not start; see what it printed above")
                yield server.url
            finally:
                node.kill()


def _publish(url: str, count: int, rate: float) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "unisono.cli.bench_spark_load", str(count), str(rate)]
    return subprocess.Popen(command, env=os.environ | {"UNISONO_URL": url}, stdout=subprocess.PIPE, text=True)


def _reader(session: Any, url: str, start: str) -> Any:
    options = {
        "url": url,
        "subscribe": ",".join(TOPICS),
        "startingOffsets": start,
        "maxOffsetsPerTrigger": str(TRIGGER),
    }
    return session.readStream.format("unisono").options(**options).load()


def _drain(session: Any, url: str, start: str) -> list[Any]:
    query = _reader(session, url, start).writeStream.format("noop").trigger(availableNow=True).start()
    query.awaitTermination(WAIT_S)
    return list(query.recentProgress)


def _spent(progress: list[Any]) -> dict[str, float]:
    """Where the time of batches went, in seconds."""
    spent: dict[str, float] = {}
    for batch in progress:
        for step, ms in batch["durationMs"].items():
            spent[step] = round(spent.get(step, 0.0) + ms / 1000, 3)
    return spent


def _cost(before: dict[str, float], events: int) -> dict[str, float]:
    """Processor time for each event, in microseconds, by who took it."""
    return {who: round((s - before[who]) / events * 1e6, 1) for who, s in cpu_s().items()}


def _live(session: Any, url: str, count: int, rate: float) -> Figures:
    query = _reader(session, url, "latest").writeStream.format("noop").start()
    while not query.recentProgress:  # it has looked where to begin
        time.sleep(0.1)
    before = cpu_s()
    publisher = _publish(url, count, rate)
    began, read, batches, seen = time.monotonic(), 0, list[Any](), set[int]()
    first_at = last_at = began
    behind_s = 0.0
    while read < count and time.monotonic() - began < WAIT_S:
        time.sleep(0.1)
        if behind_s == 0.0 and publisher.poll() is not None:
            behind_s = -time.monotonic()
        for batch in query.recentProgress:
            if batch["batchId"] not in seen and batch["numInputRows"]:
                seen.add(batch["batchId"])
                batches.append(batch)
                read += batch["numInputRows"]
                last_at = time.monotonic()
                first_at = last_at if len(batches) == 1 else first_at
    published, publisher_s = publisher.communicate(timeout=WAIT_S)[0].split()
    cost = _cost(before, count) | {"publisher": round(float(publisher_s) / count * 1e6, 1)}
    query.stop()
    steady = sum(batch["numInputRows"] for batch in batches[1:])
    return {
        "events": read,
        "published_s": int(published),
        "read_s": round(steady / max(last_at - first_at, 0.001)),
        "behind_s": round(max(0.0, last_at + behind_s), 2) if behind_s else 0.0,
        "batches": len(batches),
        "spent_s": _spent(batches),
        "cpu_us": cost,
    }


def _out(session: Any, url: str, count: int) -> Figures:
    rows = session.range(count).selectExpr(
        "concat('out.', id % 3) AS topic", "lpad(string(id), 64, '0') AS value"
    )
    before, began = cpu_s(), time.monotonic()
    rows.write.format("unisono").mode("append").option("url", url).save()
    took_s, cost = time.monotonic() - began, _cost(before, count)
    stored = session.read.format("unisono").options(url=url, subscribePattern="out.*").load().count()
    return {"rows": count, "stored": stored, "rows_s": round(count / took_s), "cpu_us": cost}


def _backlog(session: Any, url: str, count: int, before: int) -> Figures:
    publisher = _publish(url, count, 0)
    published = publisher.communicate(timeout=WAIT_S)[0].split()[0]
    watch = Memory()
    watch.start()
    cpu, began = cpu_s(), time.monotonic()
    progress = _drain(session, url, "earliest")
    took_s = time.monotonic() - began
    peak = watch.stop()
    read = sum(batch["numInputRows"] for batch in progress)
    return {
        "events": read,
        "expected": before + count,
        "published_s": int(published),
        "read_s": round(read / took_s),
        "batches": len(progress),
        "spent_s": _spent(progress),
        "cpu_us": _cost(cpu, read),
        "python_mib": peak["python"],
        "java_mib": peak["java"],
        "python_mib_first_fifth": watch.first_fifth,
    }


def missed(result: Figures) -> list[str]:
    """The targets that were not met, in words."""
    found = []
    if (speed := result["live"]["read_s"]) < IN_S_MIN:
        found.append(f"{speed:,} events/s into Spark, target {IN_S_MIN:,}")
    if (speed := result["out"]["rows_s"]) < OUT_S_MIN:
        found.append(f"{speed:,} rows/s out of Spark, target {OUT_S_MIN:,}")
    if result["out"]["stored"] != result["out"]["rows"]:
        found.append(f"{result['out']['rows']:,} rows became {result['out']['stored']:,} events")
    backlog = result["backlog"]
    if backlog["events"] != backlog["expected"]:
        found.append(f"{backlog['events']:,} of {backlog['expected']:,} events were read")
    if (memory := backlog["python_mib"]) > BACKLOG_MIB_MAX:
        found.append(f"{memory:,} MiB of Python to drain the backlog, at most {BACKLOG_MIB_MAX:,}")
    return found


def _show(result: Figures) -> None:
    live, out, backlog = result["live"], result["out"], result["backlog"]
    table = Table(title=f"Spark on {result['cores']} cores, with server, node and publisher beside it")
    for name in ("", "events", "a second", ""):
        table.add_column(name, justify="right")
    table.add_row(
        "live", f"{live['events']:,}", f"{live['read_s']:,}", f"{live['behind_s']} s behind the publisher"
    )
    table.add_row("out", f"{out['stored']:,}", f"{out['rows_s']:,}", "")
    memory = f"Python {backlog['python_mib']:,} MiB, Java {backlog['java_mib']:,} MiB"
    table.add_row("backlog", f"{backlog['events']:,}", f"{backlog['read_s']:,}", memory)
    people.print(table)
    for name in ("live", "backlog"):
        people.print(
            f"{name}: " + ", ".join(f"{step} {s:.1f} s" for step, s in result[name]["spent_s"].items())
        )
    for name in ("live", "out", "backlog"):
        cost = result[name]["cpu_us"]
        people.print(f"{name}: {sum(cost.values()):.1f} µs of processor time an event: {cost}")
    for words in result["missed"]:
        people.print(f"[bold red]missed[/]: {words}")
