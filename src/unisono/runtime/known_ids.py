"""Ids that users gave their events, so that a retry does not become a second event."""

from __future__ import annotations

from collections import OrderedDict

from unisono.runtime.receipts import Arrived, Flight, Receipt

IDS_MAX = 65536


class KnownIds:
    """The receipts of the events that were published with an id; the oldest are forgotten."""

    def __init__(self) -> None:
        self._receipts: OrderedDict[tuple[str, str], Receipt | Arrived] = OrderedDict()

    def find(self, topic: str, id: str) -> Receipt | None:
        """The receipt of an event that was published with this id before, if it is remembered and did not fail."""
        receipt = self._receipts.get((topic, id))
        if isinstance(receipt, Arrived):
            return receipt.receipt()
        return None if receipt is None or receipt.has_failed else receipt.again()

    def remember(self, topic: str, id: str, receipt: Receipt) -> None:
        """An event is being published with this id."""
        self._receipts[topic, id] = receipt
        if len(self._receipts) > IDS_MAX:
            self._receipts.popitem(last=False)

    def landed(self, flight: Flight) -> None:
        """Keep no payloads, and no fellow passengers, of events that have arrived."""
        receipts = self._receipts
        for seat in flight.keyed:
            publication = flight.publications[seat]
            key = (publication.topic, publication.key or "")
            if key in receipts and flight.failure(seat) is None:
                receipts[key] = Receipt(flight, seat).arrived()

    def __len__(self) -> int:
        return len(self._receipts)
