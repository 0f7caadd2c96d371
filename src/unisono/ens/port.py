"""What the ordering layer asks of an event notification service (ENS), and nothing more.

publish, subscribe, change, unsubscribe, notify. A subscriber names topics, or patterns of topics (`orders.*`,
`orders.>`). No order is assumed; loss, doubles and delays are allowed where the service says so. A frame is opaque to the service: bytes, or any object where `carries_objects` is true.

`unisono.testing.ens_contract` is the suite every adapter passes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

Notify: TypeAlias = Callable[..., None]
"""Called with each frame, or with its topic and the frame, from the event loop; must not block and must not raise."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a service can do; the ordering layer adapts, or refuses by name."""

    reliable: bool  # nothing handed to it is ever lost while both ends are connected
    carries_objects: bool = False  # frames need not be bytes
    multicast: bool = False  # one frame may be addressed to several topics and reaches each subscriber once
    frame_bytes_max: int = 1024 * 1024
    sequenced: bool = (
        True  # False: nobody gives events their places; it filters by content instead (`where=`)
    )


class Interest(Protocol):
    """A live subscription at the service."""

    @property
    def topics(self) -> frozenset[str]:
        """What it listens to: topics and patterns."""
        ...


class EventNotificationService(Protocol):
    """An adapter: one per broker, and one in memory."""

    @property
    def capabilities(self) -> Capabilities:
        """What this service can do."""
        ...

    async def connect(self) -> None:
        """Reach the service; raises ConnectionError with what to do about it."""
        ...

    async def subscribe(
        self, topics: frozenset[str], notify: Notify, *, with_topic: bool = False
    ) -> Interest:
        """Call `notify` once with every frame published on one of the topics after this returns.

        With `with_topic` it is called as `notify(topic, frame)`: the topic that the frame was published on, also where
        a pattern was asked for; of a frame for several topics, the first that was asked for.
        """
        ...

    async def change(self, interest: Interest, topics: frozenset[str]) -> None:
        """Listen to these topics instead, without missing or doubling a frame of those that stay.

        Frames that are under way when their topic is left may still be notified.
        """
        ...

    async def unsubscribe(self, interest: Interest) -> None:
        """Stop; nothing is notified after this returns."""
        ...

    def publish(self, topics: tuple[str, ...], frame: Any) -> None:
        """Hand over a frame for the subscribers of these topics (one topic unless `multicast`)."""
        ...

    async def flush(self) -> None:
        """Return when everything published before is in the service's hands."""
        ...

    async def close(self) -> None:
        """Let go of the service; publishing afterwards raises ClosedError."""
        ...
