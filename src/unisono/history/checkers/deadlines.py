"""Deadlines: nothing comes too late, and what came in time is dropped only for a cause.

A subscription with a deadline gets causes before effects, fresh or not at all. What an event follows is in its `told`
row: one stamp for each stream, its own included. One event precedes another if the other's stamp for its stream is not
below its own. An event *has to go* at the moment its told row names, or when one that follows it and has come to the same
process has to go; that process is one receiver, whatever its subscriptions.
"""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from heapq import heappop, heappush
from math import inf
from typing import NamedTuple

from unisono.history import explain
from unisono.history.history import History, Subscription
from unisono.history.record import Kind, Record
from unisono.history.verdicts import Outcome, Verdict, held, unknown, violated

TOO_LATE, STALLED, OVERTAKEN = "too late", "stalled", "overtaken"
BEFORE, LEFT = "before joining", "left"
REFUSED = ("clock ahead", "lives too long", "full")  # a receiver within its bounds never drops for these
JUDGED = (TOO_LATE, STALLED, OVERTAKEN, BEFORE, LEFT, *REFUSED)  # other reasons are the application's own

NOBODY = "no subscription has a deadline"


def patience_of(subscription: Subscription) -> float | None:
    """For how many seconds its events are of use to it; None: it has no deadline."""
    if subscription.order != "causal":
        return None
    first = next(r for r in subscription.records if r.kind is Kind.SUBSCRIBED)
    return first.deadline


def deadline(history: History) -> Verdict:
    """No subscription with a deadline is handed an event after it, by its own clock."""
    promise, checked = "deadline", 0
    patient = [(s, p) for s in history.subscriptions.values() if (p := patience_of(s)) is not None]
    if not patient:
        return unknown(promise, NOBODY)
    for subscription, patience in patient:
        for record in subscription.deliveries:
            published = history.published.get(record.event)
            until = until_of(published, patience) if published is not None else record.deadline
            if until is None:
                continue
            checked += 1
            if record.at > until:
                return violated(promise, explain.after_its_deadline(record, until, published), checked)
    return held(promise, checked)


def until_of(published: Record, patience: float) -> float:
    """Until when an event is of use to who has this patience."""
    until = published.at + patience
    return until if published.deadline is None else min(until, published.deadline)


class Told(NamedTuple):
    """What is known of the order of an event."""

    stream: str
    number: int
    stamp: dict[str, int]
    due: float  # from when it has to go


def told_of(history: History) -> dict[str, Told]:
    """The order of every event that was told."""
    told: dict[str, Told] = {}
    for records in history.processes.values():
        for r in records:
            if r.kind is Kind.TOLD and r.stamp and r.deadline is not None and r.event not in told:
                own = [s for s, n in r.stamp.items() if n == r.number and s.endswith(f"/{r.topic}")]
                if own:
                    told[r.event] = Told(own[0], r.number, r.stamp, r.deadline)
    return told


def no_unjust_drop(history: History) -> Verdict:
    """An event that came in time is dropped only because one that follows it had to go first."""
    promise = "no_unjust_drop"
    receivers: dict[str, list[Subscription]] = {}
    for subscription in history.subscriptions.values():
        if patience_of(subscription) is not None:
            receivers.setdefault(subscription.process, []).append(subscription)
    if not receivers:
        return unknown(promise, NOBODY)
    told, checked, doubt = told_of(history), 0, ""
    reasons: Counter[str] = Counter()
    for subscriptions in receivers.values():
        receiver = _Receiver(history, told, subscriptions)
        for subscription in subscriptions:
            for record in subscription.records:
                checked += record.kind is Kind.DELIVERED
                if record.kind is Kind.DROPPED:
                    checked += 1
                    reasons[record.reason] += 1
                    wrong = receiver.wrong_with(record, subscription)
                    if isinstance(wrong, explain.Finding):
                        return violated(promise, wrong, checked)
                    doubt = doubt or wrong
    if doubt:
        return unknown(promise, doubt, checked)
    return Verdict(promise, Outcome.HELD, in_words(checked, reasons), (), checked)


def in_words(checked: int, reasons: Counter[str]) -> str:
    """How many were looked at, and what was dropped for which reason."""
    shown = ", ".join(f"{count} {reason or 'without a reason'}" for reason, count in sorted(reasons.items()))
    return f"{checked} examined, no contradiction; dropped: {shown or 'none'}"


