"""Carries out what a node asks of the store that all nodes share, and hands back the answers."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from typing import Any, TypeAlias, TypeVar

import msgspec

from unisono.engines.effects import Append, Decide, Effect, Look, Read, Truncate
from unisono.engines.inputs import Appended, Controlled, Input, ReadBack
from unisono.engines.takeover.control import Control
from unisono.engines.takeover.wire import decode_control, encode_control
from unisono.ens.ending import end
from unisono.ens.store import Store, Watch
from unisono.model.codec import decode_record, encode_record
from unisono.model.errors import (
    ForgottenError,
    FrameError,
    PayloadError,
    UnconfirmedError,
    UnisonoError,
    VersionError,
)
from unisono.model.lanes import EpochRecord, LaneRecord, SealRecord
from unisono.runtime.remote.chest import MARK, Chest
from unisono.runtime.remote.recent import Recent, ending

KEY = "control"
WORLD = "world"
LIVES = "life"  # by node: when its last life began
EVERYTHING = 2**53 - 1  # behind every record
SILENT_S = 1.0  # without an answer, whoever waits should know
AGAIN_S = 0.1  # after a read that failed, if it is still wanted
OPEN_S, OPEN_AGAIN_S = 12.0, 0.5  # a cluster may be electing a leader when we start
HAS_ATTEMPTS = 6
YIELD_EVERY = 256  # records
LOOKS_MAX = 16  # a record may be replaced while its parts are read, but not that often
TROUBLES = (ConnectionError, UnisonoError, TimeoutError)  # whoever asked asks again
ENDS = (ForgottenError, VersionError, PayloadError)  # whoever asks again hears the same: others are to go on
NOTHING = SealRecord(0)  # it ends no epoch: what a reader makes of a record that is none

AppendNow: TypeAlias = Callable[[str, bytes, int | None, int], int | None]
AppendThen: TypeAlias = Callable[
    [str, bytes, int | None, int, Callable[[int | None, Exception | None], None]], None
]

T = TypeVar("T")

log = logging.getLogger("unisono")


class Keeper:
    """One node's way to the store."""

    def __init__(
        self,
        store: Store,
        answer: Callable[[Input], None],
        frame_bytes_max: int,
        soon: Callable[[Callable[[], None]], object],
    ) -> None:
        self.control: Control | None = None  # the newest that was seen
        self.world = 0  # what everything in the store is of: one that was lost and made anew is another
        self.troubles = 0
        self._why = ""  # the last append was not stored; "" if it was
        self._under_way = 0  # appends without an answer
        self._heard_at = 0.0  # of any of them, or when the first was asked for
        self.on_end: Callable[[UnisonoError], None] = lambda error: None  # nothing can go on
        self._store = store
        self._append_now: AppendNow | None = getattr(store, "append_now", None)  # where nobody has to wait
        self._append_then: AppendThen | None = getattr(
            store, "append_then", None
        )  # where somebody tells at once
        self._chest = Chest(store, frame_bytes_max)
        self._swept = 0  # the epoch after which large things were swept up
        self._answer = answer
        self._soon = soon
        self._appends: list[Append] = []  # that are carried out soon
        self._watch: Watch | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._reading: dict[Read, bool] = {}  # under way -> whether it was asked for again since
        self._recent = Recent()

    async def open(self, first: Control) -> Control:
        """Find the control record, or be the first to write one."""
        return await self._patiently(lambda: self._open(first))

    async def _patiently(self, ask: Callable[[], Awaitable[T]]) -> T:
        """The answer of a broker that may be busy with itself when we start."""
        deadline = asyncio.get_running_loop().time() + OPEN_S
        while True:
            try:
                return await ask()
            except (ConnectionError, UnconfirmedError) as error:
                if asyncio.get_running_loop().time() > deadline:
                    raise
                log.info("the store is not ready yet: %s", error)
            await asyncio.sleep(OPEN_AGAIN_S)

    async def _open(self, first: Control) -> Control:
        if await self._store.look(WORLD) is None:
            await self._store.decide(WORLD, secrets.token_bytes(6), 0)
        if await self._store.look(KEY) is None:
            await self._store.decide(KEY, encode_control(first), 0)
        self.world = int.from_bytes((await self._store.look(WORLD) or (0, b""))[1])
        self.control = await self.look()
        await self.check(self.control)
        return self.control

    async def new_life(self, node: str, wish: int) -> int:
        """A life of a node that is later than all it has had, whatever clocks say."""
        key = f"{LIVES}.{node}"
        while True:
            revision, last = await self._store.look(key) or (0, b"")
            life = max(wish, int.from_bytes(last) + 1)
            if await self._store.decide(key, life.to_bytes(8), revision) is not None:
                return life

    async def check(self, control: Control) -> None:
        """ForgottenError if a lane is gone in which the control record's epoch was written down."""
        active = control.state == "active"
        if control.epoch > (0 if active else 1):
            for lane in control.lanes if active else control.sealed:
                if not await self._has(lane):
                    raise ForgottenError(
                        f"the broker has lost the lane '{lane}' of epoch {control.epoch}, but not the control record; "
                        "to begin anew, empty its store, or say another prefix= and bucket="
                    )

    async def _has(self, lane: str) -> bool:
        """Whether a lane ever had a record; one of several servers may not know of it yet."""
        for _ in range(HAS_ATTEMPTS):
            if (await self._store.read(lane, EVERYTHING))[1]:
                return True
            await asyncio.sleep(OPEN_AGAIN_S)
        return False

    def check_again(self) -> None:
        """The broker was away: look whether it still has what it had."""
        if self.control is not None:
            self._begin(self.check(self.control))

    async def watch(self) -> None:
        """Tell of every change from now on, and of the record as it is now."""
        self._watch = await self._patiently(lambda: self._store.watch(KEY, self._changed))
        await self._patiently(self._look)

    async def look(self) -> Control:
        """The control record as it is now."""
        for _ in range(LOOKS_MAX):
            found = await self._store.look(KEY)
            if found is None:
                raise ForgottenError("the broker has lost the control record")
            if whole := await self._chest.take(found[1]):
                return decode_control(whole)  # else it is so old that it has been replaced
        raise ForgottenError("the broker has lost a part of the control record")

    async def close(self) -> None:
        """Ask nothing any more."""
        await end(*self._tasks)
        if self._watch is not None:
            await self._watch.close()
        await self._store.close()

    def carry_out(self, effect: Effect) -> bool:
        """Do what an effect asks of the store; False if it asks nothing of it."""
        match effect:
            case Append():
                self.append(effect)
            case Read():
                self._want(effect)
            case Decide(control):
                self._begin(self._decide(control))
            case Look():
                self._begin(self._look())
            case Truncate(lane, up_to):
                self._begin(self._store.truncate(lane, up_to))
            case _:
                return False
        return True

    @property
    def trouble(self) -> str:
        """Why nothing can be stored now; "" if nothing is known of it."""
        silent_s = asyncio.get_running_loop().time() - self._heard_at if self._under_way else 0.0
        if self._why or silent_s < SILENT_S:
            return self._why
        return f"the broker has confirmed no record for {silent_s:.1f} s; see whether it is well, and its disk not full"

    # Lanes.

    def append(self, append: Append) -> None:
        """Put a record at the end of a lane; what became of it is told later, or at once."""
        if self._append_now is not None:
            self._appends.append(append)  # what is told before it is stored does not wait for it
            if len(self._appends) == 1:
                self._soon(self._append_all)
            return
        self._write(append)

    def _append_all(self) -> None:
        """Store everything at once, where nobody has to wait for it."""
        appends, self._appends = self._appends, []
        for append in appends:
            self._write(append)

    def _write(self, append: Append) -> None:
        lane, record, expected = append.lane, append.record, append.expected
        try:
            data = encode_record(record)
            if type(record) is EpochRecord and not self._chest.holds(data):
                self._begin(self._append_large(lane, record, data, expected))
            elif self._append_now is None:
                self._put(lane, record, data, expected, len(data))
            else:
                self._tell(lane, record, self._append_now(lane, data, expected, record.epoch), len(data))
        except TROUBLES as error:
            self._trouble(error)

    async def _append_large(self, lane: str, record: EpochRecord, data: bytes, expected: int | None) -> None:
        brief = encode_record(msgspec.structs.replace(record, registrations=(), seen=(), keys={}))
        if len(brief) > self._chest.limit // 2:
            brief = encode_record(SealRecord(record.epoch, record.before))
        self._put(lane, record, await self._chest.put(record.epoch, data, brief), expected, len(data))

    def _put(self, lane: str, record: LaneRecord, data: bytes, expected: int | None, size: int) -> None:
        self._under_way += 1
        if self._under_way == 1:
            self._heard_at = asyncio.get_running_loop().time()
        told = partial(self._appended, lane, record, size)
        try:
            if self._append_then is not None:
                self._append_then(lane, data, expected, record.epoch, told)
            else:
                stored = self._store.append(lane, data, expected, record.epoch)
                stored.add_done_callback(lambda done: _tell(told, done))
        except TROUBLES as error:
            self._under_way -= 1
            self._trouble(error)

    def _appended(
        self, lane: str, record: LaneRecord, size: int, sequence: int | None, error: BaseException | None
    ) -> None:
        self._under_way -= 1
        self._heard_at = asyncio.get_running_loop().time()
        self._why = "" if error is None else str(error)
        if error is None:
            self._tell(lane, record, sequence, size)
        else:
            self._trouble(error)  # stored or not: the writer will look for itself

    def _tell(self, lane: str, record: LaneRecord, sequence: int | None, size: int) -> None:
        """A record is stored, or refused."""
        if sequence is not None:
            self._recent.add(lane, sequence, record, size)
        self._answer(Appended(lane, record, sequence))

    def _want(self, read: Read) -> None:
        """Read a lane, once at a time: whoever waits for it asks again, and a long lane takes longer than that."""
        if read in self._reading:
            self._reading[read] = True
        else:
            self._reading[read] = False
            self._begin(self._read_while_wanted(read))

    async def _read_while_wanted(self, read: Read) -> None:
        try:
            wanted = True
            while wanted:
                self._reading[read] = False
                try:
                    await self._read(read)
                except TROUBLES as error:
                    self._trouble(error)
                    await asyncio.sleep(AGAIN_S)
                wanted = self._reading[read]  # what was read may be older than the last question
        finally:
            del self._reading[read]

    async def _read(self, read: Read) -> None:
        """Read what is not known yet, and once more the end of what is: a store may have lost what it had."""
        lane, after = read.lane, read.after
        known = self._recent.behind(lane, after) if read.limit is None else []
        again = ending(known)
        start = after + len(known) - len(again)
        kept, end = await self._store.read(lane, start, read.limit)
        records = await self._decode(lane, kept)
        if known:
            if not kept or kept[0][0] != start + 1 or records[: len(again)] != again:
                self._recent.forget(lane)
                await self._read(read)
                return
            records[: len(again)] = known
        tail = kept[-1][0] if kept else end
        self._answer(ReadBack(lane, tuple(records), tail, after, end - tail))

    async def _decode(self, lane: str, kept: Sequence[tuple[int, bytes]]) -> list[LaneRecord]:
        """The records of a lane, each with its sequence."""
        records: list[LaneRecord] = []
        for sequence, data in kept:
            try:
                records.append(decode_record(await self._chest.take(data)))
            except VersionError as error:  # events that were acknowledged, maybe: their numbers are taken
                raise VersionError(f"lane '{lane}' at {sequence}: {error}") from None
            except FrameError as error:
                log.error("lane '%s' holds something foreign at %d: %s", lane, sequence, error)
                records.append(NOTHING)
            if len(records) % YIELD_EVERY == 0:
                await asyncio.sleep(0)  # a long lane must not silence our beats
        return records

    # The control record.

    async def _decide(self, control: Control) -> None:
        found = await self._store.look(KEY)
        whole = b"" if found is None else await self._chest.take(found[1])
        if found is not None and whole and decode_control(whole).version == control.version - 1:
            data = encode_control(control)
            if not self._chest.holds(data):
                data = await self._chest.put(control.epoch, data)
            await self._store.decide(KEY, data, found[0])
        await self._look()

    async def _look(self) -> None:
        self._learn(await self.look())

    def _changed(self, revision: int, value: bytes) -> None:
        if value.startswith(MARK):
            self._begin(self._look())
            return
        try:
            self._learn(decode_control(value))
        except VersionError as error:
            self._trouble(error)
        except FrameError as error:
            log.error("the control record at revision %d is not one: %s", revision, error)

    def _learn(self, control: Control) -> None:
        if self.control is None or control.version > self.control.version:
            self.control = control
            if control.state == "active":
                self._recent.keep(control.read_lanes, control.reads_after)
            if control.state == "active" and control.epoch > self._swept:
                self._swept = control.epoch
                self._begin(self._chest.sweep(control.epoch))
        self._answer(Controlled(control))

    # Troubles.

    def _begin(self, request: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(request)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._trouble(error)

    def _trouble(self, error: BaseException) -> None:
        self.troubles += 1
        if isinstance(error, ENDS):
            self.on_end(error)
        if isinstance(error, TROUBLES):
            log.warning("the store: %s", error)
        else:
            log.error("the store: %r", error, exc_info=error)


def _tell(told: Callable[[int | None, BaseException | None], None], done: asyncio.Future[int | None]) -> None:
    if not done.cancelled():
        error = done.exception()
        told(None if error is not None else done.result(), error)
