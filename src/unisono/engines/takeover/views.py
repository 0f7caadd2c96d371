"""Views: named sets of topics and patterns whose common order is kept, whether anybody listens or not.

A view is like a subscriber that holds patterns, has no lease, and is never told anything. It lives in the control
record and counts from the beginning of an epoch on. It weighs as much as two subscribers, so that its topics are
ordered together at any threshold. What it is to hold cannot be changed: it is removed, and made anew.
"""

from __future__ import annotations

from collections.abc import Hashable

import msgspec

from unisono.engines.effects import Confirm, Effect, Fail, Send
from unisono.engines.inputs import Controlled, Input, Lost, Received, Tick
from unisono.engines.takeover.control import Control
from unisono.model.errors import QuotaError
from unisono.model.frames import Refused, Registration, Replan

TRIES_APART_MAX = 16
WEIGHT = 2


def view_of(name: str, names: tuple[str, ...]) -> Registration:
    """A view of these topics and patterns, as it is asked for."""
    return Registration(name, 1, tuple(sorted(set(names))), WEIGHT)


class ViewAsker:
    """Asks for one view until it counts, or is refused."""

    def __init__(self, view: Registration, ask_s: float = 0.5) -> None:
        self.view = view
        self.ask_s = ask_s
        self.control: Control | None = None
        self.is_done = False
        self.tries = 0
        self.ask_at: float | None = None

    def handle(self, input: Input, now: float) -> list[Effect]:
        """Take one input at time `now`."""
        if self.is_done:
            return []
        match input:
            case Controlled(control):
                return self._controlled(control, now)
            case Received(_, Refused(reason)):
                self.is_done = True
                return [Fail(QuotaError(f"view '{self.view.subscriber}': {reason}"))]
            case Tick() | Lost():
                return self._ask(now)
        return []

    def _controlled(self, control: Control, now: float) -> list[Effect]:
        if self.control is not None and control.version <= self.control.version:
            return []
        self.control = control
        known = control.views.get(self.view.subscriber)
        if control.state == "active" and known is not None and known.topics == self.view.topics:
            self.is_done = True
            return [Confirm(self.view.topics)]
        self.tries = 0
        return self._ask(now)

    def _ask(self, now: float) -> list[Effect]:
        self.ask_at = now + self.ask_s * min(2**self.tries, TRIES_APART_MAX)
        self.tries += 1
        control = self.control
        if control is None or control.state != "active":
            return []
        return [Send(control.leader, Replan(control.epoch, view=self.view))]

    def next_timer(self) -> float | None:
        """When to ask again."""
        return None if self.is_done else self.ask_at

    def check(self) -> None:
        """A view is asked for as it can be found again."""
        assert self.view == msgspec.structs.replace(self.view, topics=tuple(sorted(set(self.view.topics))))

    def copy(self) -> ViewAsker:
        """An independent twin."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        return twin

    def state(self) -> Hashable:
        """Equal exactly when two would behave alike from now on."""
        version = None if self.control is None else self.control.version
        return (self.view, version, self.is_done, self.tries, self.ask_at)
