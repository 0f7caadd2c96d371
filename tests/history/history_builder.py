"""Histories for tests, written as what happened."""

from __future__ import annotations

from collections import Counter

from unisono.history import Kind, Record, Verdict, judge


class Run:
    """Appends records with the right seq; events remember their topic, number and stamp."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self._seq: Counter[str] = Counter()
        self._events: dict[str, dict] = {}

    def add(self, kind: Kind, process: str, **fields) -> Run:
        self._seq[process] += 1
        seq = self._seq[process]
        self.records.append(Record(kind, process, seq, float(seq), **fields))
        return self

    def subscribe(self, who: str, *topics: str, order: str = "total", floor: int = 0, **fields) -> Run:
        for topic in topics:
            self.add(Kind.SUBSCRIBED, who, topic=topic, order=order, number=floor, **fields)
        return self

    def know(self, event: str, topic: str, number: int = 0, stamp=None, epoch: int = 0) -> Run:
        self._events[event] = {"topic": topic, "number": number, "stamp": stamp, "epoch": epoch}
        return self

    def publish(self, event: str, topic: str, number: int = 0, stamp=None, epoch: int = 0) -> Run:
        self.know(event, topic, number, stamp, epoch)
        return self.add(Kind.PUBLISHED, event.split("/")[0], event=event, topic=topic)

    def sequence(self, *events: str) -> Run:
        for event in events:
            self.add(Kind.SEQUENCED, "node", event=event, **self._events[event])
        return self

    def see(self, who: str, *events: str, tagged: bool = False, subscription: str = "") -> Run:
        for event in events:
            fields = self._events[event]
            self.add(
                Kind.DELIVERED, who, event=event, in_order=not tagged, subscription=subscription, **fields
            )
        return self

    def verdict(self, promise: str) -> Verdict:
        return judge(self.records, [promise])[0]
