"""Letters about events with deadlines on an overlay: dispatchers carry them like any event, on topics of their own.

`d.<client>.e.<topic>` travels as `/e.<topic>`, and so on: no user can name such a topic, and who sends is its publisher.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from unisono.ens.port import Capabilities, Interest, Notify
from unisono.model.frames import Publication

if TYPE_CHECKING:
    from unisono.runtime.overlay.service import OverlayInterest, OverlayService

ASIDE = "/"
LETTER_BYTES_MAX = 24_000


class OverlayAside:
    """The same leaf, for letters."""

    capabilities = Capabilities(
        reliable=False, carries_objects=True, sequenced=False, frame_bytes_max=LETTER_BYTES_MAX
    )

    def __init__(self, service: OverlayService) -> None:
        self._service = service
        self._n = 0

    async def connect(self) -> None:
        """The leaf hangs on the overlay already."""

    async def close(self) -> None:
        """The leaf lets go itself."""

    async def flush(self) -> None:
        """Datagrams leave at once."""

    async def subscribe(
        self, topics: frozenset[str], notify: Notify, *, with_topic: bool = False
    ) -> OverlayInterest:
        """Call `notify` with every letter on one of these topics."""

        def told(topic: str, carrier: Publication) -> None:
            where = f"d.{carrier.publisher}.{topic.removeprefix(ASIDE)}"
            notify(where, carrier.body) if with_topic else notify(carrier.body)

        return await self._service.subscribe(_carried(topics), told, with_topic=True)

    async def change(self, interest: Interest, topics: frozenset[str]) -> None:
        """Listen to these topics instead."""
        await self._service.change(interest, _carried(topics))
        await self._service.settle()

    async def unsubscribe(self, interest: Interest) -> None:
        """Stop."""
        await self._service.unsubscribe(interest)

    def publish(self, topics: tuple[str, ...], frame: Any) -> None:
        """Hand over a letter."""
        _, client, where = topics[0].split(".", 2)
        self._n += 1
        self._service.publish((ASIDE + where,), Publication(client, 0, self._n, ASIDE + where, frame))


def _carried(topics: frozenset[str]) -> frozenset[str]:
    """Whoever sends: an overlay checks no names."""
    return frozenset(ASIDE + topic.split(".", 2)[2] for topic in topics)
