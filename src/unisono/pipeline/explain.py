"""What was found, in words: the records behind it are fetched, and `unisono.history.explain` does the talking."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from typing import Any

import msgspec
import numpy as np

from unisono.history import Kind, Record, explain
from unisono.history.explain import Finding
from unisono.pipeline.columns import CODE, NONE, Vocabulary, read_chunks
from unisono.pipeline.findings import Doubt, Found, Row
from unisono.pipeline.rows import read_rows
from unisono.pipeline.segments import Life


class Violation(msgspec.Struct, frozen=True):
    """One thing that is wrong: which promise it breaks first of all, which others too, and the rows that show it."""

    promise: str
    explanation: str
    subscription: str
    events: tuple[str, ...]
    rows: tuple[dict[str, Any], ...]
    also: tuple[dict[str, str], ...] = ()


class Told(msgspec.Struct, frozen=True):
    """A found violation with its words and records."""

    promise: str
    words: str
    rows: tuple[Row, ...]
    records: tuple[Record, ...]


def put_into_words(lives: Sequence[Life], found: Iterable[Found]) -> list[Told]:
    """Each with an explanation."""
    whole = [_completed(lives, f) for f in found]
    records = read_rows(lives, [row for f in whole for row in f.rows])
    return [_told(f, [records[row] for row in f.rows]) for f in whole]


def doubt_in_words(lives: Sequence[Life], doubt: Doubt) -> str:
    """The words of a doubt, its rows named."""
    records = read_rows(lives, doubt.rows)
    return doubt.words.format(
        *(f"{explain.who(r)}'s {explain.what(r)}" for r in (records[w] for w in doubt.rows))
    )


def together(told: Sequence[Told]) -> list[Violation]:
    """Violations, each with all the promises it breaks: what concerns the same subscription and event is one thing."""
    groups: list[tuple[set[tuple[str, str]], list[Told]]] = []
    for one in told:
        about = {(explain.who(r), r.event) for r in one.records if r.event and r.kind is not Kind.SUBSCRIBED}
        about = about or {(explain.who(r), r.topic) for r in one.records}
        mine = [g for g in groups if g[0] & about]
        merged = (about.union(*(g[0] for g in mine)), [t for g in mine for t in g[1]] + [one])
        groups = [g for g in groups if g not in mine] + [merged]
    return [_violation(members) for _, members in groups]


def _violation(members: list[Told]) -> Violation:
    seen: dict[str, Told] = {}
    for member in members:
        seen.setdefault(member.promise, member)
    ranked = sorted(seen.values(), key=lambda t: _RANK.get(t.promise, len(_RANK)))
    first = ranked[0]
    tags = seen.get("tags")
    # Who asked to be told late events by a tag has lost a tag; who waits has seen the wrong order.
    if tags is not None and first.promise in ("total_notification_order", "acyclic_order", "causal_order"):
        first = tags if _asked_for_tags(tags) else first
    others = tuple({"promise": t.promise, "explanation": t.words} for t in ranked if t is not first)
    return Violation(
        first.promise,
        first.words,
        explain.who(first.records[0]),
        tuple(dict.fromkeys(r.event for r in first.records if r.event)),
        tuple(
            {"life": row.life, "row": row.at, "record": {n: getattr(r, n) for n in Record.__struct_fields__}}
            for row, r in zip(first.rows, first.records, strict=True)
        ),
        others,
    )


def _asked_for_tags(tags: Told) -> bool:
    return any(r.kind is Kind.SUBSCRIBED and r.on_gap == "tag" for r in tags.records)


def _told(found: Found, records: list[Record]) -> Told:
    finding = _HOW[found.how](records, found.values)
    rows = dict(zip(map(id, records), found.rows, strict=True))
    kept = [r for r in finding.evidence if id(r) in rows] or records
    extra = [r for r in records if not any(r is k for k in kept) and r.kind is Kind.SUBSCRIBED]
    kept += extra
    return Told(found.promise, finding.words, tuple(rows[id(r)] for r in kept), tuple(kept))


def _completed(lives: Sequence[Life], found: Found) -> Found:
    """With the rows that the kernel could not know."""
    by_name = {life.name: life for life in lives}
    if found.how == "twice" and len(found.rows) == 1:
        return found._replace(
            rows=(_earlier_delivery(by_name[found.rows[0].life], found.rows[0]), *found.rows)
        )
    if found.how == "lost" and found.values:
        topic, number, life = str(found.values[0]), int(found.values[1]), str(found.values[2])
        sequenced = _sequenced(by_name[life], topic, number)
        return found._replace(rows=(found.rows[0], sequenced, *found.rows[1:]), values=())
    return found


def _earlier_delivery(life: Life, row: Row) -> Row:
    """The delivery that this one repeats; looked for backwards, for it is mostly not far away."""
    again = read_rows([life], [row])[row]
    publisher, incarnation, n = again.event.rsplit("/", 2)
    ends = list(accumulate(segment.rows for segment in life.segments))
    for segment, end in zip(reversed(life.segments), reversed(ends), strict=True):
        first, words, found = end - segment.rows, Vocabulary(), NONE
        for chunk in read_chunks([segment], words, first=first) if first < row.at else ():
            mine = (chunk.kind == CODE[Kind.DELIVERED]) & (chunk.n == int(n))
            mine &= chunk.author == words.authors.find((publisher, int(incarnation)))
            mine &= chunk.subscription == words.subscriptions.find((again.process, again.subscription))
            rows = np.flatnonzero(mine) + chunk.first
            rows = rows[rows < row.at]
            found = int(rows[-1]) if len(rows) else found
        if found != NONE:
            return Row(life.name, found)
    raise LookupError(again.event)


def _sequenced(life: Life, topic: str, number: int) -> Row:
    words = Vocabulary()
    for chunk in read_chunks(life.segments, words, "number"):
        rows = np.flatnonzero(
            (chunk.topic == words.topics.find(topic))
            & (chunk.more["number"] == number)
            & (chunk.kind == CODE[Kind.SEQUENCED])
        )
        if len(rows):
            return Row(life.name, chunk.first + int(rows[0]))
    raise LookupError(f"{topic} #{number}")


def _stamps_differ(odd: Record, other: Record) -> Finding:
    if odd.event != other.event:
        what = f"{explain.who(other)} has {other.event} as {other.topic} #{other.number}"
    else:
        mine, theirs = odd.stamp or {}, other.stamp or {}
        topics = [t for t in sorted({*mine, *theirs}) if mine.get(t) != theirs.get(t)]
        if not topics:
            what = f"{explain.who(other)} has it as {other.topic} #{other.number}"
        else:
            said = [f"{t} #{mine[t]}" if t in mine else f"nothing of {t}" for t in topics]
            known = [f"{t} #{theirs[t]}" if t in theirs else f"nothing of {t}" for t in topics]
            return Finding(
                f"{explain.who(odd)} saw {explain.what(odd)} with a stamp that says {', '.join(said)}, "
                f"but {explain.who(other)} has it with {', '.join(known)}",
                (odd, other),
            )
    return Finding(f"{explain.who(odd)} saw {explain.what(odd)}, but {what}", (odd, other))


def _second(records: list[Record]) -> Record | None:
    return records[1] if len(records) > 1 else None


_RANK = {
    promise: at
    for at, promise in enumerate(
        (
            "no_creation",
            "no_duplication",
            "publisher_fifo",
            "total_notification_order",
            "acyclic_order",
            "causal_order",
            "deadline",
            "no_unjust_drop",
            "tags",
            "stamps",
            "nothing_lost",
            "no_endless_wait",
        )
    )
}

_HOW: dict[str, Callable[[list[Record], tuple[Any, ...]], Finding]] = {
    "twice": lambda r, v: explain.twice(r[0], r[1]),
    "overtaken": lambda r, v: explain.overtaken(r[0], r[1]),
    "still_held": lambda r, v: explain.still_held(r[0]),
    "undeserved_tag": lambda r, v: explain.undeserved_tag(r[0]),
    "missing_tag": lambda r, v: explain.missing_tag(r[0], str(v[0]), int(v[1]), int(v[2]), r[1]),
    "missing_epoch_tag": lambda r, v: explain.missing_epoch_tag(r[0], r[1]),
    "stamps_differ": lambda r, v: _stamps_differ(r[0], r[1]),
    "lost": lambda r, v: explain.lost(r[0], r[1], r[2] if len(r) > 2 else None),
    "never_published": lambda r, v: explain.never_published(r[0]),
    "changed_topic": lambda r, v: explain.changed_topic(r[0], r[1]),
    "delivered_too_soon": lambda r, v: explain.delivered_too_soon(r[0], r[1]),
    "after_its_deadline": lambda r, v: explain.after_its_deadline(r[0], float(v[0]), _second(r)),
    "unjust_drop": lambda r, v: explain.unjust_drop(r[0], str(v[0]), _second(r)),
    "never_subscribed": lambda r, v: explain.never_subscribed(r[0]),
    "said": lambda r, v: Finding(str(v[0]), tuple(r)),  # a judge has found the words already
}
