"""The engine of a subscription between processes, at the pace of its application."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from unisono.engines.effects import Effect
from unisono.engines.inputs import Input, Received
from unisono.engines.topic_managers.member import Member
from unisono.engines.topic_managers.recalling import Start
from unisono.engines.topic_managers.settings import SubscriberSettings
from unisono.model.frames import Repair, Stamped


class Paced(Member):
    """A member at the pace of its application.

    What is repaired while that lags is not taken, and asked for again later; else, as long as something comes of
    asking, it asks for more without a pause.
    """

    def __init__(
        self,
        name: str,
        settings: SubscriberSettings,
        lags: Callable[[], bool],
        repaired: Callable[[tuple[Stamped, ...]], None],
        *,
        weight: int,
        join_s: float,
        start: Start | None = None,
    ) -> None:
        super().__init__(name, settings, weight=weight, join_s=join_s, start=start)
        self._lags = lags
        self._repaired = repaired

    def handle(self, input: Input, now: float) -> list[Effect]:
        """Take one input at time `now`."""
        if self.recalling is not None:
            return super().handle(input, now)
        if not isinstance(input, Received) or not isinstance(input.message, Repair):
            return super().handle(input, now)
        repair = input.message
        if self._lags():
            input = Received(input.source, msgspec.structs.replace(repair, events=()))
        elif repair.events:
            self._repaired(repair.events)
            self.inner.missing.hurry(repair.topic, now)
        return super().handle(input, now)

    def has_enough(self) -> bool:
        """Whether the application should not be told more for the moment."""
        return self._lags()

    def copy(self) -> Paced:
        """An independent twin."""
        twin = super().copy()
        assert isinstance(twin, Paced)
        return twin
