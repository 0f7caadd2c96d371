"""Where epochs begin in lanes, so that nobody need read a lane from its start.

`Control.begins` says, for each lane that is written in an active epoch, the sequence of the record that begins the
epoch there, as the one who activated it saw it stored; no event of the epoch is stored before that. The first epoch
begins with the first record of its lanes. While the next epoch is being sealed, the record keeps these sequences:
whoever finishes reads from there on, and writes them into the record that begins the next one (`EpochRecord.before`).
So the history of a system is a list that can be followed backwards, from the control record on.

`Control.marks` are two such places for each lane that is still read. Nodes that adopt an epoch read from the older one
on; it moves to the newer one when enough is kept for repair behind that. What is before it, nobody needs to go on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Mark(NamedTuple):
    """Sequences of records of a lane that begin an epoch."""

    older: int
    newer: int


def move_marks(
    marks: Mapping[str, Mark], before: Mapping[str, int], written: Mapping[str, int], kept: int
) -> dict[str, Mark]:
    """The marks of the lanes in which an epoch is `written` down, given where the epoch `before` began.

    Behind the older one are all records of the epoch before, and at least so many as are to be kept.
    """
    moved: dict[str, Mark] = {}
    for lane, begin in written.items():
        needed = before.get(lane, begin if before else 1)
        mark = marks.get(lane, Mark(needed, needed))
        is_enough = mark.newer <= needed and begin - mark.newer >= kept
        moved[lane] = Mark(mark.newer, begin) if is_enough else mark
    return moved