class _Receiver:
    """One process, and what came to it."""

    def __init__(self, history: History, told: dict[str, Told], subscriptions: list[Subscription]) -> None:
        self.history, self.told = history, told
        self.patience = {s.subscription: p for s in subscriptions if (p := patience_of(s)) is not None}
        came = {
            r.event: r for s in subscriptions for r in s.records if r.kind in (Kind.DELIVERED, Kind.DROPPED)
        }
        self.came = [event for event in came if event in told]
        self.due = {r.event: due for r in came.values() if (due := self._due(r)) is not None}

    @cached_property
    def forced(self) -> dict[str, float]:
        """When events had to go for the sake of others; only asked for where something was overtaken."""
        return self._find_forced()

    def _due(self, record: Record) -> float | None:
        """From when an event has to go here, by itself; None: nothing says so.

        The told row is exact. Where the subscription is less patient than the event, the rounding of rounds is not
        recorded; it is at most twice what lies between the event's own deadline and the moment its told row names.
        """
        told, published = self.told.get(record.event), self.history.published.get(record.event)
        if told is None or published is None:
            return None
        patience = self.patience[record.subscription]
        own = published.deadline
        if own is not None and own <= published.at + patience:
            return told.due
        margin = 2 * (own - told.due) if own is not None else self._margin
        return None if margin is None else min(told.due, published.at + patience - margin)

    @cached_property
    def _margin(self) -> float | None:
        """The largest that any event shows."""
        shown = [
            published.deadline - told.due
            for event, told in self.told.items()
            if (published := self.history.published.get(event)) is not None and published.deadline is not None
        ]
        return 2 * max(shown) if shown else None

    def wrong_with(self, drop: Record, subscription: Subscription) -> explain.Finding | str:
        """What is wrong with a drop; a doubt in words, or nothing."""
        if drop.reason not in JUDGED:
            return ""
        published = self.history.published.get(drop.event)
        if drop.reason in REFUSED:
            return explain.unjust_drop(drop, "it was in time", published)
        if drop.reason == LEFT:
            topics = [r.topic for r in self.history.processes[drop.process] if r.kind is Kind.UNSUBSCRIBED]
            return (
                "" if drop.topic in topics else explain.unjust_drop(drop, "its topic was not left", published)
            )
        if drop.event not in self.told or published is None:
            return f"no record says what {explain.what(drop)} follows and when it was published"
        if drop.reason in (TOO_LATE, STALLED):
            if drop.at >= until_of(published, self.patience[subscription.subscription]):
                return ""
            due = self.due.get(drop.event)
            if due is None:
                return f"no record says how long before its deadline {explain.what(drop)} had to go"
            return (
                ""
                if drop.at >= due
                else explain.unjust_drop(drop, f"{due - drop.at:.3f} s were left", published)
            )
        forced = self.forced[drop.event]
        if forced == inf:
            return explain.unjust_drop(drop, "nothing that follows it came", published)
        if drop.reason == BEFORE or forced <= drop.at:
            return ""
        return explain.unjust_drop(drop, "nothing that follows it had to go by then", published)

    def _find_forced(self) -> dict[str, float]:
        """For each event that came: from when the first of those that follow it had to go; never, if none came."""
        forced: dict[str, float] = {}
        ahead: dict[str, list[tuple[int, float]]] = {}  # stream -> a heap: minus up to which stamp, due
        reached: dict[str, float] = {}  # stream -> the earliest of those that follow the stamps looked at now
        for event in sorted(self.came, key=lambda event: self.told[event].number, reverse=True):
            told = self.told[event]  # all that follow it have larger stamps
            waiting = ahead.get(told.stream, [])
            while waiting and -waiting[0][0] >= told.number:
                due = heappop(waiting)[1]
                reached[told.stream] = min(due, reached.get(told.stream, inf))
            forced[event] = reached.get(told.stream, inf)
            due = min(forced[event], self.due.get(event, told.due))
            for stream, number in told.stamp.items():
                upto = number - 1 if stream == told.stream else number  # it does not follow itself
                heappush(ahead.setdefault(stream, []), (-upto, due))
        return forced
