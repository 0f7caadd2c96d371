"""What a bus and its subscriptions need of the place where events are sequenced: in this process, or at nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from unisono.engines.plan import Plan
from unisono.ens.port import EventNotificationService
from unisono.model.durability import Durability
from unisono.runtime.known_ids import KnownIds
from unisono.runtime.options import Options
from unisono.runtime.receipts import Flight

if TYPE_CHECKING:
    from unisono.runtime.bus import Bus
    from unisono.runtime.lane import Lane
    from unisono.runtime.recorder import Recorder
    from unisono.runtime.subscription import Subscription


class Exchange(Protocol):
    """Where publications get their places and subscriptions hear of them."""

    full: dict[Lane, None]  # subscriptions whose applications lag
    ids: KnownIds
    rejected: int  # frames that made no sense

    @property
    def service(self) -> EventNotificationService:
        """What carries the events."""
        ...

    @property
    def linger_s(self) -> float:
        """How long an event waits for others that could go with it."""
        ...

    @property
    def is_quiet(self) -> bool:
        """Whether an event may depart at once: nothing is under way, little was, and nobody hears of it in this turn."""
        ...

    @property
    def is_full(self) -> bool:
        """Whether publishers have to wait."""
        ...

    @property
    def retries(self) -> int:
        """Packets sent again because a node did not answer."""
        ...

    @property
    def durability(self) -> Durability:
        """What stored means here."""
        ...

    @property
    def trouble(self) -> str:
        """Why nothing is confirmed, if somebody has said so."""
        ...

    @property
    def unconfirmed(self) -> int:
        """Events that were sent and have no place yet."""
        ...

    async def open(self) -> None:
        """Get ready; ConnectionError if nobody is there to sequence."""
        ...

    def welcome(self, bus: Bus) -> int:
        """Take in a bus; returns its incarnation, above that of every earlier one with its name."""
        ...

    async def part(self, bus: Bus) -> None:
        """A bus publishes and subscribes no more."""
        ...

    def subscription(
        self, name: str, asked: frozenset[str], options: Options, recorder: Recorder | None
    ) -> Subscription:
        """A subscription, not open yet."""
        ...

    def is_held(self, topic: str) -> bool:
        """Whether any subscription may hold a topic."""
        ...

    def depart(self, flight: Flight) -> None:
        """Get every publication of a flight its place; the flight lands when all have theirs."""
        ...

    @property
    def plan(self) -> Plan | None:
        """The plan that events are sequenced by, if there is one."""
        ...

    def apply_plan(self, plan: Plan) -> tuple[str, ...]:
        """Sequence by this plan; PlanError if it does not fit, ConfigError if it is not ours to say."""
        ...

    def park(self, resume: Callable[[], None]) -> None:
        """Call `resume` when there is room again."""
        ...

    def unpark(self, resume: Callable[[], None]) -> None:
        """Do not call it any more."""
        ...

    def make_room(self, lane: Lane) -> None:
        """A subscription is no longer full."""
        ...
