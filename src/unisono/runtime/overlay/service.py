"""An overlay of dispatchers as a service: `unisono.connect("udp://host:port")` hangs a leaf of its own on it.

What is published is matched by content where it is published and on every dispatcher on its way, so only what somebody
wants travels. Nobody sequences here: order="none", or "fifo" for those who can go on without what is lost.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import parse_qsl, urlsplit

import msgspec
from msgspec import Meta

from unisono.engines.epidemic.messages import Event as Carried
from unisono.engines.epidemic.patterns import Value
from unisono.ens.options import Seconds, read_options
from unisono.ens.port import Capabilities, Interest, Notify
from unisono.model.errors import ClosedError, ConfigError
from unisono.model.event import Event
from unisono.model.frames import Publication
from unisono.model.ids import is_pattern, matches
from unisono.runtime.overlay.aside import ASIDE, OverlayAside
from unisono.runtime.overlay.key import find_key, key_for
from unisono.runtime.overlay.site import Site
from unisono.runtime.overlay.wire import name_at, place_of
from unisono.runtime.wanting import attributes_of

ATTRIBUTES_MAX = 256  # names of an event that filters can see
ATTRIBUTES_BYTES = 12_000  # and how many bytes of names and values, roughly
PAYLOAD_BYTES_MAX = 16_000
LOOK_S = 0.02
FLUSH_S = 0.4  # some rounds of gossip

log = logging.getLogger("unisono")
_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Publication)


class OverlayOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the URL may say."""

    connect_timeout: Seconds = 5.0
    key_file: str | None = None  # the key that all peers share; without one only this machine is talked to
    loss: Annotated[float, Meta(ge=0, le=1)] = (
        0.0  # the share of our datagrams to throw away, to see what happens
    )


def open_udp(url: str) -> OverlayService:
    """The service of a `udp://host:port,host:port?…`; opens nothing yet."""
    try:
        parts = urlsplit(url)
        options = dict(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query)))
    except ValueError as error:
        raise ConfigError(f"'{url}' is not a URL: {error}") from None
    return OverlayService(places_in(url), read_options("udp", options, OverlayOptions))


def places_in(url: str) -> list[str]:
    """The addresses that a `udp://` URL names."""
    where = urlsplit(url).netloc
    if urlsplit(url).scheme != "udp" or not where:
        raise ConfigError(f"'{url}' names no dispatcher; say udp://host:port, or several with commas")
    return [name_at(*place_of(name)) for name in where.split(",")]


@dataclass(eq=False, slots=True)
class OverlayInterest:
    """What one subscription listens to."""

    topics: frozenset[str]
    client: str
    notify: Notify
    where: str | None
    with_topic: bool

    @property
    def pattern(self) -> str:
        """The same as a filter; for patterns of topics a wider one, that every dispatcher can check."""
        named = sorted(topic for topic in self.topics if not is_pattern(topic))
        wanted = [f"topic in [{', '.join(map(_quoted, named))}]"] if named else []
        for pattern in sorted(filter(is_pattern, self.topics)):
            head = pattern[: min(i for i in map(pattern.find, "*>") if i >= 0)]
            wanted.append(f"topic starts with {_quoted(head)}" if head else "exists topic")
        text = " or ".join(wanted)
        return text if self.where is None else f"({text}) and ({self.where})"

    def wants(self, topic: str) -> bool:
        """Whether it listens to a topic."""
        return topic in self.topics or any(
            matches(p, topic) and p.startswith(ASIDE) == topic.startswith(ASIDE)
            for p in self.topics
            if is_pattern(p)
        )


