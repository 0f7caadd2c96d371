"""Causal order: nobody sees an effect before its cause.

An event happened before another if a process published or delivered it and later published the other, or if
a chain of such steps leads from one to the other. What a process published is counted, so what an event
knows is one number for each publishing process: e happened before f if f knows of e's place.
"""

from __future__ import annotations

from collections import deque

from unisono.history import explain
from unisono.history.explain import Before, Finding
from unisono.history.history import History, Subscription
from unisono.history.record import Kind, Record
from unisono.history.verdicts import Verdict, held, unknown, violated

_STEPS = (Kind.PUBLISHED, Kind.DELIVERED)


def causal_order(history: History) -> Verdict:
    """No subscription delivers untagged f before e if e happened before f."""
    promise = "causal_order"
    subscriptions = history.promised("causal", "total_causal")
    if not subscriptions:
        return unknown(promise, "no subscription was promised causal order")
    past = _Past(history)
    if past.stuck_on:
        return unknown(
            promise, f"{past.stuck_on} is its own cause: it was delivered before it can have been published"
        )
    checked = 0
    unpublished: Record | None = None
    for subscription in subscriptions:
        checked += len(subscription.untagged)
        finding = _effect_first(history, past, subscription)
        if finding is not None:
            return violated(promise, finding, checked)
        unpublished = unpublished or next(
            (r for r in subscription.untagged if r.event not in past.place), None
        )
    if unpublished is not None:
        return unknown(promise, f"no record says when {explain.what(unpublished)} was published", checked)
    return held(promise, checked)


class _Past:
    """For each event its place (publishing process, count there) and what it knows of each such process."""

    def __init__(self, history: History) -> None:
        publishing = {record.process for record in history.published.values()}
        column = {process: i for i, process in enumerate(p for p in history.processes if p in publishing)}
        self.columns = len(column)
        self.place: dict[str, tuple[int, int]] = {}
        self.knows: dict[str, list[int]] = {}
        self.stuck_on = ""
        self._read(history, column)

    def _read(self, history: History, column: dict[str, int]) -> None:
        # Each process is read until it delivers what is not yet published, and goes on once it is.
        known = {process: [0] * self.columns for process in history.processes}
        unread = {process: iter(records) for process, records in history.processes.items()}
        waiting: dict[str, list[tuple[str, Record]]] = {}
        ready: deque[tuple[str, Record | None]] = deque((process, None) for process in history.processes)
        while ready:
            process, resumed = ready.popleft()
            if resumed is not None:
                self._learn(known, process, resumed.event)
            for record in unread[process]:
                event = record.event
                if record.kind is Kind.PUBLISHED and history.published[event] is record:
                    mine = known[process]
                    mine[column[process]] += 1
                    self.place[event] = (column[process], mine[column[process]])
                    self.knows[event] = mine.copy()
                    ready.extend(waiting.pop(event, ()))
                elif record.kind is Kind.DELIVERED and event in history.published:
                    if event not in self.place:
                        waiting.setdefault(event, []).append((process, record))
                        break
                    self._learn(known, process, event)
        self.stuck_on = next(iter(waiting), "")

    def _learn(self, known: dict[str, list[int]], process: str, event: str) -> None:
        column, count = self.place[event]
        # Who knows of an event already knows all that it knew.
        if known[process][column] < count:
            known[process] = list(map(max, known[process], self.knows[event]))


def _effect_first(history: History, past: _Past, subscription: Subscription) -> Finding | None:
    causes = [0] * past.columns  # of all that was delivered so far
    for record in subscription.untagged:
        place = past.place.get(record.event)
        if place is None:
            continue
        column, count = place
        if causes[column] >= count:
            effect = next(r for r in subscription.untagged if _knows(past, r.event, column, count))
            return explain.effect_before_cause(
                Before(effect, record), _chain(history, record.event, effect.event)
            )
        causes = list(map(max, causes, past.knows[record.event]))
    return None


def _knows(past: _Past, event: str, column: int, count: int) -> bool:
    return event in past.knows and past.knows[event][column] >= count


def _chain(history: History, cause: str, effect: str) -> list[Before]:
    """The shortest chain of steps from `cause` to `effect`, found backwards."""
    came: dict[str, Before] = {}  # event -> the step by which it became a cause
    read: dict[str, int] = {}  # process -> how many of its records a nearer event has read already
    near = deque([effect])
    while near and cause not in came:
        published = history.published[near.popleft()]
        records = history.processes[published.process]
        at = read.get(published.process, 0)
        while records[at].seq < published.seq:
            record = records[at]
            known = record.event == effect or record.event in came
            if record.kind in _STEPS and record.event in history.published and not known:
                came[record.event] = Before(record, published)
                near.append(record.event)
            at += 1
        read[published.process] = at
    steps: list[Before] = []
    event = cause
    while event != effect:
        steps.append(came[event])
        event = came[event].second.event
    return steps
