"""The rules of delivery, as pure functions of a stamp and a clock.

A clock holds a number for each subscribed topic. Only topics that are both in the stamp and in the clock count:
an entry the stamp lacks binds nobody, an entry we do not subscribe to is not our business. What is *clean* is
asked of the clock of untagged deliveries; what is *ready*, of how far there is nothing left to wait for. Whichever
of the two is shorter is gone through: a stamp may name a thousand topics, to a subscriber of ten.
"""

from __future__ import annotations

from collections.abc import Mapping

from unisono.model.frames import Entries, Stamped

Clock = Mapping[str, int]


def blocker(entries: Entries, topic: str, clock: Clock) -> str | None:
    """A topic of which something named by the stamp is still missing; the own topic if it is not the next.

    None: the event is *ready*, it is the next of its topic and everything it follows is behind us (001's
    isNext, on what is subscribed).
    """
    if entries[topic] != clock[topic] + 1:
        return topic
    if len(clock) < len(entries):
        for x, reached in clock.items():
            if x != topic and entries.get(x, reached) > reached:
                return x
        return None
    for x, number in entries.items():
        if x != topic and clock.get(x, number) < number:
            return x
    return None


def is_clean(entries: Entries, topic: str, clock: Clock) -> bool:
    """Not behind anything delivered: then delivering it now cannot contradict what anybody else is told.

    The own number must be strictly larger. 000's Definition 3 is content with *any* entry being larger, which
    breaks the order with three topics.
    """
    if entries[topic] <= clock[topic]:
        return False
    if len(clock) < len(entries):
        return all(entries.get(x, number) >= number for x, number in clock.items())
    return all(clock.get(x, number) <= number for x, number in entries.items())


def precedes(first: Stamped, second: Stamped) -> bool:
    """Whether the stamps put `first` before `second`."""
    if first.epoch != second.epoch:
        return first.epoch < second.epoch
    if first.topic == second.topic:
        return first.number < second.number
    return second.entries.get(first.topic, -1) >= first.number
