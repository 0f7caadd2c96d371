"""One session's hold on a place: it claims it, saves how far the application is, renews it, and lets go.

It asks one node at a time, and another one when there is no answer: every request may be repeated. A place that
somebody else holds is watched: if it is renewed meanwhile, its holder is alive. With `held="take"` it is taken at
once. A session that has lost its place hands out nothing any more.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Literal
from zlib import crc32

import msgspec

from unisono.engines.effects import Effect, Fail, Hold, Send
from unisono.engines.inputs import Controlled, Input, Keep, Lost, Received, Tick
from unisono.engines.takeover.control import Control
from unisono.model.errors import ConfigError, HeldError, QuotaError, UnisonoError
from unisono.model.places import Claim, Place, Placed, Save

WhenHeld = Literal["refuse", "take"]


class HolderSettings(msgspec.Struct, frozen=True):
    """Pauses of a session."""

    renew_s: float = 1.0  # a place that is held is saved at least so often
    watch_s: float = 3.0  # one that is not renewed for so long is given up by its holder
    look_s: float = 0.5  # how often it is looked at meanwhile
    retry_s: float = 1.0  # without an answer another node is asked


SETTINGS = HolderSettings()


class Holder:
    """Keeps one place for one session."""

    def __init__(
        self,
        name: str,
        names: tuple[str, ...],
        session: str,
        held: WhenHeld = "refuse",
        settings: HolderSettings = SETTINGS,
    ) -> None:
        self.name = name
        self.names = names
        self.session = session
        self.held = held
        self.settings = settings
        self.stage: Literal["claiming", "holding", "letting go", "ended"] = "claiming"
        self.place: Place | None = None  # as it was when we last heard of it
        self.control: Control | None = None
        self.wanted: Keep | None = None  # what is to be saved
        self.is_saved = True
        self.under_way: Claim | Save | None = None
        self.tries = 0
        self.retry_at: float | None = None
        self.renew_at: float | None = None
        self.look_at: float | None = None
        self.watched: Place | None = None  # as somebody else held it when we first saw it
        self.watch_until = 0.0

    @property
    def is_ended(self) -> bool:
        """Whether it has let go of the place, or lost it."""
        return self.stage == "ended"

    # The contract.

    def handle(self, input: Input, now: float) -> list[Effect]:
        """Take one input at time `now`."""
        if self.stage == "ended":
            return []
        match input:
            case Controlled(control):
                is_first, self.control = self.control is None, control
                return self._claim(now) if is_first else []
            case Received(_, Placed(name, place, reason)) if name == self.name:
                return self._placed(place, reason, now)
            case Keep():
                return self._keep(input, now)
            case Lost():
                return self._send(now) if self.under_way is not None else []
            case Tick():
                return self._tick(now)
        return []

    def next_timer(self) -> float | None:
        """When something is to be sent, or sent again."""
        if self.stage == "ended":
            return None
        times = (self.retry_at, self.renew_at, self.look_at)
        return min((time for time in times if time is not None), default=None)

    def _tick(self, now: float) -> list[Effect]:
        if self.retry_at is not None and self.retry_at <= now:
            self.tries += 1
            return self._send(now)
        if self.look_at is not None and self.look_at <= now:
            return self._claim(now)
        if self.renew_at is not None and self.renew_at <= now:
            return self._save(now)
        return []

    # Asking.

    def _claim(self, now: float) -> list[Effect]:
        over, renewed = "", -1
        if self.watched is not None:
            if self.held == "take":
                over = self.watched.session
            elif self.watch_until <= now:
                over, renewed = self.watched.session, self.watched.renewed
        self.look_at = None
        self.under_way = Claim(self.name, self.session, self.names, over, renewed)
        return self._send(now)

    def _keep(self, keep: Keep, now: float) -> list[Effect]:
        self.wanted, self.is_saved = keep, False
        if keep.is_last:
            self.stage = "letting go"
        return self._save(now) if self.under_way is None else []

    def _save(self, now: float) -> list[Effect]:
        place, wanted = self.place, self.wanted
        if place is None or wanted is None:
            return []
        self.renew_at = None
        self.is_saved = True
        self.under_way = Save(
            self.session,
            msgspec.structs.replace(
                place,
                renewed=place.renewed + 1,
                epoch=wanted.epoch,
                clock=wanted.clock,
                acknowledged=wanted.acknowledged,
                handed=wanted.handed,
                is_held=not wanted.is_last,
            ),
        )
        return self._send(now)

    def _send(self, now: float) -> list[Effect]:
        self.retry_at = now + self.settings.retry_s
        if self.control is None or self.under_way is None:
            return []
        nodes = self.control.live
        return [Send(nodes[(crc32(self.name.encode()) + self.tries) % len(nodes)], self.under_way)]

    # Answers.

    def _placed(self, place: Place | None, reason: str, now: float) -> list[Effect]:
        if place is not None and self.place is not None and place.renewed < self.place.renewed:
            return []  # as it was before we had it
        if self.stage == "claiming":
            return self._claimed(place, reason, now)
        is_ours = place is not None and place.is_held and place.session == self.session
        if self.stage == "letting go" and not is_ours:
            return self._ended([] if place is None else [Hold(place)])
        if place is None:
            return self._fail(HeldError(f"the place of '{self.name}' was removed while it was held"))
        if not is_ours:
            return self._fail(
                HeldError(
                    f"durable subscription '{self.name}' was taken over by '{place.session}'; this one has ended, and "
                    "what it did not acknowledge goes to the other"
                )
            )
        if reason:
            return self._fail(UnisonoError(f"the place of '{self.name}' cannot be saved: {reason}"))
        return self._saved(place, now)

    def _saved(self, place: Place, now: float) -> list[Effect]:
        if not isinstance(self.under_way, Save) or place.renewed < self.under_way.place.renewed:
            return []  # of an earlier request
        self._answered(place, now)
        return [Hold(place), *([] if self.is_saved else self._save(now))]

    def _claimed(self, place: Place | None, reason: str, now: float) -> list[Effect]:
        if reason:
            return self._fail(ConfigError(reason) if place is not None else QuotaError(reason))
        if place is None:
            return []
        if place.session == self.session:
            self.stage = "holding"
            self._answered(place, now)
            if self.wanted is None:
                self.wanted = Keep(place.epoch, place.clock, place.acknowledged, place.handed)
            return [Hold(place)]
        return self._watch(place, now)

    def _answered(self, place: Place, now: float) -> None:
        self.place, self.under_way, self.retry_at = place, None, None
        self.renew_at = now + self.settings.renew_s

    def _watch(self, place: Place, now: float) -> list[Effect]:
        """Somebody else holds it."""
        seen = self.watched
        if seen is not None and place.renewed < seen.renewed:
            return []  # of an earlier request
        if seen is None or (self.held == "take" and place.session != seen.session):
            self.watched, self.watch_until = place, now + self.settings.watch_s
            if self.held == "take":
                return self._claim(now)
        elif self.held == "refuse" and place.is_held and place.renewed > seen.renewed:
            return self._fail(
                HeldError(
                    f"durable subscription '{self.name}' is held by '{place.session}', which is alive; choose another "
                    "name, end the other, or take its place with held='take'"
                )
            )
        self.under_way = self.retry_at = None
        self.look_at = now + self.settings.look_s
        return []

    def _fail(self, error: UnisonoError) -> list[Effect]:
        return self._ended([Fail(error)])

    def _ended(self, effects: list[Effect]) -> list[Effect]:
        self.stage = "ended"
        return effects

    # For the explorer and the simulator.

    def check(self) -> None:
        """Who holds a place renews it."""
        if self.stage in ("holding", "letting go"):
            assert self.place is not None
            assert self.under_way is not None or self.renew_at is not None

    def copy(self) -> Holder:
        """An independent twin."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        return twin

    def state(self) -> Hashable:
        """Equal exactly when two holders would behave alike from now on."""
        return (
            self.stage,
            str(self.place),
            None if self.control is None else self.control.version,
            (str(self.wanted), self.is_saved),
            str(self.under_way),
            (self.tries, self.retry_at, self.renew_at, self.look_at),
            (str(self.watched), self.watch_until),
        )
