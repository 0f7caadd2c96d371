"""A ticker desk on Spark: patterns over trades and news in the one order, alerts published back, the order audited live.

    .venv/bin/python examples/spark_ticker.py

"News, then a big trade of the same share" is an alarm. A query reads both topics in the order that everybody hears
(`format("unisono")`), looks for the pattern share by share, and publishes what it finds as alerts. Two analysts hear
trades, news and alerts, and look for the pattern themselves: they agree with each other and with Spark. All of them
keep journals, and a watch judges them while they are written.

It starts a NATS server and a node of its own. It needs Java and pip install 'unisono[spark,up]'.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

import unisono
from unisono.journal.options import Journal
from unisono.pipeline.session import open_session
from unisono.pipeline.watch import Watch, progress_of
from unisono.pipeline.watch_ledger import Ledger
from unisono.pipeline.watch_stream import SETTINGS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SHARES = ("ACME", "GLOBEX", "INITECH")
BIG = 900
BOUND_S = 120.0
Alarm = tuple[str, str]  # the ids of a piece of news and of the trade after it


class NewsThenBigTrade(StatefulProcessor):
    """The pattern, share by share; what it waits for is in Spark's state store."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Spark calls it when a task begins."""
        self.news = handle.getValueState("news", "id string")

    def handleInputRows(self, key: Any, rows: Iterable[Row], timer_values: Any) -> Iterator[Row]:
        """Spark calls it with the new events of a share; `position` sorts them into the one order."""
        for row in sorted(rows, key=lambda row: int(row.position)):
            if row.topic == "news":
                self.news.update((row.id,))
            elif row.size > BIG and (news := self.news.get()) is not None:
                self.news.clear()
                yield Row(topic="alerts", value=json.dumps({"news": news[0], "trade": row.id}))

    def close(self) -> None:
        """Nothing to let go of."""


def raise_alerts(spark: SparkSession, url: str, folder: Path) -> Any:
    """The query: trades and news in, alerts out."""
    events = spark.readStream.format("unisono").options(
        url=url, subscribe="trades,news", startingOffsets="earliest"
    )
    shares = events.load().selectExpr(
        "position",
        "topic",
        "id",
        "get_json_object(string(value), '$.share') AS share",
        "int(get_json_object(string(value), '$.size')) AS size",
    )
    alerts = shares.groupBy("share").transformWithState(
        NewsThenBigTrade(),
        outputStructType="topic string, value string",
        outputMode="Append",
        timeMode="None",
    )
    sink = alerts.writeStream.format("unisono").options(url=url, valueFormat="json")
    return sink.option("checkpointLocation", str(folder)).start()


class Analyst:
    """Hears trades, news and alerts, and looks for the pattern without Spark."""

    def __init__(self) -> None:
        self.items = 0
        self.alarms: list[Alarm] = []
        self.alerts: list[Alarm] = []

    def has_heard(self, count: int) -> bool:
        """All items, and an alert for each alarm in them."""
        return self.items == count and len(self.alerts) >= len(self.alarms)

    async def listen(self, events: unisono.Subscription) -> None:
        """Take events until the desk closes."""
        last_news: dict[str, str] = {}
        async for event in events:
            data: dict[str, Any] = event.data
            if event.topic == "alerts":
                self.alerts.append((data["news"], data["trade"]))
                continue
            self.items += 1
            if event.topic == "news":
                last_news[data["share"]] = event.id
            elif data["size"] > BIG and data["share"] in last_news:
                self.alarms.append((last_news.pop(data["share"]), event.id))


async def trade(url: str, journal: Path, count: int) -> list[Analyst]:
    """An exchange and two analysts; ends when both have heard everything, and an alert for each of their alarms."""
    rng, kept = Random(1), Journal(journal, seconds_max=1)
    analysts = [Analyst(), Analyst()]
    buses = [unisono.connect(url, name=name, journal=kept) for name in ("ada", "ben", "exchange")]
    async with (
        buses[0] as ada,
        buses[1] as ben,
        buses[2] as exchange,
        ada.subscribe("trades", "news", "alerts") as first,
        ben.subscribe("trades", "news", "alerts") as second,
        asyncio.timeout(BOUND_S),
    ):
        pairs = zip(analysts, (first, second), strict=True)
        listening = [asyncio.create_task(analyst.listen(events)) for analyst, events in pairs]
        for _ in range(count):
            topic = "news" if rng.random() < 0.3 else "trades"
            await exchange.publish(topic, {"share": rng.choice(SHARES), "size": rng.randint(1, 1000)})
            await asyncio.sleep(0.002)
        while not all(analyst.has_heard(count) for analyst in analysts):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        for task in listening:
            task.cancel()
    return analysts


@contextmanager
def running_system(data: Path) -> Iterator[str]:
    """`unisono up`: a server and a node; yields the URL."""
    command = [sys.executable, "-m", "unisono", "up", "--json", "--port", "0", "--data", str(data)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as up:
        try:
            assert up.stdout is not None
            yield json.loads(up.stdout.readline())["url"]
        finally:
            up.terminate()


def await_judged(watch: Watch) -> None:
    """Let the watch catch up with the journal."""
    there, end = watch.there_now(), time.monotonic() + BOUND_S
    watch.run(lambda: watch.has_judged(there) or time.monotonic() > end)


def main(count: int, say: Callable[[str], None]) -> bool:
    """Run the desk; whether everybody agrees and the order held."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="unisono-ticker-")))
        say("starting a server, a node and Spark")
        url = stack.enter_context(running_system(folder / "data"))
        spark = open_session("local[2,4]", java_log=folder / "java.log")
        stack.callback(spark.stop)
        for key, value in SETTINGS.items():
            spark.conf.set(key, value)
        (folder / "journal").mkdir()
        ledger = stack.enter_context(Ledger(folder / "watch", folder / "journal").opened())
        watch = Watch(spark, ledger, lambda notice: say(notice.explanation))
        stack.callback(watch.stop)
        query = raise_alerts(spark, url, folder / "alerts")
        stack.callback(query.stop)
        say("trading")
        ada, ben = asyncio.run(trade(url, folder / "journal", count))
        say("waiting for the last segments to be judged")
        await_judged(watch)
        audited = progress_of(ledger.page)
    print(f"ada raised {len(ada.alarms)} alarms, ben {len(ben.alarms)}, Spark {len(ada.alerts)}")
    agree = ada.alarms == ben.alarms and sorted(ada.alerts) == sorted(ada.alarms) and ada.alerts == ben.alerts
    print("they agree" if agree else "they DISAGREE")
    print(
        f"audited live: {audited.verdict}, {audited.deliveries:,} deliveries, {audited.violations} violations"
    )
    return agree and audited.verdict == "held"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=2000, help="Trades and pieces of news.")
    chosen = parser.parse_args()
    sys.exit(0 if main(chosen.count, lambda words: print(words, file=sys.stderr)) else 1)
