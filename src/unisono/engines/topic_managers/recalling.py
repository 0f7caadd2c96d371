"""A subscription that begins in the past: what it still has to be told before it lives in the present.

It is registered from the beginning of an epoch on; everything before that is closed, and told by any node, page by
page, in the order of the log (`unisono.engines.chronicle`). What happens meanwhile is not taken, only noted: when the
past is told, it is asked for like anything else that was missed.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Literal, TypeAlias

import msgspec

from unisono.engines.effects import Admit, Deliver, Effect, Fail, Lose, Send
from unisono.engines.takeover.control import Control
from unisono.model.bundles import StampedBundle
from unisono.model.errors import ConfigError, GapError
from unisono.model.frames import Entries, Heartbeat, Recall, Recalled, Stamped

Gone: TypeAlias = Literal["fail", "skip"]

LOST_MAX = 1_000_000  # numbers of a topic that are named when they are gone
ASKED_EACH = 2  # times a node is asked before another is
TRIES_APART_MAX = 8  # questions come further and further apart, up to so many times `again_s`


class Start(msgspec.Struct, frozen=True):
    """Where a subscription begins: with the first event that is kept, unless something else is said."""

    since: float = 0.0  # with the first event published at this time or later
    clock: Entries | None = (
        None  # behind these numbers; topics that are not named begin with their first event
    )
    epoch: int = -1  # the epoch in which that was, if it is known
    gone: Gone = "fail"  # what to do if some of it is not kept any more

    def __post_init__(self) -> None:
        if self.since and self.clock is not None:
            raise ConfigError("a subscription begins at a time or behind a stamp, not both")


class Recalling:
    """The past of one subscription, on its way."""

    def __init__(self, name: str, start: Start, again_s: float) -> None:
        self.name = name
        self.start = start
        self.again_s = again_s
        self.names: tuple[str, ...] = ()
        self.until: int | None = None  # where the present begins; None: not known yet
        self.topics: frozenset[str] = frozenset()  # those that are there then
        self.epoch, self.index = (-1 if start.clock is None else start.epoch), 0
        self.clock: Entries = dict(start.clock or {})  # what has been told
        self.since = start.since
        self.is_begun = False
        self.is_done = False
        self.tries = 0
        self.ask_at: float | None = None
        self._noted: dict[str, Heartbeat] = {}  # how far topics have gone meanwhile

    def counts(self, names: tuple[str, ...], control: Control) -> None:
        """The subscription counts with the epoch of this control record: what was before is the past."""
        self.names, self.until, self.topics = names, control.epoch, control.matched(self.name)

    def ask(self, control: Control | None, now: float) -> list[Effect]:
        """Ask for the next page; who does not answer is asked once more, as it may have much to read, then another."""
        self.ask_at = now + self.again_s * min(2**self.tries, TRIES_APART_MAX)
        live = () if control is None else control.live
        if not live or self.until is None:
            return []
        node = live[(sum(self.name.encode()) + self.tries // ASKED_EACH) % len(live)]
        self.tries += 1
        page = Recall(self.name, self.names, self.until, self.epoch, self.index, self.clock, self.since)
        return [Send(node, page)]

    def pause(self, now: float) -> None:
        """Ask later: the application has enough to do."""
        self.ask_at = now + self.again_s / 8

    def note(self, notification: Stamped | StampedBundle | Heartbeat) -> None:
        """Something happens in the present."""
        match notification:
            case Stamped(_, epoch, entries):
                self._note(notification.topic, epoch, entries.get(notification.topic, 0))
            case StampedBundle(epoch=epoch):
                for part in notification.parts:
                    self._note(part.topic, epoch, notification.newest(part.topic))
            case Heartbeat(topic, epoch, number):
                self._note(topic, epoch, number)

    def _note(self, topic: str, epoch: int, number: int) -> None:
        if topic not in self._noted or self._noted[topic].newest < number:
            self._noted[topic] = Heartbeat(topic, epoch, number)

    def noted(self) -> list[Heartbeat]:
        """What has happened meanwhile."""
        return list(self._noted.values())

    def take(self, answer: Recalled) -> list[Effect]:
        """What a page tells; nothing if it answers an earlier question."""
        if answer.asked != (self.epoch, self.index) or self.is_done:
            return []
        if self.until is None or answer.epoch > self.until:
            why = "what it is owed is already not kept any more; nodes have to keep more (--retain-records)"
            return [Fail(GapError(f"subscription '{self.name}': {why}"))]
        effects = self._begin(answer.floors) if self._is_beginning(answer) else []
        if answer.floors is not None:
            self.since = 0.0
            lost = self._lost(answer.floors)
            if lost and self.start.gone == "fail":
                ranges = ", ".join(f"{r[0]}-{r[-1]} of '{topic}'" for topic, r in lost.items())
                return [
                    *effects,
                    Fail(GapError(f"subscription '{self.name}': events {ranges} are not kept any more")),
                ]
            effects += [Lose(topic, tuple(r[-LOST_MAX:])) for topic, r in lost.items()]
            self.clock |= {topic: r[-1] for topic, r in lost.items()}
        if answer.events:
            effects.append(Deliver(list(answer.events)))
            self.clock |= {event.topic: event.number for event in answer.events}
        self.epoch, self.index, self.is_done, self.tries = answer.epoch, answer.index, answer.done, 0
        return effects

    def _is_beginning(self, answer: Recalled) -> bool:
        return not self.is_begun and (answer.floors is not None or self.start.clock is not None)

    def _begin(self, floors: Entries | None) -> list[Effect]:
        """It is known from where on everything is owed."""
        self.is_begun = True
        if self.start.clock is None and floors is not None:
            self.clock = dict(floors)
        else:
            self.clock = {topic: self.clock.get(topic, 0) for topic in sorted(self.topics)}
        return [Admit(dict(self.clock))]

    def _lost(self, floors: Entries) -> dict[str, range]:
        """What lies between what was told last and what is kept."""
        return {
            topic: range(self.clock[topic] + 1, floor + 1)
            for topic, floor in sorted(floors.items())
            if floor > self.clock.setdefault(topic, 0)
        }

    def copy(self) -> Recalling:
        """An independent twin."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin.clock, twin._noted = dict(self.clock), dict(self._noted)
        return twin

    def state(self) -> Hashable:
        """Equal exactly when two would behave alike from now on."""
        return (
            (
                self.until,
                self.epoch,
                self.index,
                self.since,
                self.is_begun,
                self.is_done,
                self.tries,
                self.ask_at,
            ),
            tuple(sorted(self.clock.items())),
            tuple(sorted((b.topic, b.epoch, b.newest) for b in self._noted.values())),
        )
