"""The audit's kernels on a journal that is still being written: judged segment by segment, state small for ever.

`LifeKernel` has one life and feeds its segments to the same `Witnessed` that the audit feeds. `TopicKernel` has one
topic and compares the stamps that all lives note for its numbers, by the audit's `disagreement`. Both go on from
bytes, so that they can live in anybody's state store; neither knows Spark.

What is forgotten, and so what a watch cannot tell and an audit can: whether an event repeats one that is N_KEPT or
more older by its author's count; whether a stamp is that of a number which every subscription passed BLOCKS_KEPT
blocks ago, or the topic BLOCKS_MAX blocks ago (how many such came is counted); whether anything was lost.
"""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from unisono.pipeline.certify import Witnessed
from unisono.pipeline.columns import NONE
from unisono.pipeline.digests import BLOCK, Copies, Pages, disagreement
from unisono.pipeline.findings import Doubt, Found
from unisono.pipeline.segments import Footer, Refused, read_footer

N_KEPT = 1 << 20  # of an author's events, for each subscription: a bit each
BLOCKS_KEPT = 16  # of a topic's numbers behind its slowest subscription, for who comes back
BLOCKS_MAX = 256  # of a topic's numbers, however far behind somebody is: a million

Standing = tuple[str, str]  # a subscription: its process and its name there


class Heard(NamedTuple):
    """What a kernel has to say: to the kernel of a topic, or where `topic` is empty to whoever watches."""

    topic: str
    life: str
    what: Found | Doubt | Refused | Fed | Forgotten | Stands | Copies


class Fed(NamedTuple):
    """A segment was judged: its number in the life, its rows, and the deliveries of the life up to its end."""

    number: int
    rows: int
    deliveries: int


class Forgotten(NamedTuple):
    """So many stamps of a topic came too late to be compared."""

    topic: str
    rows: int


class Stands(NamedTuple):
    """How far a subscription has come in a topic; None once it has left it."""

    who: Standing
    reached: int | None


class Watched(Witnessed):
    """A life that is judged while it is written."""

    def new_book(self) -> Pages:
        """Stamps are compared as they come: sums of what others have not reached yet say nothing."""
        return Pages(self.life)

    def take_copies(self) -> list[Copies]:
        """The stamps that were noted since the last time."""
        books = (self.sequenced, *self.books.values())
        return [copies for book in books if isinstance(book, Pages) for copies in book.take()]

    def forget(self) -> None:
        """Let go of what grows with the events and is not needed to go on."""
        self.reach.clear()
        self.numbers.clear()
        self.layouts.clear()
        for certificate in self.certificates.values():
            certificate.forget(N_KEPT)


class LifeKernel:
    """One life as it is judged on and on; `state` is what was carried over."""

    def __init__(self, life: str, state: bytes | None = None) -> None:
        self.life = life
        self.watched = Watched(life)
        self.has_ended = False
        self._told: set[tuple[Standing, str]] = set()
        self._stands: dict[tuple[Standing, str], int] = {}
        if state is not None:
            self.watched, self.has_ended, self._told, self._stands = pickle.loads(zlib.decompress(state))

    def feed(self, segments: Iterable[tuple[int, str]]) -> Iterator[Heard]:
        """Judge the segments (number, path) that follow those already judged; others are passed over."""
        for number, path in sorted(segments):
            if number >= self.watched.segments and not self.watched.broken and not self.has_ended:
                yield from self._feed(number, path)
        self.watched.forget()

    def state(self) -> bytes:
        """What has to be carried over; of a life that has ended, only that."""
        if self.has_ended:
            self.watched, self._told, self._stands = Watched(self.life), set(), {}
        kept = (self.watched, self.has_ended, self._told, self._stands)
        return zlib.compress(pickle.dumps(kept, protocol=5), 1)

    def _feed(self, number: int, path: str) -> Iterator[Heard]:
        footer = _look(number, path, self.watched.segments)
        if isinstance(footer, Refused):
            self.watched.broken = footer.reason
            yield Heard("", self.life, footer)
            return
        rows = self.watched.rows
        self.watched.feed([footer.segment])
        if self.watched.broken:
            yield Heard("", self.life, Refused(path, self.watched.broken))
        for copies in self.watched.take_copies():
            yield Heard(copies.topic, self.life, copies)
        self.has_ended = footer.is_last
        yield from self._news()
        yield from self._standing()
        deliveries = sum(c.deliveries for c in self.watched.certificates.values())
        yield Heard("", self.life, Fed(number, self.watched.rows - rows, deliveries))

    def _news(self) -> Iterator[Heard]:
        for who, certificate in self.watched.certificates.items():
            news: dict[str, Found | Doubt] = {**certificate.found}
            if certificate.unstamped != NONE:
                words = "{0} came without a stamp to judge it by"
                news["unstamped"] = Doubt("tags", words, (certificate.row(certificate.unstamped),))
            for promise, what in news.items():
                if (who, promise) not in self._told:
                    self._told.add((who, promise))
                    yield Heard("", self.life, what)

    def _standing(self) -> Iterator[Heard]:
        now: dict[tuple[Standing, str], int] = {}
        for who, c in self.watched.certificates.items() if not self.has_ended else ():
            for topic, floor in c.clock.items():
                last = c.delivered[topic].last if topic in c.delivered else 0
                now[who, str(self.watched.words.topics.words[topic])] = max(floor, last)
        for (who, name), reached in now.items():
            if self._stands.get((who, name)) != reached:
                yield Heard(name, self.life, Stands(who, reached))
        for who, name in sorted(self._stands.keys() - now.keys()):
            yield Heard(name, self.life, Stands(who, None))
        self._stands = now


