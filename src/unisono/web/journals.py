"""One event's life, from a journal: when it was published, sequenced, and what became of it at each subscriber."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from unisono.history.record import Kind, Record
from unisono.model.errors import ConfigError

LISTED_MAX = 200  # events that are offered
STEPS_MAX = 2000  # of one life that are told
SEGMENTS_LISTED = 40  # in which events to offer are looked for
TOPIC_MAX = 200


class Journal:
    """The journal in a folder; it may still grow."""

    def __init__(self, folder: Path) -> None:
        if not folder.is_dir():
            raise ConfigError(f"there is no journal in '{folder}': no such folder")
        self._folder = folder
        self._lock = threading.Lock()  # one reader at a time: tables are large

    @property
    def name(self) -> str:
        """How people call it."""
        return self._folder.name

    def events(self, topic: str = "") -> dict[str, Any]:
        """Some of the newest events, to choose one from."""
        pc, scan, read = _needs_arrow()
        found: dict[str, dict[str, Any]] = {}
        with self._lock:
            contents = scan(self._folder)
            newest = sorted(contents.segments, key=lambda segment: segment.path.stat().st_mtime)
            some = type(contents)(newest[-SEGMENTS_LISTED:][::-1], [])
            columns = ["kind", "at", "publisher", "incarnation", "n", "topic", "number", "process"]
            for table in read(some, columns=columns):
                mine = pc.equal(pc.cast(table["kind"], "string"), Kind.SEQUENCED.value)
                is_mine = pc.or_(mine, pc.equal(pc.cast(table["kind"], "string"), Kind.PUBLISHED.value))
                if topic:
                    is_mine = pc.and_(is_mine, pc.equal(pc.cast(table["topic"], "string"), topic[:TOPIC_MAX]))
                for row in table.filter(is_mine).to_pylist()[-LISTED_MAX:]:
                    id = f"{row['publisher']}/{row['incarnation']}/{row['n']}"
                    known = found.setdefault(
                        id, {"event": id, "topic": row["topic"], "number": 0, "at": row["at"]}
                    )
                    known["number"] = known["number"] or row["number"]
                    known["at"] = min(known["at"], row["at"])
                if len(found) >= 4 * LISTED_MAX:
                    break
        events = sorted(found.values(), key=lambda event: -event["at"])
        return {"events": events[:LISTED_MAX], "segments": len(contents.segments)}

    def life(self, event: str) -> dict[str, Any] | None:
        """Everything that the journal says about one event, in the order of the clocks; None if it says nothing."""
        publisher, incarnation, n = _parts(event)
        pc, scan, read = _needs_arrow()
        from unisono.journal.records import records_of

        records: list[Record] = []
        with self._lock:
            contents = scan(self._folder)
            for table in read(contents):
                is_it = pc.and_(
                    pc.and_(pc.equal(table["n"], n), pc.equal(table["incarnation"], incarnation)),
                    pc.equal(pc.cast(table["publisher"], "string"), publisher),
                )
                records += records_of(table.filter(is_it))
                if len(records) >= STEPS_MAX:
                    break
        return None if not records else _life(event, sorted(records, key=lambda record: record.at))


def _life(event: str, records: list[Record]) -> dict[str, Any]:
    began = next((r.at for r in records if r.kind is Kind.PUBLISHED), records[0].at)
    stamp = next((r.stamp for r in records if r.stamp), None)
    return {
        "event": event,
        "topic": next((r.topic for r in records if r.topic), ""),
        "number": next((r.number for r in records if r.number), 0),
        "epoch": max(r.epoch for r in records),
        "stamp": stamp,
        "began_at": began,
        "steps": [
            {
                "kind": r.kind.value,
                "process": r.process,
                "subscription": r.subscription,
                "after_ms": round(1000 * (r.at - began), 3),
                "in_order": r.in_order,
                "reason": r.reason,
            }
            for r in records[:STEPS_MAX]
        ],
    }


def _parts(event: str) -> tuple[str, int, int]:
    publisher, _, rest = event.rpartition("/")
    publisher, _, incarnation = publisher.rpartition("/")
    try:
        if not publisher or len(event) > 500:
            raise ValueError
        return publisher, _number(incarnation), _number(rest)
    except ValueError:
        raise ConfigError("an event is called publisher/incarnation/n, for example desk/1/7") from None


def _number(text: str) -> int:
    if not text.isdecimal() or len(text) > 19 or int(text) >= 2**63:
        raise ValueError
    return int(text)


def _needs_arrow() -> Any:
    try:
        import pyarrow.compute as pc

        from unisono.journal.contents import scan
        from unisono.journal.reader import read_journal
    except ImportError:
        raise ConfigError("journals need Arrow: 'pip install unisono[journal]'") from None
    return pc, scan, read_journal
