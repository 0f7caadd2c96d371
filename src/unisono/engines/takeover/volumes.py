"""Where epochs begin in lanes, so that nobody need read a lane from its start; and how much of the past is kept.

`Control.begins` says, for each lane that is written in an active epoch, the sequence of the record that begins the
epoch there, as the one who activated it saw it stored; no event of the epoch is stored before that. The first epoch
begins with the first record of its lanes. While the next epoch is being sealed, the record keeps these sequences:
whoever finishes reads from there on, and writes them into the record that begins the next one (`EpochRecord.before`).
So the history of a system is a list that can be followed backwards, from the control record on.

`Control.marks` are two such places for each lane that is still read. Nodes that adopt an epoch read from the older one
on; it moves to the newer one when enough is kept for repair behind that. What is before it, nobody needs to go on.

`Control.volumes` are runs of epochs that are kept for those who ask for the past, where a system is retained. They go
as a whole, oldest first, in all lanes: what can be read begins with the first epoch of the first volume, in every
lane. There are few of them, however many epochs there are.

How much there is of the past is counted in events: one for each record, and what bundles hold beyond that (`extra`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

VOLUMES = 16  # how finely the past is let go: a volume has this part of what is to be retained


class Mark(NamedTuple):
    """Sequences of records of a lane that begin an epoch."""

    older: int
    newer: int
    last: int
    extra: int = 0  # events behind the newer one, beyond one in each record

    @property
    def is_at_end(self) -> bool:
        """Whether nothing but the end of the lane is read, because it has not been written for long."""
        return self.older == self.last

    def at_end(self) -> Mark:
        """The mark of a lane that need not be read to go on, unless somebody writes it again."""
        return Mark(self.last, self.last, self.last)


class Volume(NamedTuple):
    """A run of epochs."""

    epoch: int  # the first
    began_at: float  # by the clock of whoever decided on it; 0.0: nobody knows
    begins: Mapping[str, int]  # lane -> where the first epoch begins that is written in it
    records: int = 0  # in all lanes, as far as its epochs are over; each event of a bundle counts


class Retention(NamedTuple):
    """How much of the past is kept at least."""

    records: int = 0  # in all lanes together; 0: whatever there is
    seconds: float = 0.0  # 0.0: however old it is


EVERYTHING = Retention()


def move_marks(
    marks: Mapping[str, Mark],
    before: Mapping[str, int],
    written: Mapping[str, int],
    kept: int,
    extra: Mapping[str, int] | None = None,
) -> dict[str, Mark]:
    """The marks of the lanes in which an epoch is `written` down, given where the epoch `before` began.

    Behind the older one are all records of the epoch before, and at least so many as are to be kept; the lanes held
    so many `extra` events in that epoch.
    """
    moved: dict[str, Mark] = {}
    for lane, begin in written.items():
        needed = before.get(lane, begin if before else 1)
        mark = marks.get(lane, Mark(needed, needed, needed))
        more = mark.extra + (extra or {}).get(lane, 0)
        is_enough = mark.newer <= needed and begin - mark.newer + more >= kept
        moved[lane] = Mark(mark.newer, begin, begin) if is_enough else mark._replace(last=begin, extra=more)
    return moved


def turn_volume(
    volumes: Sequence[Volume], begun: Volume, ended: int, retain: Retention
) -> tuple[Volume, ...]:
    """The volumes when an epoch has `begun`, and so many records were written in the one that `ended`."""
    *kept, last = volumes
    last = last._replace(records=last.records + ended)
    if not retain.records:
        return (*kept, last._replace(begins=dict(begun.begins) | dict(last.begins)))
    age_s = begun.began_at - last.began_at
    if last.records >= retain.records / VOLUMES or 0 < retain.seconds / VOLUMES <= age_s:
        kept += [last, begun]
    else:
        kept.append(last._replace(begins=dict(begun.begins) | dict(last.begins)))
    while len(kept) > 1 and _is_enough(kept[1:], begun.began_at, retain):
        del kept[0]
    return tuple(kept)


def _is_enough(volumes: Sequence[Volume], now: float, retain: Retention) -> bool:
    """Whether what is before these volumes may go: there are enough records in them, or it is too old."""
    if sum(volume.records for volume in volumes) >= retain.records:
        return True
    return retain.seconds > 0 and 0 < volumes[0].began_at <= now - retain.seconds
