"""What is too large for one frame: in the store it is cut in parts, and a note of where they are stands in its place.

The beginning of an epoch names every topic, every subscriber, and what publishers may ask for again; a control record
names much of that. Parts are records of their own, called by what is in them, so that writing them twice does no harm.
They are swept up when two later epochs have begun: then nobody needs the whole any more, and the note says enough.
"""

from __future__ import annotations

import hashlib
import zlib
from contextlib import suppress

import msgspec

from unisono.ens.store import Store
from unisono.model.codec import RECORD_BYTES_MAX
from unisono.model.errors import FrameError

MARK = b"\x00"  # no version begins like this
ROOM = 4096  # of a frame, for what a broker adds
PARTS = "part."
EPOCHS_KEPT = 2
RECALLED_MAX = 2


class Note(msgspec.Struct, frozen=True, array_like=True):
    """Where the parts of something are."""

    epoch: int
    digest: str
    parts: int
    brief: bytes = b""  # what is left to say when they are gone


_notes: msgspec.msgpack.Decoder[Note] = msgspec.msgpack.Decoder(Note)


class Chest:
    """Large things of one store."""

    def __init__(self, store: Store, frame_bytes_max: int) -> None:
        self.limit = frame_bytes_max - ROOM
        self._store = store
        self._is_used = False  # as far as we know
        self._recalled: dict[str, bytes] = {}  # what was put or taken last

    def holds(self, data: bytes) -> bool:
        """Whether something fits into a frame as it is."""
        return len(data) <= self.limit

    async def put(self, epoch: int, data: bytes, brief: bytes = b"") -> bytes:
        """Store something that does not fit; returns what to write in its place."""
        packed = zlib.compress(data, 1)
        digest = hashlib.sha256(packed).hexdigest()[:32]
        parts = [packed[i : i + self.limit] for i in range(0, len(packed), self.limit)]
        for i, part in enumerate(parts):
            await self._store.decide(_key(epoch, digest, i), part, 0)  # refused: it is there
        self._recall(digest, data)
        return MARK + msgspec.msgpack.encode(Note(epoch, digest, len(parts), brief))

    async def take(self, data: bytes) -> bytes:
        """The whole of what was written, or the little that is left to say; FrameError if that is nothing."""
        if not data.startswith(MARK):
            return data
        try:
            note = _notes.decode(data[1:])
        except msgspec.MsgspecError as error:
            raise FrameError(f"not a note of something large: {error}") from None
        if note.digest not in self._recalled:
            whole = await self._collect(note)
            if whole is None:
                return note.brief
            self._recall(note.digest, whole)
        return self._recalled[note.digest]

    async def _collect(self, note: Note) -> bytes | None:
        parts = []
        for i in range(note.parts):
            found = await self._store.look(_key(note.epoch, note.digest, i))
            if found is None:
                return None
            parts.append(found[1])
        try:
            unpacked = zlib.decompressobj()
            whole = unpacked.decompress(b"".join(parts), RECORD_BYTES_MAX)
        except zlib.error as error:
            raise FrameError(f"something large is broken: {error}") from None
        if unpacked.unconsumed_tail:
            raise FrameError(f"something large is over the limit of {RECORD_BYTES_MAX} bytes")
        return whole

    async def sweep(self, epoch: int) -> None:
        """Forget the parts of what nobody needs now that this epoch has begun."""
        for key in await self._store.keys(PARTS) if self._is_used else ():
            with suppress(ValueError):
                if int(key.split(".")[1]) < epoch - EPOCHS_KEPT:
                    await self._store.delete(key)

    def _recall(self, digest: str, data: bytes) -> None:
        self._is_used = True
        self._recalled[digest] = data
        while len(self._recalled) > RECALLED_MAX:
            del self._recalled[next(iter(self._recalled))]


def _key(epoch: int, digest: str, part: int) -> str:
    return f"{PARTS}{epoch}.{digest}.{part}"
