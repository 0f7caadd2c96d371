"""The shortcut for rising stamps comes to what the clock comes to, row by row, whatever the stamps say."""

from __future__ import annotations

import random
from itertools import pairwise

import pyarrow as pa
import pytest

from unisono.pipeline.certificate import Certificate
from unisono.pipeline.certify import Witnessed
from unisono.pipeline.frames import ARROW, feed_records

TOPICS = ("a", "b", "c")
SEEDS = 400


def table(seed: int) -> list[pa.Table]:
    """Deliveries that are mostly right, in a few tables: stamps, tags or epochs are off here and there."""
    rng = random.Random(seed)
    slips = rng.choice([0.0, 0.02, 0.1])
    held = rng.sample(TOPICS, rng.randint(1, 3))
    rows = [
        record(kind="subscribed", topic=t, number=rng.choice([0, 0, 0, 3]), order="total", on_gap="tag")
        for t in held
    ]
    clock, epoch = dict.fromkeys(TOPICS, 0), 0
    late: list[dict[str, object]] = []
    for n in range(1, rng.randint(8, 40)):
        topic = rng.choice(held)
        for other in TOPICS:
            clock[other] += rng.random() < 0.4 or other == topic
        if rng.random() < slips:
            clock[rng.choice(TOPICS)] -= 1
        epoch += rng.random() < slips / 2
        stamp = [max(0, clock[t]) for t in TOPICS]
        told = epoch - (rng.random() < slips / 2)
        one = record(kind="delivered", topic=topic, n=n, number=clock[topic], stamp=stamp, epoch=max(0, told))
        one["in_order"] = rng.random() >= slips / 2
        if rng.random() < 0.1:
            late.append({**one, "in_order": rng.random() < slips})
        else:
            rows.append(one)
        if late and rng.random() < 0.4:
            rows.append(late.pop())
    for seq, row in enumerate(rows, start=1):
        row["seq"] = seq
    cuts = [0, *sorted(rng.sample(range(1, len(rows)), 2)), len(rows)]
    return [pa.Table.from_pylist(rows[a:b], ARROW) for a, b in pairwise(cuts)]


def record(**fields: object) -> dict[str, object]:
    about = {"publisher": "p", "incarnation": 1, "layout": " ".join(TOPICS)} if "n" in fields else {}
    return {"process": "me", "subscription": "", "in_order": True, "epoch": 0, **about, **fields}


def judged(seed: int) -> list[object]:
    """All that is known after each table."""
    witnessed, known = Witnessed("me"), []
    for part in table(seed):
        feed_records(witnessed, part)
        (c,) = witnessed.certificates.values()
        known.append((c.clock, c.told, c.raised_by, c.epoch, c.checked, c.is_plain, c.found, c.unstamped))
        known.append(c.entered_by)
    return [*map(repr, known)]


def test_the_shortcut_and_the_clock_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    taken, real = [], Certificate._rises

    def counting(self: Certificate, *args: object) -> bool:
        taken.append(real(self, *args))  # type: ignore[arg-type]
        return taken[-1]

    monkeypatch.setattr(Certificate, "_rises", counting)
    short = [judged(seed) for seed in range(SEEDS)]
    assert SEEDS / 2 < sum(taken) < len(taken) - SEEDS / 4, "both ways must be tried"
    monkeypatch.setattr(Certificate, "_rises", lambda self, chunk, rows: False)
    for seed in range(SEEDS):
        assert judged(seed) == short[seed], seed
    assert sum("Found" in known[-2] for known in short) > SEEDS / 10
