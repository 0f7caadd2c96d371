"""One peer of an overlay in this process: its socket, its dispatcher, and its place in the tree."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections import deque
from collections.abc import Callable, Iterable
from functools import lru_cache
from random import Random
from typing import Self, TypeAlias

from unisono.engines.datagrams import Guard, GuardSettings
from unisono.engines.epidemic import Dispatcher, DispatcherSettings, TreeKeeper, TreeSettings
from unisono.engines.epidemic.inputs import (
    Deliver,
    Effect,
    Heard,
    Input,
    LinkAdded,
    LinkRemoved,
    Lose,
    PublishEvent,
    Reject,
    Send,
    Subscribe,
    Unsubscribe,
)
from unisono.engines.epidemic.leaves import Full, Here, LeafEffect, LeafHost, LeafKeeper, SendLeaf, Taken
from unisono.engines.epidemic.messages import Event
from unisono.engines.epidemic.patterns import Value
from unisono.engines.epidemic.tree import Attach, Beat, BeatHeard, Detach, Meet, SendBeat, TreeEffect
from unisono.engines.filters import Filter, parse
from unisono.engines.inputs import TICK
from unisono.model.errors import ConfigError, FrameError, PayloadError, UnisonoError
from unisono.runtime.overlay.endpoint import Endpoint, Where
from unisono.runtime.overlay.matching import Matching
from unisono.runtime.overlay.wire import LEAF, Spoken, decode, encode, name_at, place_of
from unisono.runtime.timer import EngineTimer

DATAGRAM_BYTES = (
    60_000  # larger ones than a network carries in one piece travel in several, and are lost together
)
PEERS_S = 1.0  # how often another dispatcher is told of some that we know
PLACES_MAX = 65536  # names of which it is remembered where datagrams came from
DISPATCHER = DispatcherSettings(lost_rounds_max=100)  # trees heal meanwhile
TREE = TreeSettings(beat_s=0.15, silent_s=0.75, root_silent_s=1.35, candidates_max=16)
WAITING_MAX = 1024  # events of a leaf that hangs on nobody; of more, the oldest are lost
WILD = ("0.0.0.0", "::")

OnDeliver: TypeAlias = Callable[[tuple[str, ...], Event], None]

log = logging.getLogger("unisono")


@lru_cache(maxsize=4096)
def _parse(text: str) -> Filter:
    return parse(text)


class Site:
    """A dispatcher others may hang on, or a leaf: `async with Site(...)`, then `join`."""

    def __init__(
        self,
        key: bytes,
        deliver: OnDeliver,
        *,
        leaf: bool = False,
        settings: DispatcherSettings = DISPATCHER,
        tree: TreeSettings = TREE,
        loss: float = 0.0,
        seed: int | None = None,
    ) -> None:
        """`loss` is the share of datagrams to throw away, for those who want to see what happens."""
        self.name = ""
        self.rejected = 0  # messages that made no sense, or were over a bound
        self.lost = 0  # events that were given up
        self.thrown_away = 0
        self.on_change: Callable[[], None] = lambda: None  # called when neighbours have come or gone
        self._key = key
        self._deliver = deliver
        self._is_leaf = leaf
        self._settings = settings
        self._tree_settings = tree
        self._loss = loss
        self._random = Random(secrets.randbits(64) if seed is None else seed)
        self._places: dict[str, Where] = {}
        self._turn = 0
        self._told: asyncio.TimerHandle | None = None
        self._waiting: deque[PublishEvent] = deque(maxlen=WAITING_MAX)
        self._endpoint: Endpoint | None = None

    # Opening and closing.

    async def open(self, host: str, port: int, advertise: tuple[str, int] | None = None) -> Self:
        """Take an address; others find us at `advertise`, or where we listen."""
        self._loop = asyncio.get_running_loop()
        endpoint = Endpoint(self._opened)
        found = await endpoint.open(host, port)
        at = advertise or found
        if at[0] in WILD:
            endpoint.close()
            raise ConfigError(
                f"nobody can be found at {at[0]}; say where others find us with --advertise HOST:PORT"
            )
        self.name = name_at(*at, leaf=self._is_leaf)
        life = time.time_ns()
        guard = Guard(
            self.name,
            self._key,
            life,
            secrets.token_bytes(16),
            GuardSettings(datagram_bytes_max=DATAGRAM_BYTES),
        )
        self.dispatcher = Dispatcher(self.name, life, self._random, _parse, self._settings, Matching())
        self._dispatcher_timer = EngineTimer(self.dispatcher, self._tick)
        self.leaves = LeafHost()
        self._leaves_timer = EngineTimer(self.leaves, self._tick_leaves)
        if self._is_leaf:
            self.leaf = LeafKeeper(())
            self._keeper_timer = EngineTimer(self.leaf, self._tick_leaf)
        else:
            self.tree = TreeKeeper(self.name, life, self._random, (), self._tree_settings)
            self._keeper_timer = EngineTimer(self.tree, self._tick_tree)
        endpoint.begin(guard)
        self._endpoint = endpoint
        if not self._is_leaf:
            self._tick_tree()
            self._tell_peers()
        return self

    def join(self, names: Iterable[str]) -> None:
        """These dispatchers may be there; one that is, is enough."""
        names = [name_at(*place_of(name)) for name in names]
        if self._is_leaf:
            self.leaf.candidates = list(dict.fromkeys([*self.leaf.candidates, *names]))
            self._tick_leaf()
        else:
            self._do_tree(self.tree.handle(Meet(tuple(names)), self._loop.time()))

    def close(self) -> None:
        """Be gone."""
        if self._endpoint is None:
            return
        for timer in (self._dispatcher_timer, self._leaves_timer, self._keeper_timer):
            timer.cancel()
        if self._told is not None:
            self._told.cancel()
        self._endpoint.close()
        self._endpoint = None

    @property
    def neighbours(self) -> tuple[str, ...]:
        """Who hangs on us, and on whom we hang."""
        return tuple(self.dispatcher.table.links)

    @property
    def told(self) -> int:
        """How much a leaf was told of what others want, while its host knows what it wants; 0: nothing yet."""
        link = self.dispatcher.table.links.get(self.leaf.host or "")
        return 0 if link is None or link.unconfirmed else link.heard_up_to

    # For applications.

    def publish(self, attributes: dict[str, Value], payload: bytes) -> None:
        """Publish an event; PayloadError if it does not fit into a datagram."""
        most = DATAGRAM_BYTES // 2  # numbers and the route come on top
        size = len(payload) + sum(len(name) + len(str(value)) + 16 for name, value in attributes.items())
        if size > most:
            raise PayloadError(
                f"an event of about {size} bytes is over the limit of {most} for datagrams; send less"
            )
        if not self._is_leaf or self.told:
            self.handle(PublishEvent(attributes, payload))
            return
        if len(self._waiting) == WAITING_MAX:
            self.lost += 1
        self._waiting.append(PublishEvent(attributes, payload))  # nobody knows yet who wants it

    def subscribe(self, client: str, pattern: str) -> None:
        """Deliver what matches to a client; raises what makes that impossible."""
        self._raise_first(self.handle(Subscribe(client, pattern)))

    def unsubscribe(self, client: str, pattern: str) -> None:
        """Deliver it no more."""
        self.handle(Unsubscribe(client, pattern))

    def _raise_first(self, errors: list[UnisonoError]) -> None:
        if errors:
            raise errors[0]

    # Engines.

    def handle(self, input: Input) -> list[UnisonoError]:
        """Let the dispatcher take an input, and do what it asks for; returns what it rejected."""
        if self._endpoint is None:
            return []
        errors = self._do(self.dispatcher.handle(input, self._loop.time()))
        self._dispatcher_timer.reset()
        return errors

    def _do(self, effects: list[Effect]) -> list[UnisonoError]:
        errors = []
        for effect in effects:
            match effect:
                case Send(to, message):
                    self._send(to, message)
                case Deliver(clients, event):
                    self._deliver(clients, event)
                case Lose(_, _, _, numbers):
                    self.lost += len(numbers)
                case Reject(error):
                    self.rejected += 1
                    errors.append(error)
        return errors

    def _tick(self) -> None:
        self.handle(TICK)

    def _tick_tree(self) -> None:
        self._do_tree(self.tree.handle(TICK, self._loop.time()))

    def _tick_leaf(self) -> None:
        self._do_tree(self.leaf.handle(TICK, self._loop.time()))

    def _tick_leaves(self) -> None:
        self._do_tree(self.leaves.handle(TICK, self._loop.time()))

    def _do_tree(self, effects: list[TreeEffect] | list[LeafEffect]) -> None:
        for effect in effects:
            match effect:
                case SendBeat(to, beat):
                    self._send(to, beat)
                case SendLeaf(to, message):
                    self._send(to, message)
                case Attach(neighbour):
                    self.handle(LinkAdded(neighbour))
                    self.on_change()
                case Detach(neighbour):
                    self.handle(LinkRemoved(neighbour))
                    self.on_change()
        self._keeper_timer.reset()
        self._leaves_timer.reset()

    def _tell_peers(self) -> None:
        """Tell one of the dispatchers we know of some others: who knows many is not cut off by the loss of one."""
        self._told = self._loop.call_later(PEERS_S, self._tell_peers)
        known = [name for name in self.tree.heard if not name.startswith(LEAF)]
        if len(known) > 1:
            self._send(
                self._random.choice(known), Taken(tuple(self._random.sample(known, min(4, len(known)))))
            )

    # Datagrams.

    def _send(self, to: str, spoken: Spoken) -> None:
        if self._endpoint is None:
            return
        if self._loss and self._random.random() < self._loss:
            self.thrown_away += 1
            return
        try:
            self._endpoint.send(self._places.get(to) or place_of(to), encode(spoken))
        except (PayloadError, ConfigError) as error:
            self.rejected += 1
            log.debug("'%s' cannot be sent to: %s", to, error)

    def _opened(self, name: str, where: Where, payload: bytes) -> None:
        try:
            spoken = decode(payload)
        except FrameError as error:
            self.rejected += 1
            log.debug("'%s' sent what is nothing of ours: %s", name, error)
            return
        if len(self._places) < PLACES_MAX or name in self._places:
            self._places[name] = where
        now = self._loop.time()
        match spoken:
            case Beat():
                if not self._is_leaf:
                    self._do_tree(self.tree.handle(BeatHeard(name, spoken), now))
            case Here():
                if not self._is_leaf:
                    self._do_tree(self.leaves.hear(name, self._others(), now))
            case Taken() | Full() if self._is_leaf:
                self._do_tree(self.leaf.hear(name, spoken, now))
            case Taken(peers):
                self._do_tree(self.tree.handle(Meet(peers), now))
            case Full():
                pass
            case _:
                self.handle(Heard(name, spoken))
                if self._is_leaf:
                    self.leaf.overhear(name, now)
                    while self._waiting and self.told:
                        self.handle(self._waiting.popleft())

    def _others(self) -> list[str]:
        """Dispatchers that live, another one first each time: the leaves of one that dies go different ways."""
        known = [name for name in self.tree.heard if not name.startswith(LEAF)]
        self._turn += 1
        turn = self._turn % max(1, len(known))
        return known[turn:] + known[:turn]
