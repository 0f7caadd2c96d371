"""format("unisono") in a real Spark, on a real JetStream: there and back, in the one order."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys

import pytest
from pyspark.errors import PySparkException, StreamingQueryException

import unisono
from unisono.pipeline.session import open_session
from unisono.testing.servers import nats_server

READY_S = 120.0


@pytest.fixture(scope="module")
def spark():
    session = open_session("local[2]")
    yield session
    session.stop()


@pytest.fixture(scope="module")
def url():
    command = [sys.executable, "-m", "unisono", "node", "--json", "--name", "n1"]
    with nats_server(jetstream=True) as server:
        env = os.environ | {"UNISONO_URL": server.url}
        with subprocess.Popen(command, env=env, stdout=subprocess.PIPE) as node:
            try:
                assert json.loads(node.stdout.readline())["ready"]
                yield server.url
            finally:
                node.kill()


def publish(url: str, first: int, count: int) -> None:
    async def main() -> None:
        async with unisono.connect(url, name=f"p{first}") as bus:
            await bus.publish_many((f"trades.{n % 3}", {"n": n}) for n in range(first, first + count))

    asyncio.run(main())


def heard(url: str, topics: list[str], count: int) -> list[dict[str, object]]:
    """What `unisono sub` prints."""
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
        str(count),
    ]
    done = subprocess.run(
        command, env=os.environ | {"UNISONO_URL": url}, capture_output=True, timeout=READY_S
    )
    assert done.returncode == 0, done.stderr.decode()
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return [line for line in lines if "topic" in line]


def test_there_and_back(spark, url, tmp_path) -> None:
    publish(url, 0, 600)
    source = {
        "url": url,
        "subscribePattern": "trades.*",
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": "250",
    }

    def go_on() -> list[int]:
        """A query that ends when it has read what there is, and goes on from its checkpoint the next time."""
        rows = spark.readStream.format("unisono").options(**source).load()
        out = rows.selectExpr("replace(topic, 'trades', 'seen') AS topic", "value").coalesce(1)
        writer = (
            out.writeStream.format("unisono").option("url", url).option("checkpointLocation", str(tmp_path))
        )
        query = writer.trigger(availableNow=True).start()
        assert query.awaitTermination(READY_S)
        return [progress["numInputRows"] for progress in query.recentProgress]

    assert go_on() == [250, 250, 100]
    publish(url, 600, 300)
    assert go_on() == [250, 50]
    batch = spark.read.format("unisono").options(url=url, subscribePattern="trades.*").load()
    read = [(row.topic, json.loads(bytes(row.value))["n"]) for row in batch.collect()]
    assert read == [(line["topic"], line["data"]["n"]) for line in heard(url, ["trades.*"], 900)]
    assert batch.selectExpr("count(distinct position)", "count(distinct id)").first() == (900, 900)
    seen = spark.read.format("unisono").options(url=url, subscribePattern="seen.*").load().collect()
    assert [json.loads(bytes(row.value))["n"] for row in seen] == [n for _, n in read]

    (tmp_path / "commits" / "4").unlink()  # as if the driver had died before it wrote that down
    (tmp_path / "commits" / ".4.crc").unlink()
    assert go_on() == [50]
    assert spark.read.format("unisono").options(url=url, subscribePattern="seen.*").load().count() == 900


def test_what_spark_says_of_what_will_not_do(spark, url) -> None:
    stream, batch = spark.readStream.format("unisono"), spark.read.format("unisono")
    with pytest.raises(PySparkException, match="exactly one of subscribe="):
        stream.options(url=url).load()
    with pytest.raises(PySparkException, match="the source has no option 'topics'; it has"):
        batch.options(url=url, topics="a").load()
    query = stream.options(url="nats://127.0.0.1:1", subscribe="a").load().writeStream.format("noop").start()
    with pytest.raises(StreamingQueryException, match=r"no NATS server answers at 127\.0\.0\.1:1"):
        query.awaitTermination(READY_S)
    with pytest.raises(PySparkException, match="rows need a column 'topic'"):
        spark.range(1).selectExpr("string(id) AS value").write.format("unisono").mode("append").option(
            "url", url
        ).save()