def _look(number: int, path: str, due: int) -> Footer | Refused:
    """The footer of a segment that must have this number, and be the one that is due."""
    if number != due or not Path(path).exists():
        return Refused(path, f"out of line: segment {due} is missing, and later ones are there")
    footer = read_footer(path)
    if isinstance(footer, Footer) and footer.segment.number != number:
        said = footer.segment.number
        return Refused(path, f"out of line: it is named as segment {number} and says it is {said}")
    return footer


class Blocks(Protocol):
    """Where the stamps of blocks of numbers are kept."""

    def get(self, at: int) -> bytes | None:
        """What is kept of a block."""

    def put(self, at: int, data: bytes) -> None:
        """Keep this."""

    def drop(self, at: int) -> None:
        """Keep it no longer."""


class TopicKernel:
    """One topic: the stamps of its numbers, for as long as somebody has still to pass them."""

    def __init__(self, topic: str, blocks: Blocks, state: bytes | None = None) -> None:
        self.topic, self._blocks = topic, blocks
        self.held: set[int] = set()  # blocks
        self._floor = 0  # the first block that is not forgotten
        self._odd: set[str] = set()  # lives whose stamps are known to differ
        self._stands: dict[tuple[str, Standing], int] = {}
        if state is not None:
            self.held, self._floor, self._odd, self._stands = pickle.loads(state)

    def state(self) -> bytes:
        """What has to be carried over beside the blocks."""
        return pickle.dumps((self.held, self._floor, self._odd, self._stands), protocol=5)

    def feed(self, heard: Iterable[Heard]) -> Iterator[Heard]:
        """Compare stamps with each other and with those that came before."""
        by_block: dict[int, list[Copies]] = {}
        late = 0
        for life, what in ((h.life, h.what) for h in heard):
            if isinstance(what, Stands):
                self._note(life, what)
            elif isinstance(what, Copies):
                for at, part in _by_block(what):
                    by_block.setdefault(at, []).append(part)
        for at, parts in sorted(by_block.items()):
            if at < self._floor:
                late += sum(len(part.numbers) for part in parts)
            else:
                yield from self._compare(at, parts)
        if late:
            yield Heard("", "", Forgotten(self.topic, late))
        self._forget()

    def _note(self, life: str, stands: Stands) -> None:
        if stands.reached is None:
            self._stands.pop((life, stands.who), None)
        else:
            self._stands[life, stands.who] = stands.reached

    def _compare(self, at: int, new: list[Copies]) -> Iterator[Heard]:
        before = self._blocks.get(at)
        known: list[Copies] = pickle.loads(zlib.decompress(before)) if before is not None else []
        all_ = [copies for copies in (*known, *new) if copies.life not in self._odd]
        while (differing := disagreement(all_)) is not None:
            odd, _ = differing
            yield Heard("", odd.life, Found("stamps", "stamps_differ", differing))
            self._odd.add(odd.life)
            all_ = [copies for copies in all_ if copies.life != odd.life]
        if all_:
            self.held.add(at)
            self._blocks.put(at, zlib.compress(pickle.dumps(_one_of_each(all_), protocol=5), 1))

    def _forget(self) -> None:
        if not self.held:
            return
        floor = max(self.held) - BLOCKS_MAX + 1
        if self._stands:
            floor = max(floor, min(self._stands.values()) // BLOCK - BLOCKS_KEPT)
        self._floor = max(self._floor, floor)
        for at in [block for block in self.held if block < self._floor]:
            self.held.discard(at)
            self._blocks.drop(at)


def _by_block(copies: Copies) -> Iterator[tuple[int, Copies]]:
    index = copies.numbers // BLOCK
    for at in np.unique(index).tolist():
        yield at, _those(copies, index == at)


def _one_of_each(all_copies: list[Copies]) -> list[Copies]:
    """The first copy of each number, which stands for all of them."""
    numbers = np.concatenate([c.numbers for c in all_copies])
    _, firsts, which = np.unique(numbers, return_index=True, return_inverse=True)
    times = np.bincount(which.ravel(), weights=np.concatenate([c.times for c in all_copies]))
    kept: list[Copies] = []
    start = 0
    for copies in all_copies:
        mine = (firsts >= start) & (firsts < start + len(copies.numbers))
        if mine.any():
            kept.append(_those(copies, firsts[mine] - start)._replace(times=times[mine].astype(np.int64)))
        start += len(copies.numbers)
    return kept


def _those(copies: Copies, rows: Any) -> Copies:
    return copies._replace(
        numbers=copies.numbers[rows],
        hashes=copies.hashes[rows],
        places=copies.places[rows],
        times=copies.times[rows],
    )
