"""What outlives nodes, and what nodes have asked of it: lanes, the control record, and requests on their way.

Requests of one node to one lane arrive in order; a read sees the lane as it is when it is answered, or, once in
a while, as it was long before.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple, TypeAlias

import msgspec

from unisono.engines.effects import Append, Read
from unisono.engines.inputs import ReadBack
from unisono.engines.takeover.control import Control
from unisono.engines.takeover.recovery import valid_records
from unisono.model.frames import Stamped
from unisono.model.lanes import LaneRecord, events_of
from unisono.sim.moving.storage import read_back

_ENCODER = msgspec.msgpack.Encoder(order="deterministic")

_NEVER = 1 << 60  # an epoch that never comes

Stored: TypeAlias = tuple[bytes, LaneRecord]
"""A record, and the bytes by which it is compared."""


class Asked(NamedTuple):
    """A read on its way; `tail` is where the lane ended when it was looked at, None if that is still to come."""

    lane: str
    after: int = 0
    limit: int | None = None
    tail: int | None = None


class Late(NamedTuple):
    """A record that was accepted and is not stored yet; whether its writer will be told where it is."""

    node: str
    lane: str
    text: bytes
    record: LaneRecord
    answers: bool


class Storage:
    """Lanes, control records, and requests; copied on write."""

    __slots__ = ("appends", "controls", "cut", "cuts", "decides", "lanes", "late", "reads")

    def __init__(self, control: Control) -> None:
        self.lanes: dict[
            str, tuple[Stored, ...]
        ] = {}  # also what is truncated: the judge wants to see it all
        self.cut: dict[str, int] = {}  # lane -> records up to here are truncated
        self.cuts: tuple[tuple[str, int], ...] = ()  # truncations on their way
        self.late: tuple[Late, ...] = ()
        self.controls: tuple[tuple[str, Control], ...] = ((repr(control), control),)
        self.appends: dict[tuple[str, str], tuple[tuple[bytes, Append], ...]] = {}
        self.reads: dict[str, tuple[Asked, ...]] = {}
        self.decides: dict[str, tuple[tuple[str, Control], ...]] = {}

    @property
    def control(self) -> Control:
        """The control record as it is now."""
        return self.controls[-1][1]

    def copy(self) -> Storage:
        """An independent twin."""
        twin = object.__new__(Storage)
        twin.lanes, twin.appends, twin.cut = dict(self.lanes), dict(self.appends), dict(self.cut)
        twin.reads, twin.decides, twin.controls = dict(self.reads), dict(self.decides), self.controls
        twin.late, twin.cuts = self.late, self.cuts
        return twin

    def key(self) -> Hashable:
        """Everything by its bytes."""
        return (
            tuple((lane, tuple(b for b, _ in records)) for lane, records in sorted(self.lanes.items())),
            tuple(text for text, _ in self.controls),
            (tuple(sorted(self.cut.items())), tuple(sorted(self.cuts))),
            tuple(sorted((late.node, late.lane, late.text, late.answers) for late in self.late)),
            tuple((k, tuple((b, a.expected) for b, a in q)) for k, q in sorted(self.appends.items()) if q),
            tuple((node, asked) for node, asked in sorted(self.reads.items()) if asked),
            tuple(
                (node, tuple(t for t, _ in asked)) for node, asked in sorted(self.decides.items()) if asked
            ),
        )

    def events(self) -> list[Stamped]:
        """The events that are stored and count, lane by lane."""
        return [
            event
            for _, records in sorted(self.lanes.items())
            for record in valid_records((r for _, r in records), _NEVER)
            for event in events_of(record)
        ]

    # Requests.

    def ask_append(self, node: str, append: Append) -> None:
        """A node wants a record stored."""
        queue = self.appends.get((node, append.lane), ())
        self.appends[node, append.lane] = (*queue, (_bytes(append.record), append))

    def ask_read(self, node: str, read: Read) -> None:
        """A node wants to read a lane."""
        self.reads[node] = (*self.reads.get(node, ()), Asked(read.lane, read.after, read.limit))

    def ask_decide(self, node: str, control: Control) -> None:
        """A node wants to put another control record in the place of the present one."""
        self.decides[node] = (*self.decides.get(node, ()), (repr(control), control))

    def forget(self, node: str) -> None:
        """Nothing that a node asked for arrives any more."""
        self.appends = {key: queue for key, queue in self.appends.items() if key[0] != node}
        self.reads.pop(node, None)
        self.decides.pop(node, None)

    # What becomes of them.

    def append(self, node: str, lane: str, *, lost: bool = False) -> tuple[LaneRecord, int | None]:
        """The oldest append of a node to a lane is stored at a sequence, or refused."""
        (text, append), *rest = self.appends[node, lane]
        self.appends[node, lane] = tuple(rest)
        records = self.lanes.get(lane, ())
        if lost or append.expected not in (None, len(records)):
            return append.record, None
        self.lanes[lane] = (*records, (text, append.record))
        return append.record, len(records) + 1

    def accepts(self, node: str, lane: str) -> bool:
        """Whether the oldest append of a node to a lane would be stored now."""
        return self.appends[node, lane][0][1].expected in (None, len(self.lanes.get(lane, ())))

    def delay(self, node: str, lane: str, *, answers: bool) -> None:
        """The oldest append of a node to a lane is accepted, and stored later; or, without an answer, once more."""
        (text, append), *rest = self.appends[node, lane]
        self.late = (*self.late, Late(node, lane, text, append.record, answers))
        if answers:
            self.appends[node, lane] = tuple(rest)

    def store_late(self, i: int) -> tuple[Late, int]:
        """What was accepted long ago is stored where the lane ends now."""
        late = self.late[i]
        self.late = self.late[:i] + self.late[i + 1 :]
        self.lanes[late.lane] = (*self.lanes.get(late.lane, ()), (late.text, late.record))
        return late, len(self.lanes[late.lane])

    def look_at(self, node: str) -> None:
        """The oldest read of a node that has not seen its lane yet sees it now; the answer takes its time."""
        asked = list(self.reads[node])
        i = next(i for i, read in enumerate(asked) if read.tail is None)
        asked[i] = asked[i]._replace(tail=len(self.lanes.get(asked[i].lane, ())))
        self.reads[node] = tuple(asked)

    def read(self, node: str, i: int) -> ReadBack:
        """A read of a node is answered."""
        asked = self.reads[node]
        self.reads[node] = asked[:i] + asked[i + 1 :]
        lane, after, limit, tail = asked[i]
        records = [record for _, record in self.lanes.get(lane, ())[:tail]]
        return read_back(lane, records, self.cut.get(lane, 0), after, limit)

    def truncate(self, lane: str, up_to: int, *, late: bool = False) -> None:
        """Forget the records of a lane up to a sequence, at once or later: nobody waits for it."""
        if late:
            self.cuts = (*self.cuts, (lane, up_to))
        else:
            self.cut[lane] = max(self.cut.get(lane, 0), up_to)

    def cut_late(self, i: int) -> None:
        """A truncation that was asked for is carried out."""
        lane, up_to = self.cuts[i]
        self.cuts = self.cuts[:i] + self.cuts[i + 1 :]
        self.truncate(lane, up_to)

    def decide(self, node: str) -> None:
        """The oldest decision of a node takes the place of the control record, if it follows on it."""
        (text, control), *rest = self.decides[node]
        self.decides[node] = tuple(rest)
        if control.version == self.control.version + 1:
            self.controls = (*self.controls, (text, control))


def _bytes(record: LaneRecord) -> bytes:
    return _ENCODER.encode(record)
