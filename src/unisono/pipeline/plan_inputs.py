"""What a plan is made from: who subscribes to what, and how much is published, out of files or a journal.

Everything becomes rows of `topics` (an array) and `weight`. A subscription in total order weighs 1; one that
wants its topics ordered whoever else is there (`total_causal`) weighs as much as the threshold; the others ask
for no order between topics and weigh nothing.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from unisono.history import Kind
from unisono.model.errors import ConfigError, TopicError
from unisono.model.ids import check_topic
from unisono.pipeline.plan_journal import read_journal

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def read_subscriptions(spark: SparkSession, path: Path) -> DataFrame:
    """The subscriptions in a Parquet file: rows of `subscriber, topic`, or of `topics` and perhaps `weight`."""
    from pyspark.sql import functions as f

    names = set(_schema(path).names)
    frame = spark.read.parquet(str(path))
    if {"subscriber", "topic"} <= names:
        rows = frame.where("subscriber is not null and topic is not null")
        held = rows.groupBy("subscriber").agg(f.collect_set("topic").alias("topics"))
        return held.select("topics", f.lit(1).cast("bigint").alias("weight"))
    if "topics" in names:
        weight = f.col("weight") if "weight" in names else f.lit(1)
        return frame.where("topics is not null").select("topics", weight.cast("bigint").alias("weight"))
    raise ConfigError(
        f"{path} has the columns {', '.join(sorted(names))}; "
        f"subscriptions are rows of 'subscriber' and 'topic', or of 'topics' (and 'weight')"
    )


def journal_subscriptions(
    spark: SparkSession, journal: Path, threshold: int, *, current: bool = False
) -> DataFrame:
    """The subscriptions that a journal tells of: all it ever saw, or with `current` those open at its end.

    All is the default because a topic's group only ever grows while a plan is in force.
    """
    return subscriptions_in(read_journal(spark, journal), threshold, current=current)


def subscriptions_in(frame: DataFrame, threshold: int, *, current: bool = False) -> DataFrame:
    """The same out of the records of a frame."""
    from pyspark.sql import functions as f

    kinds = (Kind.SUBSCRIBED.value, Kind.UNSUBSCRIBED.value)
    newest = f.struct("at", "seq")
    held = (
        frame.where(f.col("kind").isin(*kinds))
        .groupBy("process", "subscription", "topic")
        .agg(
            f.max_by("kind", newest).alias("last"),
            f.max_by("order", f.when(f.col("kind") == kinds[0], newest)).alias("order"),
        )
    )
    if current:
        held = held.where(f.col("last") == kinds[0])
    weight = (
        f.when(f.col("order") == "total_causal", threshold).when(f.col("order") == "total", 1).otherwise(0)
    )
    return (
        held.groupBy("process", "subscription", "order")
        .agg(f.collect_set("topic").alias("topics"))
        .select("topics", weight.cast("bigint").alias("weight"))
    )


def journal_rates(spark: SparkSession, journal: Path) -> dict[str, float]:
    """Events per second of each topic, over the time from the first to the last publication in a journal."""
    from pyspark.sql import functions as f

    # A journal may hold the publishers or the managers only; who has both counts each event once.
    counted = (
        read_journal(spark, journal)
        .where(f.col("kind").isin(Kind.PUBLISHED.value, Kind.SEQUENCED.value) & f.col("topic").isNotNull())
        .groupBy("topic", "kind")
        .agg(f.count("*").alias("events"), f.min("at").alias("first"), f.max("at").alias("last"))
        .groupBy("topic")
        .agg(f.max("events"), f.min("first"), f.max("last"))
        .collect()
    )
    if not counted:
        return {}
    seconds = max(row[3] for row in counted) - min(row[2] for row in counted)
    return {row[0]: row[1] / (seconds or 1.0) for row in sorted(counted)}


def read_rates(path: Path) -> dict[str, float]:
    """Events per second of each topic: a JSON object, or `topic, rate` as CSV or Parquet."""
    if not path.is_file():
        raise ConfigError(f"{path} does not exist; rates are a JSON object, a CSV or a Parquet file")
    if path.suffix == ".json":
        try:
            pairs: Iterable[tuple[Any, Any]] = msgspec.json.decode(
                path.read_bytes(), type=dict[str, Any]
            ).items()
        except msgspec.MsgspecError as error:
            raise ConfigError(f"{path} is not a JSON object of rates by topic: {error}") from None
        return check_rates(pairs, str(path))
    if path.suffix == ".csv":
        with path.open(newline="") as file:
            rows = list(csv.DictReader(file))
        return check_rates(((row.get("topic"), row.get("rate")) for row in rows), str(path))
    if not {"topic", "rate"} <= set(_schema(path).names):
        raise ConfigError(f"{path} has no columns 'topic' and 'rate'")
    table = pq.read_table(path, columns=["topic", "rate"])
    return check_rates(zip(*(column.to_pylist() for column in table.columns), strict=True), str(path))


def check_rates(pairs: Iterable[tuple[Any, Any]], source: str) -> dict[str, float]:
    """These rates, if each is a topic with a finite number that is not negative, and none comes twice."""
    rates: dict[str, float] = {}
    for topic, value in pairs:
        try:
            rate = float(value)
        except (TypeError, ValueError):
            raise ConfigError(f"{source}: the rate of topic {topic!r} is {value!r}, not a number") from None
        if not math.isfinite(rate) or rate < 0:
            raise ConfigError(
                f"{source}: the rate of topic {topic!r} is {rate:g}; rates are finite and not negative"
            )
        if topic in rates:
            raise ConfigError(f"{source}: topic {topic!r} has two rates")
        rates[_checked(topic, source)] = rate
    return rates


def check_topics(topics: Iterable[str], source: str) -> None:
    """Raise ConfigError at the first name that is no topic."""
    for topic in topics:
        _checked(topic, source)


def fill_rates(topics: Iterable[str], rates: Mapping[str, float] | None) -> dict[str, float]:
    """A rate for every topic: 0 for those not named, or 1 each when nothing is known at all."""
    names = set(topics) | set(rates or ())
    return {topic: (rates.get(topic, 0.0) if rates is not None else 1.0) for topic in sorted(names)}


def _checked(topic: Any, source: str) -> str:
    try:
        return check_topic(topic)
    except TopicError as error:
        raise ConfigError(f"{source}: {error}") from None


def _schema(path: Path) -> pa.Schema:
    if not path.exists():
        raise ConfigError(f"{path} does not exist")
    files = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
    if not files:
        raise ConfigError(f"{path} holds no Parquet files")
    try:
        return pq.read_schema(files[0])
    except (pa.ArrowException, OSError) as error:
        raise ConfigError(f"{files[0]} is not a Parquet file: {error}") from None
