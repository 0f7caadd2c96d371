"""raw -> clean -> facts, as streaming tables that read only new segments; verdicts and plan, which are small, made anew."""

from __future__ import annotations

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

spark = SparkSession.active()

SEGMENT = """
    kind string, process string, subscription string, seq long, at double, publisher string, incarnation long,
    n long, topic string, number long, epoch int, in_order boolean, layout string, stamp array<long>,
    published_at double, `order` string, on_gap string, reason string, body binary
"""
FOREVER = "36500d"  # files that are old when they come must not be passed over in silence


def _folder(name: str) -> str:
    return spark.conf.get(f"unisono.{name}") or ""


@dp.table(comment="Every row of every usable segment, as it was recorded, and which segment it came from.")
def raw() -> DataFrame:
    segments = spark.readStream.schema(SEGMENT).option("maxFileAge", FOREVER)
    return (
        segments.parquet(_folder("landed")).withColumn("segment", f.col("_metadata.file_name")).drop("body")
    )


@dp.table(comment="Segments that could not be used, and why.")
def quarantine() -> DataFrame:
    rows = spark.readStream.schema("path string, reason string, at double").option("maxFileAge", FOREVER)
    return rows.parquet(_folder("quarantined")).withColumn("at", f.timestamp_seconds("at"))


@dp.table(
    comment="Typed: an event's id in one column, times as times, no word where there is nothing to say."
)
def clean() -> DataFrame:
    return spark.readStream.table("raw").select(
        "segment",
        "seq",
        "kind",
        "process",
        "subscription",
        f.timestamp_seconds("at").alias("at"),
        f.when(f.col("publisher").isNotNull(), f.concat_ws("/", "publisher", "incarnation", "n")).alias(
            "event"
        ),
        "publisher",
        "topic",
        f.when(f.col("number") > 0, f.col("number")).alias("number"),
        "epoch",
        "in_order",
        f.size("stamp").alias("stamp_entries"),
        f.timestamp_seconds("published_at").alias("published_at"),
        "order",
        "on_gap",
        "reason",
    )


@dp.table(comment="One row for each delivery: how long it took, and what its stamp weighed.")
def facts() -> DataFrame:
    rows = spark.readStream.table("clean").where("kind = 'delivered'")
    latency = f.col("at").cast("double") - f.col("published_at").cast("double")
    return rows.select(
        "process",
        "subscription",
        "event",
        "topic",
        "number",
        "epoch",
        "in_order",
        "at",
        (latency * 1000).alias("latency_ms"),
        "stamp_entries",
        (f.col("stamp_entries") * 8).alias("stamp_bytes"),
    )


@dp.materialized_view(comment="What the last run says about each promise.")
def verdicts() -> DataFrame:
    return spark.read.parquet(_folder("verdicts"))


@dp.materialized_view(comment="The plan that follows from all that was taken in: a row for each topic.")
def plan() -> DataFrame:
    return spark.read.parquet(_folder("plan"))