class OverlayService:
    """A leaf of the overlay, as an event notification service that filters by content."""

    def __init__(self, dispatchers: list[str], options: OverlayOptions) -> None:
        self.options = options
        self.dispatchers = dispatchers
        self.rejected = 0  # events whose insides made no sense
        self._site: Site | None = None
        self._interests: dict[str, OverlayInterest] = {}
        self._made = 0
        self._published_at = float("-inf")

    @property
    def capabilities(self) -> Capabilities:
        """Datagrams get lost, nobody sequences, and content decides."""
        return Capabilities(
            reliable=False, carries_objects=True, sequenced=False, frame_bytes_max=PAYLOAD_BYTES_MAX
        )

    def aside(self) -> OverlayAside:
        """For letters, which are nobody's topics."""
        return OverlayAside(self)

    async def settle(self) -> None:
        """Return when the dispatcher knows what we listen to."""
        await _settle(self._opened(), self.options.connect_timeout)

    async def connect(self) -> None:
        """Hang on a dispatcher; ConnectionError if none answers."""
        if self._site is not None:
            return
        host, port = place_of(self.dispatchers[0])
        key = key_for(host, find_key(self.options.key_file))
        site = Site(key, self._deliver, leaf=True, loss=self.options.loss)
        await site.open(await _own_host(host, port), 0)
        try:
            site.join(self.dispatchers)
            await _settle(site, self.options.connect_timeout)
        except TimeoutError:
            site.close()
            names = ", ".join(self.dispatchers)
            raise ConnectionError(
                f"no dispatcher answers at {names}; start one with 'unisono dispatcher --listen udp://{names}', "
                "and see that it has the same key"
            ) from None
        except BaseException:
            site.close()
            raise
        self._site = site

    async def subscribe(
        self, topics: frozenset[str], notify: Notify, *, with_topic: bool = False, where: str | None = None
    ) -> OverlayInterest:
        """Call `notify` with every publication on one of the topics whose content matches."""
        self._made += 1
        interest = OverlayInterest(topics, f"c{self._made}", notify, where, with_topic)
        if topics:
            self._opened().subscribe(interest.client, interest.pattern)
        self._interests[interest.client] = interest
        await self.settle()
        return interest

    async def change(self, interest: Interest, topics: frozenset[str]) -> None:
        """Listen to these topics instead."""
        assert isinstance(interest, OverlayInterest)
        site, before = self._opened(), interest.pattern if interest.topics else None
        interest.topics = topics
        after = interest.pattern if topics else None
        if after is not None and after != before:
            site.subscribe(interest.client, after)
        if before is not None and after != before:
            site.unsubscribe(interest.client, before)

    async def unsubscribe(self, interest: Interest) -> None:
        """Stop."""
        assert isinstance(interest, OverlayInterest)
        if (
            self._interests.pop(interest.client, None) is not None
            and self._site is not None
            and interest.topics
        ):
            self._site.unsubscribe(interest.client, interest.pattern)

    def publish(self, topics: tuple[str, ...], frame: Any) -> None:
        """Hand over a publication."""
        assert isinstance(frame, Publication)
        self._opened().publish(seen_by_filters(frame), _encoder.encode(frame))
        self._published_at = asyncio.get_running_loop().time()

    async def flush(self) -> None:
        """Datagrams leave at once; but only for a while can the first one on their way ask for those that it missed."""
        left = self._published_at + FLUSH_S - asyncio.get_running_loop().time()
        if left > 0:
            await asyncio.sleep(left)

    async def close(self) -> None:
        """Let go of the overlay."""
        site, self._site = self._site, None
        if site is not None:
            site.close()

    def _opened(self) -> Site:
        if self._site is None:
            raise ClosedError("the overlay is not connected; connect again")
        return self._site

    def _deliver(self, clients: tuple[str, ...], event: Carried) -> None:
        try:
            publication = _decoder.decode(event.payload)
        except msgspec.MsgspecError:
            self.rejected += 1
            return
        for client in clients:
            interest = self._interests.get(client)
            if interest is not None and interest.wants(publication.topic):
                if interest.with_topic:
                    interest.notify(publication.topic, publication)
                else:
                    interest.notify(publication)


def seen_by_filters(publication: Publication) -> dict[str, Value]:
    """The names and values of an event that filters can see, nested ones with dots: the first ones, if there are many."""
    found: dict[str, Value] = {}
    room = ATTRIBUTES_BYTES
    todo = deque[tuple[str, Any]](attributes_of(Event(publication)).items())
    while todo and len(found) < ATTRIBUTES_MAX:
        name, value = todo.popleft()
        if isinstance(value, Mapping):
            todo += [(f"{name}.{key}", inner) for key, inner in value.items() if isinstance(key, str)]
        elif isinstance(value, str | int | float | bool) and name not in found:
            room -= len(name) + len(str(value))
            if room < 0:
                break
            found[name] = value
    return found


async def _settle(site: Site, timeout_s: float) -> None:
    """Return when the leaf hangs on a dispatcher, and each knows what the other wants."""
    told = 0
    async with asyncio.timeout(timeout_s):
        while not site.told or site.told != told:
            told = site.told
            await asyncio.sleep(LOOK_S)


async def _own_host(host: str, port: int) -> str:
    """The address of ours from which that one is reached."""
    try:
        (family, kind, _, _, address), *_ = await asyncio.get_running_loop().getaddrinfo(
            host, port, type=socket.SOCK_DGRAM
        )
        with socket.socket(family, kind) as probe:
            probe.connect(address)
            return str(probe.getsockname()[0])
    except OSError as error:
        raise ConnectionError(f"udp://{host}:{port} cannot be reached: {error.strerror or error}") from error


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
