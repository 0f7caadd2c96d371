"""The certificate kernel on records that Spark holds as a frame, in any order, as a table has them.

`unisono.pipeline.audit` reads segments itself, without a shuffle, because a journal keeps the records of a life
together and in order. Here they are grouped and sorted first (`applyInArrow`). A journal that is still being
written is judged by `unisono.pipeline.watch`. All of them feed the same `Witnessed`.
"""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from unisono.journal.schema import SCHEMA
from unisono.pipeline.certify import COLUMNS, Certified, Witnessed, certify, suspected_blocks
from unisono.pipeline.columns import BASE, chunks_of
from unisono.pipeline.findings import Doubt

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NEEDED = [*dict.fromkeys((*BASE, *COLUMNS, "seq"))]
ARROW = pa.schema(
    [(n, t.value_type if pa.types.is_dictionary(t) else t) for n in NEEDED for t in [SCHEMA.field(n).type]]
)


def feed_records(witnessed: Witnessed, records: pa.Table) -> None:
    """Judge records of one process, in any order among themselves, that follow those already fed."""
    witnessed.reach.append({})
    witnessed.segments += 1
    batches = records.select(NEEDED).sort_by("seq").combine_chunks().to_batches()
    witnessed.feed_chunks(chunks_of(batches, witnessed.words, first=witnessed.rows))


def certify_frame(frame: DataFrame) -> Certified:
    """The certificate audit of all records of a frame: one group for each process, no two compared."""
    rows = frame.select(*NEEDED).groupBy("process").applyInArrow(_judge_group, "state binary").toArrow()
    shown: list[Witnessed] = [pickle.loads(state) for state in rows.column("state").to_pylist()]
    blocks = suspected_blocks(shown)
    result = certify(shown, {life.life for life in shown}, None)
    if blocks:
        words = f"stamps of {len(blocks)} blocks of numbers are not summed up alike; audit the journal to compare them"
        result.doubts.append(Doubt("stamps", words))
    return result


def _judge_group(key: tuple[Any, ...], records: pa.Table) -> pa.Table:
    witnessed = Witnessed(key[0].as_py())
    feed_records(witnessed, records.cast(ARROW.with_metadata(None)) if records.schema != ARROW else records)
    return pa.table({"state": pa.array([pickle.dumps(witnessed.slim(), protocol=5)], pa.binary())})
