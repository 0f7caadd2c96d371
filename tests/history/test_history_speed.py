"""Judging stays close to linear: large histories take seconds."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

import pytest

from unisono.history import PROMISES, History, Kind, Outcome, Record, judge

SUBSCRIBERS = 20
TOPICS = 10

WITHOUT_DEADLINES = [promise for promise in PROMISES if promise not in ("deadline", "no_unjust_drop")]


def large(deliveries: int, disturb: Callable[[list[list[int]]], None] = lambda rows: None) -> list[Record]:
    """One order of many events, filtered for subscribers that each hold half of the topics."""
    luck = random.Random(7)
    events = 2 * deliveries // SUBSCRIBERS
    topic = [i % TOPICS for i in range(events)]
    rows = [
        [i for i in range(events) if topic[i] in held]
        for held in (set(luck.sample(range(TOPICS), TOPICS // 2)) for _ in range(SUBSCRIBERS))
    ]
    disturb(rows)
    stamps = [{f"T{t}": i // TOPICS + (t <= topic[i]) for t in range(TOPICS)} for i in range(events)]
    records = [Record(Kind.HEALED, "world", 1, 0.0)]
    for i in range(events):
        publisher, fields = f"p{i % 10}", {"event": f"p{i % 10}/0/{i}", "topic": f"T{topic[i]}"}
        records.append(Record(Kind.PUBLISHED, publisher, i, 0.0, **fields))
        records.append(
            Record(
                Kind.SEQUENCED, "node", i, 0.0, number=stamps[i][f"T{topic[i]}"], stamp=stamps[i], **fields
            )
        )
    for s, row in enumerate(rows):
        records.extend(
            Record(Kind.SUBSCRIBED, f"s{s}", t, 0.0, topic=f"T{t}", order="total_causal")
            for t in sorted({topic[i] for i in row})
        )
        records.extend(
            Record(
                Kind.DELIVERED,
                f"s{s}",
                TOPICS + at,
                0.0,
                f"p{i % 10}/0/{i}",
                f"T{topic[i]}",
                stamps[i][f"T{topic[i]}"],
                stamps[i],
            )
            for at, i in enumerate(row)
        )
    return records


def within(seconds: float, records: list[Record], promise: str) -> Outcome:
    start = time.process_time()
    (verdict,) = judge(records, [promise])
    assert time.process_time() - start < seconds
    return verdict.outcome


def test_total_order_of_two_hundred_thousand_deliveries():
    records = large(200_000)
    assert sum(r.kind is Kind.DELIVERED for r in records) == 200_000
    assert within(3.0, records, "total_notification_order") is Outcome.HELD


def test_a_contradiction_among_many_deliveries_is_found_in_time():
    def swap(rows: list[list[int]]) -> None:
        rows[3][100], rows[3][9000] = rows[3][9000], rows[3][100]

    assert within(6.0, large(200_000, swap), "total_notification_order") is Outcome.VIOLATED


@pytest.mark.parametrize("promise", WITHOUT_DEADLINES)
def test_every_promise_over_a_hundred_thousand_deliveries(promise):
    assert within(6.0, large(100_000), promise) is Outcome.HELD


def test_indexes_are_built_once():
    history = History(large(1_000))
    assert {v.outcome for v in judge(history, WITHOUT_DEADLINES)} == {Outcome.HELD}
