"""What a report tells, counted by Spark: one pass over the journal, and one over its subscriptions.

Latency is the subscriber's clock less the publisher's: across machines it is as good as their clocks agree.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow.parquet as pq

from unisono.history import Kind
from unisono.model.errors import ConfigError
from unisono.pipeline.lake import QUARANTINE, Lake
from unisono.pipeline.plan_cost import NUMBER_BYTES
from unisono.pipeline.plan_inputs import subscriptions_in
from unisono.pipeline.plan_journal import read_journal
from unisono.pipeline.plan_overlaps import Matrix, count_overlaps
from unisono.pipeline.segments import Footer, Refused, list_journal, read_footer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

OVERLAP_TOPICS_MAX = 24  # a heat map of more is a grey square
BUCKETS_PER_DOUBLING = 2
LATENCY_MS_MIN = 0.001


class TopicFacts(msgspec.Struct, frozen=True):
    """One topic: what was published and what became of it."""

    topic: str
    published: int
    subscribers: int
    delivered: int
    tagged: int
    held: int
    dropped: int
    lost: int
    latency_ms_p50: float | None
    latency_ms_p99: float | None
    stamp_entries: float  # mean per delivery
    stamp_bytes: float  # likewise, as msgpack writes them


class Phase(msgspec.Struct, frozen=True):
    """How long one part of an event's way takes."""

    name: str
    events: int
    ms_p50: float
    ms_p99: float


class Bucket(msgspec.Struct, frozen=True):
    """Deliveries that took between two times."""

    ms_from: float
    ms_to: float
    deliveries: int


class Overlaps(msgspec.Struct, frozen=True):
    """How many subscriptions hold both of two topics, for the topics held most."""

    topics: tuple[str, ...]
    shared: tuple[tuple[int, ...], ...]  # on the diagonal: how many hold the topic
    left_out: int  # topics


class Facts(msgspec.Struct, frozen=True):
    """Everything the page shows about a journal."""

    journal: str
    records: int
    lives: int
    lives_whole: int  # that ended in good order
    subscriptions: int
    seconds: float  # from the first record to the last
    topics: tuple[TopicFacts, ...]  # the busiest first
    totals: dict[str, int]  # by kind of record, and "tagged"
    reasons: dict[str, int]  # why events were dropped
    phases: tuple[Phase, ...]
    histogram: tuple[Bucket, ...]
    overlaps: Overlaps
    refused: tuple[tuple[str, str], ...]  # files that could not be read, and why


def gather_facts(spark: SparkSession, journal: Path) -> Facts:
    """Count everything in a journal once."""
    listing = list_journal(journal)
    lives = (len(listing.lives), sum(life.is_whole for life in listing.lives))
    refused = tuple((str(Path(r.path).name), r.reason) for r in listing.refused)
    return _count(read_journal(spark, journal), str(journal), lives, refused)


def check_lake(lake: Path) -> Lake:
    """The lake, if it has tables."""
    place = Lake(lake)
    if not (place.warehouse / "raw").is_dir():
        raise ConfigError(f"'{lake}' has no tables; make them with 'unisono pipeline run'")
    return place


def gather_lake_facts(spark: SparkSession, lake: Path) -> Facts:
    """The same from the tables of a lake; the journal is not needed any more."""
    place = check_lake(lake)
    landed = [str(p) for p in sorted(place.landed.glob("*.parquet"))]
    footers = [f for f in map(read_footer, landed) if not isinstance(f, Refused)]
    last: dict[str, Footer] = {}  # of each life
    for path, footer in zip(landed, footers, strict=True):
        last[Path(path).stem.rpartition("-")[0]] = footer
    lives = (len(last), sum(f.is_last and not f.dropped for f in last.values()))
    rows = pq.read_table(place.quarantined, schema=QUARANTINE).to_pylist()
    refused = tuple(sorted((Path(row["path"]).name, row["reason"]) for row in rows))
    return _count(spark.read.parquet(str(place.warehouse / "raw")), str(lake), lives, refused)


def _count(
    frame: DataFrame, source: str, lives: tuple[int, int], refused: tuple[tuple[str, str], ...]
) -> Facts:
    from pyspark.sql import functions as f

    latency = f.greatest((f.col("at") - f.col("published_at")) * 1000, f.lit(0.0))
    frame = frame.withColumn("ms", f.when(f.col("kind") == Kind.DELIVERED.value, latency))
    rows = [row.asDict() for row in _by_topic(frame).collect()]
    matrix = count_overlaps(subscriptions_in(frame, 1), 1)
    totals: dict[str, int] = {kind.value: 0 for kind in Kind} | {"tagged": 0}
    for row in rows:
        totals[row["kind"]] = totals.get(row["kind"], 0) + row["rows"]
        totals["tagged"] += row["tagged"]
    times = [row[end] for row in rows for end in ("first", "last")]
    return Facts(
        journal=source,
        records=sum(row["rows"] for row in rows),
        lives=lives[0],
        lives_whole=lives[1],
        subscriptions=matrix.subscriptions,
        seconds=round(max(times) - min(times), 6) if times else 0.0,
        topics=_topics(rows, matrix),
        totals=totals,
        reasons=_reasons(frame),
        phases=_phases(frame),
        histogram=_histogram(frame),
        overlaps=_overlaps(matrix),
        refused=refused,
    )


