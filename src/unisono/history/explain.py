"""The smallest contradiction, in words and as the records that prove it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from unisono.history.record import Kind, Record


class Finding(NamedTuple):
    """What is wrong, and the fewest records that show it."""

    words: str
    evidence: tuple[Record, ...]


class Before(NamedTuple):
    """One subscription saw `first` and then `second`."""

    first: Record
    second: Record


def who(record: Record) -> str:
    """The subscription a record belongs to: its process, and which one where it has several."""
    return f"{record.process}[{record.subscription}]" if record.subscription else record.process


def what(record: Record) -> str:
    """An event at its first mention: its id, its topic and its number there."""
    number = f" #{record.number}" if record.number else ""
    return f"{record.event} ({record.topic}{number})" if record.event else f"{record.topic}{number}"


def opposite_orders(one: Before, other: Before) -> Finding:
    """Two subscriptions saw the same two events in opposite orders."""
    return Finding(
        f"{who(one.first)} saw {what(one.first)} before {what(one.second)}, "
        f"{who(other.first)} saw {other.first.event} before {other.second.event}",
        (*one, *other),
    )


def cycle(steps: Sequence[Before]) -> Finding:
    """Each step's second event is the next one's first, and the last leads back."""
    named: set[str] = set()

    def name(record: Record) -> str:
        if record.event in named:
            return record.event
        named.add(record.event)
        return what(record)

    words = [f"{name(s.first)} before {name(s.second)} ({who(s.first)})" for s in steps]
    return Finding(", ".join(words), tuple(r for s in steps for r in s))


def effect_before_cause(seen: Before, chain: Sequence[Before]) -> Finding:
    """`seen` shows the effect first; `chain` leads from the cause to the publication of the effect."""
    links = [f"{step.first.process} {_did(step.first)}, then {_did(step.second)}" for step in chain]
    return Finding(
        f"{who(seen.first)} saw {what(seen.first)} before {what(seen.second)}, "
        f"but {seen.second.event} happened before {seen.first.event}: {'; '.join(links)}",
        (*seen, *(r for step in chain for r in step)),
    )


def never_published(delivered: Record) -> Finding:
    """An event nobody published was delivered."""
    return Finding(f"{who(delivered)} saw {what(delivered)}, which nobody published", (delivered,))


def delivered_too_soon(delivered: Record, published: Record) -> Finding:
    """A process saw its own event before it published it."""
    return Finding(f"{who(delivered)} saw {what(delivered)} before publishing it", (delivered, published))


def changed_topic(delivered: Record, published: Record) -> Finding:
    """An event was delivered on another topic than its own."""
    return Finding(
        f"{who(delivered)} saw {what(delivered)}, which {published.process} published on {published.topic}",
        (delivered, published),
    )


def never_subscribed(delivered: Record) -> Finding:
    """An event of a topic that the subscription does not hold was delivered."""
    return Finding(
        f"{who(delivered)} saw {what(delivered)} without having subscribed to {delivered.topic}", (delivered,)
    )


def twice(first: Record, second: Record) -> Finding:
    """One subscription was handed the same event again."""
    return Finding(f"{who(first)} saw {what(first)} twice", (first, second))


def overtaken(earlier: Record, later: Record) -> Finding:
    """A publisher's younger event came before its older one."""
    return Finding(
        f"{who(earlier)} saw {what(earlier)} before {what(later)}, "
        f"though their publisher sent {later.event} first",
        (earlier, later),
    )


def undeserved_tag(delivered: Record) -> Finding:
    """A tag that nothing seen before justifies."""
    return Finding(
        f"{who(delivered)} saw {what(delivered)} tagged, but nothing it had seen contradicts the stamp",
        (delivered,),
    )


def missing_tag(delivered: Record, topic: str, carried: int, reached: int, raised_by: Record) -> Finding:
    """An untagged event whose stamp is behind what the subscription had reached."""
    joined = raised_by.kind is Kind.SUBSCRIBED
    how = "by joining there" if joined else f"with {raised_by.event}"
    return Finding(
        f"{who(delivered)} saw {what(delivered)} untagged, but it came too late: "
        f"it carries {topic} #{carried} and {who(delivered)} had reached {topic} #{reached} {how}",
        (raised_by, delivered),
    )


def missing_epoch_tag(delivered: Record, entered_by: Record) -> Finding:
    """An untagged event of an epoch that the subscription had left."""
    return Finding(
        f"{who(delivered)} saw {what(delivered)} untagged, but it came too late: it is of epoch "
        f"{delivered.epoch} and {who(delivered)} had entered epoch {entered_by.epoch} with {entered_by.event}",
        (entered_by, delivered),
    )


def lost(subscribed: Record, sequenced: Record, unexcused: Record | None) -> Finding:
    """An event that was owed neither came nor was accounted for."""
    if unexcused is None:
        return Finding(
            f"{who(subscribed)} never saw {what(sequenced)}, owed since it joined {sequenced.topic} "
            f"at #{subscribed.number}, and no record says why",
            (subscribed, sequenced),
        )
    return Finding(
        f"{who(subscribed)} never saw {what(sequenced)}: it was {unexcused.kind} without a reason",
        (subscribed, sequenced, unexcused),
    )


def after_its_deadline(delivered: Record, until: float, published: Record | None) -> Finding:
    """A subscription with a deadline was handed an event that was of no use any more."""
    return Finding(
        f"{who(delivered)} saw {what(delivered)} {delivered.at - until:.3f} s after its deadline",
        (delivered, published) if published is not None else (delivered,),
    )


def unjust_drop(dropped: Record, why: str, published: Record | None) -> Finding:
    """An event was dropped for a reason that is none."""
    return Finding(
        f"{who(dropped)} dropped {what(dropped)} as '{dropped.reason}', but {why}",
        (dropped, published) if published is not None else (dropped,),
    )


def still_held(held: Record) -> Finding:
    """The run ended while an event was held back."""
    reason = f" ({held.reason})" if held.reason else ""
    return Finding(f"{who(held)} still held {what(held)} when the run ended{reason}", (held,))


def _did(record: Record) -> str:
    return f"{'published' if record.kind is Kind.PUBLISHED else 'saw'} {record.event}"
