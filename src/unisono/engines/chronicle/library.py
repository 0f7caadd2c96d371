"""What a node has read of the lanes, for those who ask for the past. What is not known raises UnreadError."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable

from unisono.engines.chronicle.chapters import Chapters
from unisono.engines.chronicle.found import Chapter
from unisono.engines.chronicle.reading import Reading
from unisono.engines.effects import Read
from unisono.engines.inputs import ReadBack
from unisono.model.frames import Entries
from unisono.model.lanes import EpochRecord

CHAPTERS_KEPT = 2  # closed epochs that are kept once they are read, and that are read at once


class UnreadError(Exception):
    """These pieces of lanes have to be read first."""

    def __init__(self, *pieces: Read) -> None:
        super().__init__(*pieces)
        self.pieces = pieces


class Library:
    """Where epochs begin, and a few of them as a whole."""

    def __init__(self) -> None:
        self.chapters = Chapters()
        self._readings: dict[int, Reading] = {}
        self._read: OrderedDict[int, Chapter] = OrderedDict()
        self._wanted: set[int] = set()  # chapters that somebody has asked for since `tidy`

    def tidy(self) -> bool:
        """Everybody has said what it wants: stop reading what nobody does, but for the present; True if there was some."""
        kept = {*self._wanted, self.chapters.newest}
        unwanted = [epoch for epoch in self._readings if epoch not in kept]
        for epoch in unwanted:
            del self._readings[epoch]
        self._wanted.clear()
        return bool(unwanted)

    def read_back(self, piece: ReadBack) -> None:
        """A piece of a lane is here."""
        self._take_head(piece)
        for epoch, reading in list(self._readings.items()):
            if not reading.take(piece):
                self._forget(epoch)
            elif not reading.open:
                self._readings.pop(epoch, None)
                self._read[epoch] = Chapter(reading.found)
                if len(self._read) > CHAPTERS_KEPT:
                    self._read.popitem(last=False)

    def _take_head(self, piece: ReadBack) -> None:
        """Perhaps this is where an epoch begins, or where one began that is gone."""
        chapters, where = self.chapters, (piece.lane, piece.after + 1)
        for epoch in chapters.beginning_at(where):
            first = piece.records[0] if piece.records and piece.first == where[1] else None
            if isinstance(first, EpochRecord) and first.epoch == epoch:
                chapters.read(first)
            elif first is not None and where[1] == 1:
                chapters.first = epoch  # nobody wrote down how it began: with nothing
            else:
                self._forget(epoch)

    def _forget(self, epoch: int) -> None:
        self.chapters.gone(epoch)
        for old in [e for e in self._readings if e <= epoch]:
            del self._readings[old]
        for old in [e for e in self._read if e <= epoch]:
            del self._read[old]

    def find(self, epoch: int) -> None:
        """Know where a chapter begins, or that it is not kept any more."""
        nearest = self.chapters.nearest(epoch)
        if nearest > max(epoch, self.chapters.oldest):
            raise self._unread(nearest)

    def earliest(self) -> int:
        """The first chapter that is kept."""
        low = self.chapters.nearest(0)
        if not self.chapters.is_first(low):
            raise self._unread(low)
        return low

    def numbers(self, epoch: int) -> Entries:
        """How far topics were when a chapter that is kept began."""
        self.find(epoch)
        notice = self.chapters.notice(epoch)
        if notice is None:
            raise self._unread(epoch)
        return notice.numbers

    def _unread(self, epoch: int) -> UnreadError:
        if not self.chapters.is_known(epoch):
            return UnreadError()  # not even the present is kept as it should be: only its end can help
        lane, sequence = self.chapters.head(epoch)
        return UnreadError(Read(lane, sequence - 1, 1))

    def chapter(self, epoch: int) -> Chapter:
        """A closed epoch; if it has not been read, it is from now on, when there is room."""
        if epoch in self._read:
            self._read.move_to_end(epoch)
            return self._read[epoch]
        self._wanted.add(epoch)
        closed = [e for e in self._readings if e != self.chapters.newest]
        if epoch not in self._readings and len(closed) < CHAPTERS_KEPT:
            self._readings[epoch] = Reading(epoch, self.chapters.lanes(epoch))
        raise UnreadError(*(self._readings[epoch].wanted() if epoch in self._readings else ()))

    def present(self) -> Reading:
        """What has been read of the epoch that is not over."""
        epoch = self.chapters.newest
        if not self.chapters.is_known(epoch):
            raise UnreadError
        if epoch not in self._readings:
            self._readings[epoch] = Reading(epoch, self.chapters.lanes(epoch))
        return self._readings[epoch]

    # For the explorer and the simulator.

    def copy(self) -> Library:
        """An independent twin."""
        twin = Library()
        twin.chapters, twin._read = self.chapters.copy(), self._read.copy()
        twin._readings = {epoch: reading.copy() for epoch, reading in self._readings.items()}
        return twin

    def state(self) -> Hashable:
        """Equal for twins that have read alike."""
        readings = tuple(reading.state() for _, reading in sorted(self._readings.items()))
        return (self.chapters.state(), tuple(self._read), readings)
