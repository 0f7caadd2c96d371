"""A node looks after the places of durable subscribers: records in the store that change by compare-and-set."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter, OrderedDict
from collections.abc import Callable

import msgspec

from unisono.engines.durable.rules import Ruling, rule_claim, rule_clear, rule_save
from unisono.engines.effects import Effect, Tend
from unisono.engines.inputs import Input, Tended
from unisono.engines.takeover.settings import NodeSettings
from unisono.ens.ending import end
from unisono.ens.store import Store, check_key
from unisono.model.codec import VERSION, decode_versioned
from unisono.model.errors import ConfigError, FrameError, UnisonoError
from unisono.model.places import Claim, Clear, Place, Placed, Save, Survey, Surveyed

PREFIX = "place."
TROUBLES = (ConnectionError, UnisonoError, TimeoutError)  # whoever asked asks again
TRIES_MAX = 16  # others may change a record at the same time, but not that often
KNOWN_MAX = 4096  # places that are remembered, so that a save need not look first
TENDED_MAX = 1024  # requests at a time
CLIENT_TENDED_MAX = 256  # and of one client
SURVEYED_MAX = 64  # places in one answer

log = logging.getLogger("unisono")

_decoder: msgspec.msgpack.Decoder[Place] = msgspec.msgpack.Decoder(Place)


def encode_place(place: Place) -> bytes:
    """The bytes that are stored for a place."""
    return bytes([VERSION]) + msgspec.msgpack.encode(place)


def decode_place(data: bytes, limit: int) -> Place:
    """The place that was stored."""
    return decode_versioned(data, _decoder, limit, "place")


class Places:
    """One node's way to the places."""

    def __init__(self, store: Store, answer: Callable[[Input], None], settings: NodeSettings) -> None:
        self.troubles = 0
        self.tended = 0  # requests
        self.refused = 0  # requests that were not taken because there were too many
        self._store = store
        self._answer = answer
        self._settings = settings
        self._known: OrderedDict[str, tuple[int, Place]] = OrderedDict()  # name -> revision and place
        self._tasks: dict[asyncio.Task[None], str] = {}
        self._clients: Counter[str] = Counter()

    def carry_out(self, effect: Effect) -> bool:
        """Do what an effect asks; False if it is not about places."""
        if not isinstance(effect, Tend):
            return False
        client = effect.source.partition(".")[0]
        if len(self._tasks) >= TENDED_MAX or self._clients[client] >= CLIENT_TENDED_MAX:
            self.refused += 1  # it will be asked again
            return True
        self.tended += 1
        task = asyncio.get_running_loop().create_task(self._tend(effect))
        self._tasks[task] = client
        self._clients[client] += 1
        task.add_done_callback(self._ended)
        return True

    async def close(self) -> None:
        """Look after nothing any more."""
        await end(*self._tasks)

    def _ended(self, task: asyncio.Task[None]) -> None:
        client = self._tasks.pop(task)
        self._clients[client] -= 1
        if not self._clients[client]:
            del self._clients[client]
        if not task.cancelled() and (error := task.exception()) is not None:
            self.troubles += 1
            details = None if isinstance(error, TROUBLES) else error
            log.warning("the store: %s", error, exc_info=details)

    # One request.

    async def _tend(self, effect: Tend) -> None:
        match effect.message:
            case Survey(after):
                answer: Placed | Surveyed | None = await self._survey(after)
            case Clear() as clear:
                answer = await self._clear(clear)
            case Claim() | Save() as wish:
                answer = self._fault(wish) or await self._change(wish)
        if answer is not None:
            self._answer(Tended(effect.source, answer))

    def _fault(self, wish: Claim | Save) -> Placed | None:
        """Why a request cannot be carried out, whatever is stored."""
        name = wish.name if isinstance(wish, Claim) else wish.place.name
        if not self._store.shared:
            return Placed(name, None, "the nodes share no store, and keep nothing that outlives them")
        try:
            check_key(PREFIX + name)
        except ConfigError as error:
            return Placed(name, None, str(error))
        size, limit = len(msgspec.msgpack.encode(wish)), self._settings.place_bytes_max // 2
        if size > limit:
            return Placed(
                name, None, f"a place of {size} bytes is over the limit of {limit}: hold fewer topics"
            )
        return None

    async def _change(self, wish: Claim | Save) -> Placed | None:
        """Carry out a claim or a save; None if too many others are at it."""
        name = wish.name if isinstance(wish, Claim) else wish.place.name
        known = self._known.get(name)
        for _ in range(TRIES_MAX):
            is_fresh = known is None
            if known is None:
                known = await self._look(name)
            revision, place = (0, None) if known is None else known
            ruling = _rule(place, wish)
            if ruling.write is None and not is_fresh:
                known = None  # it may have changed: say nothing of it without a look
                continue
            if ruling.write is None:
                return ruling.answer
            if place is None and (refusal := await self._is_full(name)) is not None:
                return refusal
            written = msgspec.structs.replace(ruling.write, saved_at=time.time())
            stored = await self._store.decide(PREFIX + name, encode_place(written), revision)
            if stored is not None:
                self._remember(name, stored, written)
                return Placed(name, written)
            self._known.pop(name, None)
            known = None
        return None

    async def _look(self, name: str) -> tuple[int, Place] | None:
        found = await self._store.look(PREFIX + name)
        if found is None:
            self._known.pop(name, None)
            return None
        place = decode_place(found[1], self._settings.place_bytes_max)
        self._remember(name, found[0], place)
        return found[0], place

    async def _is_full(self, name: str) -> Placed | None:
        limit = self._settings.places_max
        if len(await self._store.keys(PREFIX)) < limit:
            return None
        return Placed(
            name,
            None,
            f"there are {limit} durable subscribers, and no more are taken; remove one nobody needs",
        )

    def _remember(self, name: str, revision: int, place: Place) -> None:
        self._known[name] = (revision, place)
        self._known.move_to_end(name)
        if len(self._known) > KNOWN_MAX:
            self._known.popitem(last=False)

    async def _clear(self, clear: Clear) -> Placed:
        if (fault := self._fault(Claim(clear.name, "", ()))) is not None:
            return fault
        known = await self._look(clear.name)
        answer = rule_clear(None if known is None else known[1], clear).answer
        if not answer.reason:
            await self._store.delete(PREFIX + clear.name)
            self._known.pop(clear.name, None)
        return answer

    async def _survey(self, after: str) -> Surveyed:
        names = sorted(key.removeprefix(PREFIX) for key in await self._store.keys(PREFIX))
        behind = [name for name in names if name > after]
        places: list[Place] = []
        size = 0
        for name in behind[:SURVEYED_MAX]:
            try:
                found = await self._store.look(PREFIX + name)
                place = None if found is None else decode_place(found[1], self._settings.place_bytes_max)
            except FrameError as error:
                log.error("the place of '%s' is not one: %s", name, error)
                continue
            if place is None:
                continue
            size += len(found[1]) if found else 0
            if places and size > self._settings.place_bytes_max:
                return Surveyed(after, tuple(places), False)
            places.append(place)
        return Surveyed(after, tuple(places), len(behind) <= SURVEYED_MAX)


def _rule(place: Place | None, wish: Claim | Save) -> Ruling:
    return rule_claim(place, wish) if isinstance(wish, Claim) else rule_save(place, wish)
