"""The log of some topics, read from the lanes by the engines that nodes tell the past with.

Epochs that are over are in the order of the log (`engines/chronicle/order.py`); of the one that is not, what is final
(`engines/chronicle/present.py`), which takes topics that are ordered together: a view sees to that.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from itertools import accumulate, islice
from typing import TypeVar

from unisono.engines.chronicle.found import Found
from unisono.engines.chronicle.library import CHAPTERS_KEPT, Library, UnreadError
from unisono.engines.chronicle.order import Unit
from unisono.engines.chronicle.present import Present, is_ordered
from unisono.engines.chronicle.reading import Reading
from unisono.engines.chronicle.telling import beginning, tell
from unisono.engines.effects import Read
from unisono.engines.inputs import ReadBack
from unisono.engines.takeover.control import Control
from unisono.engines.takeover.patterns import matching
from unisono.engines.takeover.views import view_of
from unisono.engines.takeover.wire import decode_control
from unisono.model.errors import ConfigError, ForgottenError, UnconfirmedError
from unisono.model.frames import Entries, Recall, Stamped
from unisono.model.ids import is_pattern
from unisono.model.runs import run_of
from unisono.pipeline.stream.link import Link
from unisono.pipeline.stream.offsets import Offset
from unisono.runtime.remote.admin import make_view
from unisono.runtime.remote.keeper import KEY, WORLD

LOOKS_MAX = 64  # at a control record that changes while it is read, or an epoch that is being sealed
LOOK_S = 0.05

T = TypeVar("T")


class Chapter:
    """The units of one epoch that have events on our topics, in order; it may grow."""

    def __init__(self, epoch: int, topics: frozenset[str], numbers: Entries, found: Found) -> None:
        self.epoch = epoch
        self.found = found
        self.topics = topics
        self.base = sum(numbers.get(topic, 0) for topic in topics)  # the position before its first event
        self.units: list[Unit] = []
        self.ends: list[int] = []  # events of our topics up to the end of each
        self._until: tuple[Entries, int] = ({}, 0)

    def resume(self, clock: Entries) -> int:
        """The first unit that need be looked at by who is so far."""
        return self._until[1] if self._until[0] == clock else 0

    def remember(self, clock: Entries, place: int) -> None:
        """Who is so far need not look at those before this one."""
        self._until = dict(clock), place

    def grow(self, units: list[Unit]) -> None:
        """Take in what comes next."""
        counts = [count_of(unit, self.topics) for unit in units]
        self.ends += islice(accumulate(counts, initial=self.ends[-1] if self.ends else 0), 1, None)
        self.units += units


def count_of(unit: Unit, topics: frozenset[str]) -> int:
    """How many events a unit has on these topics."""
    if isinstance(unit, Stamped):
        return 1 if unit.topic in topics else 0
    return sum(unit.count(topic) for topic in topics.intersection(unit.topics))


class GoneError(Exception):
    """An epoch is not kept any more."""


class Log:
    """What has been read of the lanes for one subscription."""

    def __init__(self, link: Link, names: tuple[str, ...]) -> None:
        self.link = link
        self.names = names
        self.world = 0
        self.control: Control | None = None
        self.library = Library()
        self._told: dict[int, Chapter] = {}  # closed epochs in order, our topics only
        self._present: tuple[Present, Chapter, Reading] | None = None

    async def open(self) -> None:
        """Look what there is; ConfigError if its past is not kept."""
        found = await self.link.patiently(lambda: self.link.store.look(WORLD))
        if found is None:
            raise ConfigError(
                f"no node has ever been at {self.link.service.url}; start one with `unisono node`"
            )
        self.world = int.from_bytes(found[1])
        control = await self.refresh()
        if not control.retained:
            raise ConfigError(
                "this system keeps no history; a first node with --retain-records makes one that does"
            )

    async def refresh(self) -> Control:
        """The control record as it is now."""
        for _ in range(LOOKS_MAX):
            found = await self.link.patiently(lambda: self.link.store.look(KEY))
            if found is None:
                raise ForgottenError(f"{self.link.service.url} has lost the control record")
            if whole := await self.link.chest.take(found[1]):
                self.control = decode_control(whole)
                self.library.chapters.learn(self.control)
                return self.control
        raise ForgottenError(f"{self.link.service.url} has lost a part of the control record")

    # What topics there are, and whether they have one order.

    def topics_of(self, numbers: Entries) -> frozenset[str]:
        """Our topics among those that an epoch began with."""
        return frozenset(matching(self.names, numbers))

    @property
    def view(self) -> str:
        """What the view of our topics is called."""
        return f"spark.{hashlib.sha256(' '.join(sorted(self.names)).encode()).hexdigest()[:12]}"

    async def order_together(self) -> None:
        """See to it that our topics have one order in the epoch that goes on, and in those to come."""
        control = await self.refresh()
        view, alone = view_of(self.view, self.names), len(self.names) == 1 and not is_pattern(self.names[0])
        if alone or (control.state == "active" and control.views.get(self.view) == view):
            return  # one topic always has an order
        await make_view(self.link.url, self.view, self.names)
        await self.refresh()

    # Reading.

    async def know(self, ask: Callable[[], T]) -> T:
        """The answer of the library, after what it wants to be read has been read."""
        barren = 0
        while True:
            try:
                return ask()
            except UnreadError as unread:
                pieces = unread.pieces
            if not pieces:
                if self.library.tidy():
                    continue  # there is room now
                barren += 1
                if barren > LOOKS_MAX:
                    raise UnconfirmedError("the log cannot be read: what should be kept of it is not there")
                await asyncio.sleep(LOOK_S)
                await self.refresh()
            for piece in await asyncio.gather(*map(self._read, pieces)):
                self.library.read_back(piece)

    async def _read(self, read: Read) -> ReadBack:
        found, end = await self.link.read(read.lane, read.after, read.limit)
        tail = found[-1][0] if found else end
        return ReadBack(read.lane, tuple(record for _, record in found), tail, read.after, end - tail)

    @property
    def newest(self) -> int:
        """The epoch that goes on."""
        return self.library.chapters.newest

    async def numbers(self, epoch: int) -> Entries:
        """How far topics were when an epoch began; GoneError if it is not kept any more."""
        return await self.know(lambda: self._kept(epoch, lambda: self.library.numbers(epoch)))

    async def chapter(self, epoch: int) -> Chapter:
        """An epoch in order: a closed one as a whole, and of the one that goes on what is final."""
        if epoch >= self.newest:
            return await self._extended()
        if epoch not in self._told:
            numbers = await self.numbers(epoch)
            found = await self.know(lambda: self._kept(epoch, lambda: self.library.chapter(epoch)))
            told = Chapter(epoch, self.topics_of(numbers), numbers, found.found)
            told.grow([unit for unit in found.units if count_of(unit, told.topics)])
            self._told[epoch] = told
            if len(self._told) > CHAPTERS_KEPT:  # it is read again if somebody wants it again
                del self._told[next(iter(self._told))]
        return self._told[epoch]

    async def units(self, epoch: int) -> list[Unit]:
        """Everything that is stored of an epoch, in no order; GoneError if it is not kept any more."""
        if epoch < self.newest:
            found = await self.know(lambda: self._kept(epoch, lambda: self.library.chapter(epoch)))
            return found.units
        reading = self.library.present()
        await self._read_on(reading)
        return reading.found.units()

    def _kept(self, epoch: int, ask: Callable[[], T]) -> T:
        self.library.find(epoch)
        if epoch < self.library.chapters.oldest:
            raise GoneError
        return ask()

    async def _extended(self) -> Chapter:
        epoch = self.newest
        if self._present is None or self._present[1].epoch != epoch:
            numbers = await self.numbers(epoch)
            topics = self.topics_of(numbers)
            reading = self.library.present()
            self._present = (
                Present(numbers, topics),
                Chapter(epoch, topics, numbers, reading.found),
                reading,
            )
        present, chapter, reading = self._present
        if self.newest != epoch:  # it is over meanwhile
            return await self.chapter(epoch)
        assert self.control is not None
        if not is_ordered(self.control.plan, present.topics):
            return chapter  # nothing of it is final before it is over
        await self._read_on(reading)
        if count := present.extend(reading.found.units()):
            chapter.grow(present.units[-count:])
        return chapter

    async def _read_on(self, reading: Reading) -> None:
        """Read an epoch up to its end, or as far as it is written now."""
        is_more = True
        while is_more:
            reading.ended.clear()
            before = dict(reading.after)
            for piece in await asyncio.gather(*map(self._read, reading.wanted())):
                self.library.read_back(piece)
            is_more = reading.after != before and not reading.ended >= reading.open

    # Where to begin.

    async def earliest(self) -> Offset:
        """Before the first event that is kept."""
        epoch = await self.know(self.library.earliest)
        numbers = await self.numbers(epoch)
        return Offset(self.world, epoch, {topic: numbers[topic] for topic in self.topics_of(numbers)})

    async def latest(self) -> Offset:
        """Behind everything whose place is final."""
        while (await self.chapter(self.newest)).epoch != self.newest:
            pass  # it is over meanwhile
        assert self._present is not None
        return Offset(self.world, self._present[1].epoch, dict(self._present[0].clock))

    async def behind(self, stamp: Entries) -> Offset:
        """Behind these numbers; topics that are not named begin with their first event."""
        recall = Recall("spark", self.names, self.newest, clock=stamp)
        epoch = await self.know(lambda: beginning(self.library, recall))
        return Offset(self.world, epoch, dict(stamp))

    async def since(self, at: float) -> Offset:
        """Before the first event, in the order of the log, that was published then or later; or behind all there are."""
        epoch, until = -1, self.newest
        while True:
            recall = Recall("spark", self.names, until, epoch, 0, {}, at)
            told = await self.know(lambda recall=recall: tell(self.library, recall))  # type: ignore[misc]
            if told.done:
                return await self._since_in_present(at)
            if told.floors is not None:
                return Offset(self.world, told.epoch, told.floors)
            epoch = told.epoch

    async def _since_in_present(self, at: float) -> Offset:
        chapter = await self.chapter(self.newest)
        numbers = await self.numbers(chapter.epoch)
        clock = {topic: numbers.get(topic, 0) for topic in chapter.topics}
        for unit in chapter.units:
            for event in (unit,) if isinstance(unit, Stamped) else run_of(unit).events():
                if event.topic in clock:
                    if event.publication.published_at >= at:
                        return Offset(self.world, chapter.epoch, clock)
                    clock[event.topic] = event.number
        return Offset(self.world, chapter.epoch, clock)
