"""Watches a system: asks its nodes many times a second while a page is open, and only listens while none is."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from urllib.parse import urlsplit

from unisono.model.codec import FRAME_BYTES_MAX
from unisono.model.errors import FrameError, UnisonoError
from unisono.model.places import Place, Survey, Surveyed
from unisono.runtime.remote.admin import operator
from unisono.runtime.remote.client import PLACES_SINCE, Client
from unisono.runtime.remote.errand import ask
from unisono.runtime.remote.telling import TELL, TELL_BRIEFLY, decode_node
from unisono.runtime.remote.wire import BEATS, DESCRIBE, decode_beat, question, to_client
from unisono.web.picture import Picture
from unisono.web.tapping import Taps

INTERVAL_S = 0.1
IDLE_S = 1.0  # between two looks while nobody looks at the page
WHOLE_S = 2.0  # between two whole tellings
PLACES_S = 5.0
RETRY_S = 2.0
DEAF_S = 4.0  # no node has answered for so long: something is wrong

log = logging.getLogger("unisono.dashboard")


class Watcher:
    """Keeps a picture of the system behind a URL up to date."""

    def __init__(
        self, url: str, picture: Picture, *, interval_s: float = INTERVAL_S, taps: Taps | None = None
    ) -> None:
        self._url = url
        self._picture = picture
        self._taps = taps or Taps()
        self._interval_s = interval_s
        self._answered = 0.0
        self._knows_all = False
        self.is_looked_at: Callable[[], bool] = lambda: True
        self.on_look: Callable[[], None] = lambda: None
        self._awake = asyncio.Event()

    @property
    def place(self) -> str:
        """Where the system is, without what is secret about it."""
        return without_secrets(self._url)

    async def run(self) -> None:
        """Watch for ever; whatever is lost is looked for again."""
        while True:
            try:
                async with operator(self._url) as client:
                    self._picture.trouble = ""
                    self._taps.client = client
                    await self._watch(client)
            except (UnisonoError, ConnectionError, OSError) as error:
                self._lose(error)
            finally:
                self._taps.client = None
            await asyncio.sleep(RETRY_S)

    def _lose(self, error: Exception) -> None:
        words = str(error).replace(self._url, self.place)
        for secret in filter(None, (urlsplit(self._url).password, urlsplit(self._url).username)):
            words = words.replace(secret, "…")
        if self._picture.trouble != words:
            log.warning("%s", words)
        self._picture.trouble = words
        self._picture.look(asyncio.get_running_loop().time(), time.time())
        self.on_look()

    async def _watch(self, client: Client) -> None:
        loop = asyncio.get_running_loop()
        inbox = to_client(f"{client.client}.{DESCRIBE}", "*")
        await client.service.subscribe(frozenset({inbox}), self._told, with_topic=True)
        await client.service.subscribe(frozenset({BEATS}), self._beat)
        self._picture.durability = client.durability
        self._answered, self._knows_all = loop.time(), False
        surveying = asyncio.create_task(self._survey(client))
        whole_at, was_watched = 0.0, False
        try:
            while client.error is None:
                now = loop.time()
                assert client.control is not None
                self._picture.see(client.control, time.time())
                if is_watched := self.is_looked_at():
                    if not was_watched:
                        self._picture.forget_numbers()
                    is_whole = not self._knows_all or now - whole_at > WHOLE_S
                    whole_at = now if is_whole else whole_at
                    self._knows_all = True
                    client.post.publish(question(client.client, DESCRIBE), TELL if is_whole else TELL_BRIEFLY)
                    deaf = now - self._answered > DEAF_S
                    self._picture.trouble = "no node answers; waiting" if deaf else ""
                else:
                    self._answered = now
                was_watched = is_watched
                self._picture.look(now, time.time())
                self.on_look()
                await self._pause(self._interval_s if is_watched else IDLE_S)
            raise client.error
        finally:
            surveying.cancel()
            await asyncio.gather(surveying, return_exceptions=True)

    def wake(self) -> None:
        """A page was opened: look at once."""
        self._awake.set()

    async def _pause(self, seconds: float) -> None:
        self._awake.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._awake.wait()

    def _told(self, topic: str, frame: bytes) -> None:
        now = asyncio.get_running_loop().time()
        with suppress(FrameError):
            if not self._picture.hear(decode_node(frame, FRAME_BYTES_MAX), now):
                self._knows_all = False
            self._answered = now

    def _beat(self, frame: bytes) -> None:
        with suppress(FrameError):
            self._picture.beat(decode_beat(frame), asyncio.get_running_loop().time(), time.time())

    async def _survey(self, client: Client) -> None:
        """Ask for the places of durable subscribers now and then; without them the rest is shown."""
        while True:
            control = client.control
            if (
                self.is_looked_at()
                and control is not None
                and control.retained
                and client.speaks >= PLACES_SINCE
            ):
                with suppress(UnisonoError, ConnectionError):
                    self._picture.keep_places(await _places(client))
            await asyncio.sleep(PLACES_S)


async def _places(client: Client) -> list[Place]:
    places: list[Place] = []
    after = ""
    while len(places) < 1000:
        page = await ask(client, Survey(after), Surveyed)
        places += page.places
        if page.is_last or not page.places:
            break
        after = page.places[-1].name
    return places


def without_secrets(url: str) -> str:
    """A URL as it may be shown: where, not who and how."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}"
