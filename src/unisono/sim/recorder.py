"""Turns what happens in a simulation into the records that judges read."""

from __future__ import annotations

from unisono.history import Kind, Record
from unisono.model.frames import Publication, Stamped


class Recorder:
    """A history in the making; each process counts its own records."""

    def __init__(self, order: str) -> None:
        self.order = order
        self.records: list[Record] = []
        self._seq: dict[str, int] = {}

    def published(self, process: str, publication: Publication, now: float) -> None:
        """The application handed over an event."""
        self._add(Kind.PUBLISHED, process, now, str(publication.id), publication.topic)

    def sequenced(self, process: str, event: Stamped, now: float) -> None:
        """An event has its whole stamp and is on its way."""
        self._add_event(Kind.SEQUENCED, process, event, now)

    def delivered(self, process: str, event: Stamped, now: float, in_order: bool) -> None:
        """The application was handed an event."""
        self._add_event(Kind.DELIVERED, process, event, now, in_order)

    def dropped(self, process: str, event: Stamped, now: float, reason: str) -> None:
        """A rule dropped an event."""
        self._add_event(Kind.DROPPED, process, event, now, True, reason)

    def held(self, process: str, event: Stamped, now: float, reason: str) -> None:
        """The run ended while an event was held back."""
        self._add_event(Kind.HELD, process, event, now, True, reason)

    def lost(self, process: str, topic: str, number: int, now: float) -> None:
        """A number was declared lost."""
        self._add(Kind.LOST, process, now, "", topic, number, reason="declared lost")

    def subscribed(self, process: str, topic: str, floor: int, now: float, on_gap: str) -> None:
        """Every later event of the topic is owed."""
        self._add(Kind.SUBSCRIBED, process, now, "", topic, floor, order=self.order, on_gap=on_gap)

    def unsubscribed(self, process: str, topic: str, now: float, reason: str) -> None:
        """Nothing of the topic is owed any more."""
        self._add(Kind.UNSUBSCRIBED, process, now, "", topic, reason=reason)

    def healed(self, now: float) -> None:
        """The world stopped doing harm."""
        self._add(Kind.HEALED, "world", now)

    def _add(
        self,
        kind: Kind,
        process: str,
        now: float,
        event: str = "",
        topic: str = "",
        number: int = 0,
        *,
        order: str = "",
        on_gap: str = "",
        reason: str = "",
    ) -> None:
        seq = self._seq[process] = self._seq.get(process, 0) + 1
        self.records.append(
            Record(kind, process, seq, now, event, topic, number, order=order, on_gap=on_gap, reason=reason)
        )

    def _add_event(
        self, kind: Kind, process: str, event: Stamped, now: float, in_order: bool = True, reason: str = ""
    ) -> None:
        seq = self._seq[process] = self._seq.get(process, 0) + 1
        id, topic = str(event.publication.id), event.topic
        self.records.append(
            Record(
                kind,
                process,
                seq,
                now,
                id,
                topic,
                event.entries[topic],
                event.entries,
                event.epoch,
                in_order,
                reason=reason,
            )
        )
