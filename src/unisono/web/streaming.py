"""Server-sent events: what a page is told, each page at its own pace, and none at the cost of another.

Nothing is queued for a page. When it can take more it is told what has changed since it was told last; one that is
slow is told less often.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable

import msgspec

from unisono.web.picture import Picture

PAGES_MAX = 16
QUIET_S = 5.0  # a page is told at least so often that all is well

_encoder = msgspec.json.Encoder()


class Pages:
    """The pages that are open."""

    def __init__(self, picture: Picture, pages_max: int = PAGES_MAX) -> None:
        self._picture = picture
        self._pages_max = pages_max
        self._open = 0
        self._looked = asyncio.Event()
        self._is_closed = False
        self.on_open: Callable[[], None] = lambda: None

    @property
    def is_looked_at(self) -> bool:
        """Whether a page is open."""
        return self._open > 0

    @property
    def is_full(self) -> bool:
        """Whether no more pages are served."""
        return self._open >= self._pages_max

    def look(self) -> None:
        """The picture is new."""
        looked, self._looked = self._looked, asyncio.Event()
        looked.set()

    def close(self) -> None:
        """Tell no page any more."""
        self._is_closed = True
        self.look()

    async def stream(self) -> AsyncGenerator[bytes, None]:
        """What one page is told, until it goes away."""
        self._open += 1
        self.on_open()
        try:
            layout, seen, happened = -1, -1, 0
            yield b"retry: 1000\n\n"
            while not self._is_closed:
                picture, looked = self._picture, self._looked
                if layout != picture.layout:
                    layout, seen = picture.layout, -1
                    yield message("whole", picture.whole())
                yield message("tick", picture.tick(seen, asyncio.get_running_loop().time()))
                seen = picture.version
                for happening in picture.happenings.since(happened):
                    happened = happening.n
                    yield message("happened", happening)
                try:
                    async with asyncio.timeout(QUIET_S):
                        await looked.wait()
                except TimeoutError:
                    yield b": all is well\n\n"
        finally:
            self._open -= 1


def message(event: str, data: object) -> bytes:
    """One server-sent event."""
    return b"event: " + event.encode() + b"\ndata: " + _encoder.encode(data) + b"\n\n"