def _by_topic(frame: DataFrame) -> DataFrame:
    from pyspark.sql import functions as f

    entries = f.coalesce(f.size("stamp"), f.lit(0))
    # A layout has one space less than names; each entry adds a header and a number.
    size = f.octet_length("layout") + 1 + entries * (1 + NUMBER_BYTES - 1)
    is_tagged = (f.col("kind") == Kind.DELIVERED.value) & ~f.col("in_order")
    return frame.groupBy("kind", "topic").agg(
        f.count("*").alias("rows"),
        f.count_if(is_tagged).alias("tagged"),
        f.min("at").alias("first"),
        f.max("at").alias("last"),
        f.percentile_approx("ms", [0.5, 0.99]).alias("ms"),
        f.avg(f.when(f.col("layout").isNotNull(), entries)).alias("entries"),
        f.avg(f.when(f.col("layout").isNotNull(), size)).alias("bytes"),
    )


def _topics(rows: list[dict[str, Any]], matrix: Matrix) -> tuple[TopicFacts, ...]:
    holders = dict(zip(matrix.topics, matrix.holders.tolist(), strict=True))
    by_topic: dict[str, dict[str, dict[str, Any]]] = {topic: {} for topic in holders}
    for row in rows:
        if row["topic"] is not None:
            by_topic.setdefault(row["topic"], {})[row["kind"]] = row
    found = []
    for topic, kinds in by_topic.items():
        counts = {kind: row["rows"] for kind, row in kinds.items()}
        delivered: Mapping[str, Any] = kinds.get("delivered", {})
        p50, p99 = delivered.get("ms") or (None, None)
        found.append(
            TopicFacts(
                topic=topic,
                published=max(counts.get("published", 0), counts.get("sequenced", 0)),
                subscribers=holders.get(topic, 0),
                delivered=counts.get("delivered", 0),
                tagged=delivered.get("tagged", 0),
                held=counts.get("held", 0),
                dropped=counts.get("dropped", 0),
                lost=counts.get("lost", 0),
                latency_ms_p50=p50,
                latency_ms_p99=p99,
                stamp_entries=round(delivered.get("entries") or 0.0, 3),
                stamp_bytes=round(delivered.get("bytes") or 0.0, 1),
            )
        )
    return tuple(sorted(found, key=lambda t: (-t.published, -t.delivered, t.topic)))


def _reasons(frame: DataFrame) -> dict[str, int]:
    dropped = frame.where(f"kind = '{Kind.DROPPED.value}'").groupBy("reason").count().collect()
    counts = {row[0] or "no reason given": row[1] for row in dropped}
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def _phases(frame: DataFrame) -> tuple[Phase, ...]:
    """From the publisher to its place in the order, and all the way; sequencing needs both ends in the journal."""
    from pyspark.sql import functions as f

    event = ["publisher", "incarnation", "n"]
    published = frame.where(f"kind = '{Kind.PUBLISHED.value}'").select(*event, f.col("at").alias("begin"))
    sequenced = frame.where(f"kind = '{Kind.SEQUENCED.value}'").select(*event, f.col("at").alias("end"))
    ordering = (
        published.join(sequenced, event)
        .select(f.greatest((f.col("end") - f.col("begin")) * 1000, f.lit(0.0)).alias("ms"))
        .select(f.lit("published → sequenced").alias("name"), "ms")
    )
    whole = frame.where("ms is not null").select(f.lit("published → delivered").alias("name"), "ms")
    measured = (
        ordering.unionAll(whole)
        .groupBy("name")
        .agg(f.count("*").alias("events"), f.percentile_approx("ms", [0.5, 0.99]).alias("ms"))
        .orderBy(f.col("name").desc())
        .collect()
    )
    return tuple(Phase(row["name"], row["events"], row["ms"][0], row["ms"][1]) for row in measured)


def _histogram(frame: DataFrame) -> tuple[Bucket, ...]:
    from pyspark.sql import functions as f

    step = f.floor(f.log2(f.greatest("ms", f.lit(LATENCY_MS_MIN))) * BUCKETS_PER_DOUBLING)
    counted = frame.where("ms is not null").groupBy(step.alias("step")).count().collect()
    counts = {int(row[0]): int(row[1]) for row in counted}
    if not counts:
        return ()
    edge = [2 ** (step / BUCKETS_PER_DOUBLING) for step in range(min(counts), max(counts) + 2)]
    return tuple(
        Bucket(edge[i], edge[i + 1], counts.get(step, 0))
        for i, step in enumerate(range(min(counts), max(counts) + 1))
    )


def _overlaps(matrix: Matrix) -> Overlaps:
    most = sorted(range(len(matrix.topics)), key=lambda i: (-int(matrix.holders[i]), matrix.topics[i]))
    chosen = most[:OVERLAP_TOPICS_MAX]
    place = {topic: i for i, topic in enumerate(chosen)}
    table = [[0] * len(chosen) for _ in chosen]
    for topic, i in place.items():
        table[i][i] = int(matrix.holders[topic])
    for low, high, shared in zip(
        matrix.low.tolist(), matrix.high.tolist(), matrix.shared.tolist(), strict=True
    ):
        if low in place and high in place:
            table[place[low]][place[high]] = table[place[high]][place[low]] = shared
    names = tuple(matrix.topics[topic] for topic in chosen)
    return Overlaps(names, tuple(map(tuple, table)), len(most) - len(chosen))
