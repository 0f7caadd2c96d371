"""Tags are complete and deserved: an event is tagged exactly if its stamp is behind what was already seen.

Each subscription's clock is replayed from its records. An event is clean if its own number is above the
clock, no other entry it shares with the clock is below it, and its epoch is not a past one. Clean events are
untagged and raise the clock; a tagged event leaves it alone. A topic that is joined starts
at its floor: what is below it on another topic may be tagged, and need not be. Who waits and was told that something is lost goes
on without it: what the lost event followed, on a topic that nobody else holds together with the next, may then
come after it untagged, and no two subscribers can tell. Only untagged deliveries move the clock: a tag
that only a lost or a tagged event explains is not deserved.
"""

from __future__ import annotations

from unisono.history import explain
from unisono.history.explain import Finding
from unisono.history.history import History, Subscription
from unisono.history.record import Kind, Record
from unisono.history.verdicts import Verdict, held, unknown, violated


def tags(history: History) -> Verdict:
    """Every untagged delivery is clean and every tagged one is not."""
    promise = "tags"
    subscriptions = history.promised("total", "total_causal")
    if not subscriptions:
        return unknown(promise, "no subscription was promised a total order")
    checked = 0
    unstamped: Record | None = None
    for subscription in subscriptions:
        replay = _Replay()
        finding = replay.run(subscription)
        checked += replay.checked
        if finding is not None:
            return violated(promise, finding, checked)
        unstamped = unstamped or replay.unstamped
    if unstamped is not None:
        why = f"{explain.who(unstamped)} saw {explain.what(unstamped)} without a stamp to judge it by"
        return unknown(promise, why, checked)
    return held(promise, checked)


class _Replay:
    """The clock of one subscription, with the record that last raised each entry."""

    def __init__(self) -> None:
        self.clock: dict[str, int] = {}  # what was told, and from where on topics are owed
        self.told: dict[str, int] = {}  # what was told alone
        self.raised_by: dict[str, Record] = {}
        self.epoch = 0
        self.entered_by: Record | None = None
        self.checked = 0
        self.unstamped: Record | None = None
        self.waits = False
        self.lost = False
        self.left = False

    def run(self, subscription: Subscription) -> Finding | None:
        """The first delivery whose tag is wrong; stops at a missing stamp, where the clock is lost."""
        for record in subscription.records:
            if record.kind is Kind.SUBSCRIBED:
                # Subscribing again without having left must not move the clock backwards.
                self._raise(record.topic, record.number, record)
                self.waits = record.on_gap in ("wait", "fail")
            elif record.kind is Kind.LOST:
                self.lost = True
            elif record.kind is Kind.UNSUBSCRIBED:
                self.clock.pop(record.topic, None)
                self.told.pop(record.topic, None)
                self.left = True
            elif record.kind is Kind.DELIVERED and record.topic in self.clock:
                if record.stamp is None or record.topic not in record.stamp:
                    self.unstamped = record
                    return None
                self.checked += 1
                finding = self._deliver(record, record.stamp)
                if finding is not None:
                    return finding
        return None

    def _deliver(self, record: Record, stamp: dict[str, int]) -> Finding | None:
        if record.in_order:
            late = self._late(record, stamp, self.told | {record.topic: self.clock[record.topic]})
            if late is not None and not (self.waits and self.lost):
                return late
            if record.epoch > self.epoch:
                self.epoch, self.entered_by = record.epoch, record
            for x, number in stamp.items():
                if x in self.clock:
                    self._raise(x, number, record)
                    self.told[x] = max(number, self.told.get(x, -1))
            return None
        if self.left:
            return None  # what it was behind may have been left untaken
        return explain.undeserved_tag(record) if self._late(record, stamp, self.clock) is None else None

    def _late(self, record: Record, stamp: dict[str, int], clock: dict[str, int]) -> Finding | None:
        """Why the event is not clean by this clock; None if it is."""
        if self.entered_by is not None and record.epoch < self.epoch:
            return explain.missing_epoch_tag(record, self.entered_by)
        for x, number in stamp.items():
            reached = clock.get(x)
            if reached is not None and (number < reached or (number == reached and x == record.topic)):
                return explain.missing_tag(record, x, number, reached, self.raised_by[x])
        return None

    def _raise(self, topic: str, number: int, record: Record) -> None:
        if number > self.clock.get(topic, -1):
            self.clock[topic] = number
            self.raised_by[topic] = record
