"""A store on JetStream: records in a key-value bucket, a stream for each lane.

A record `control` of the prefix `u.` is the subject `$KV.unisono.u.control`; its revision is its sequence in the
bucket's stream. The lane `orders.eu` is the stream `u_lane_orders_2Eeu` with the one subject `u-lane.orders.eu`: beside
the topics, not among them, because with `jetstream=` the stream of events has all of `u.>`.

Looking is a request to the stream's leader, never a direct read from a replica, which could be behind. Reading a lane
asks the leader how far it goes, and reads as far as that.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from base64 import b64decode
from typing import Any

from unisono.ens.nats import NatsService
from unisono.ens.nats_api import NO_MESSAGE, NO_STREAM, RefusedError, State, ask, ensure_stream, state_of
from unisono.ens.nats_appends import Appends, AtOnce, Letter, NobodyError, Tell
from unisono.ens.nats_lane import fetch
from unisono.ens.nats_watch import NatsWatch
from unisono.ens.store import Changed, check_bytes, check_key, check_limit, check_number
from unisono.model.durability import Durability, check_durability
from unisono.model.errors import ConfigError, ForgottenError, UnconfirmedError

READ_ATTEMPTS = 5
STALE_S, GONE_S = 0.5, 10.0  # how often, and for how long, servers that know less than we do are asked again
ELECTION_S = 12.0  # servers of a cluster take 4 to 9 seconds to notice that one of them is gone
ROUTES_S = 0.02  # servers of a cluster tell each other of a new stream
NEVER = str(2**62)  # a sequence that no lane has
REPLICAS = 3  # so that one may be lost
LEVEL = "unisono-durability"  # where a bucket says what is chosen for the lanes
STREAM_NAME_MAX = 200


class NatsStore:
    """Shares the connection of a NATS service."""

    def __init__(self, service: NatsService) -> None:
        self._service = service
        o = service.options
        self.durability: Durability = o.durability or "disk"  # as the bucket says, once it was opened
        self.bucket = f"KV_{o.bucket}"
        self._record_prefix = f"$KV.{o.bucket}.{o.prefix}"
        self._lane_prefix = f"{o.prefix.removesuffix('.')}-lane."
        self._appends = Appends(service, self._make_stream)
        self._streams: dict[str, str] = {}  # lane -> stream, as used before
        self._tails: dict[str, int] = {}  # lane -> the last sequence we have seen
        self._used: set[str] = set()  # streams that were there when we used them
        self._watches: set[NatsWatch] = set()

    @property
    def shared(self) -> bool:
        """At the server."""
        return True

    @property
    def is_private(self) -> bool:
        """At the server."""
        return False

    @property
    def fences(self) -> bool:
        """JetStream compares sequences only: many appends under way and a check of the epoch do not go together."""
        return False

    async def open(self) -> None:
        """Make the bucket if it is missing."""
        await self._service.wait_until_up()
        await self._appends.open()
        deadline = asyncio.get_running_loop().time() + ELECTION_S
        while True:
            try:
                await self.make_bucket()
                return
            except (NobodyError, UnconfirmedError):
                if not self._service.is_clustered or asyncio.get_running_loop().time() > deadline:
                    raise
                await asyncio.sleep(STALE_S)

    async def make_bucket(self) -> bool:
        """Make the bucket unless it is there; whether it was made."""
        o = self._service.options
        config, made = await ensure_stream(
            self._service,
            self.bucket,
            f"$KV.{o.bucket}.>",
            max_msgs_per_subject=1,
            discard="new",
            allow_rollup_hdrs=True,
            deny_delete=True,
            allow_direct=False,
            storage=_storage(self.durability),
            num_replicas=self._replicas(self.durability),
            metadata={LEVEL: self.durability},
        )
        self.durability = await self._level(config)
        if o.durability not in (None, self.durability):
            raise ConfigError(
                f"what is kept at {self._service.url} is kept with durability={self.durability}, not {o.durability}: "
                "say that, or nothing, or begin anew with another prefix= and bucket="
            )
        await self._known_to_our_server(self.bucket, f"{self._record_prefix}control")
        self._appends.known.add(self.bucket)
        return made

    # Records.

    def subject_of(self, key: str) -> str:
        """Where the changes of a record are published."""
        return self._record_prefix + check_key(key)

    async def look(self, key: str) -> tuple[int, bytes] | None:
        """A record with its revision, from the leader."""
        revision, value = await self._last(key)
        return None if value is None else (revision, value)

    async def decide(self, key: str, value: bytes, revision: int) -> int | None:
        """Change a record if this is its revision."""
        subject = self.subject_of(key)
        check_bytes(value, self._service.options.frame_max)
        expected = check_number("the revision", revision)
        while True:
            headers = {"Nats-Expected-Last-Subject-Sequence": str(expected)}
            try:
                new = await self._appends.now(self.bucket, subject, value, headers)
            except NobodyError:
                if await state_of(self._service, self.bucket) is None:
                    raise await self._forgotten_bucket() from None
                raise
            if new is not None or revision:
                return new
            marker, found = await self._last(key)
            if found is not None or marker <= expected:
                return None
            expected = marker  # deleted by other means, which leaves a marker

    async def _last(self, key: str) -> tuple[int, bytes | None]:
        """The last that is stored for a record; without a value if that is a deletion, or nothing."""
        try:
            answer = await ask(
                self._service, f"STREAM.MSG.GET.{self.bucket}", last_by_subj=self.subject_of(key)
            )
        except RefusedError as error:
            if error.code == NO_MESSAGE:
                return 0, None
            if error.code == NO_STREAM:
                raise await self._forgotten_bucket() from None
            raise ConnectionError(f"{self._service.url} does not show the record '{key}': {error}") from error
        message = answer["message"]
        if b"KV-Operation" in b64decode(message.get("hdrs", "")):
            return message["seq"], None
        return message["seq"], b64decode(message.get("data", ""))

    async def _forgotten_bucket(self) -> ForgottenError:
        await self.make_bucket()
        return ForgottenError(
            f"the bucket '{self._service.options.bucket}' was gone from {self._service.url}, with all records; it is made anew"
        )

    async def watch(self, key: str, notify: Changed) -> NatsWatch:
        """Tell the value there is, and each later one."""
        watch = NatsWatch(self._service, self.bucket, self.subject_of(key), notify, self.make_bucket)
        await watch.start()
        self._watches.add(watch)
        watch.on_close = self._watches.discard
        return watch

    async def keys(self, prefix: str = "") -> list[str]:
        """The names of all records that begin with these characters."""
        names: list[str] = []
        while True:
            try:
                answer = await ask(
                    self._service,
                    f"STREAM.INFO.{self.bucket}",
                    subjects_filter=f"{self._record_prefix}>",
                    offset=len(names),
                )
            except RefusedError as error:
                if error.code == NO_STREAM:
                    raise await self._forgotten_bucket() from None
                raise ConnectionError(f"{self._service.url} does not list its records: {error}") from error
            found = answer["state"].get("subjects") or {}
            names += [subject.removeprefix(self._record_prefix) for subject in found]
            if not found or len(names) >= answer.get("total", 0):
                return sorted(name for name in names if name.startswith(prefix))

    async def delete(self, key: str) -> None:
        """Forget a record."""
        subject = self.subject_of(key)
        try:
            await ask(self._service, f"STREAM.PURGE.{self.bucket}", filter=subject)
        except RefusedError as error:
            if error.code != NO_STREAM:
                raise ConnectionError(
                    f"{self._service.url} does not delete the record '{key}': {error}"
                ) from error

    # Lanes.

    def append(
        self, lane: str, record: bytes, expected: int | None = None, epoch: int = 0
    ) -> asyncio.Future[int | None]:
        """Put a record at the end of a lane, if it ends where it is expected to."""
        if expected is not None:
            check_number("the expected sequence", expected)
        stream = self._stream(lane)
        check_bytes(record, self._service.options.frame_max)
        return self._appends.put(stream, self._lane_prefix + lane, record, _expecting(expected))

    def append_then(self, lane: str, record: bytes, expected: int | None, epoch: int, tell: Tell) -> None:
        """The same for those who are known to ask for nothing impossible, and are told when they are heard of."""
        check_bytes(record, self._service.options.frame_max)
        stream, subject = self._stream(lane), self._lane_prefix + lane
        self._appends.post(Letter(stream, subject, record, _expecting(expected), AtOnce(tell)))

    async def read(
        self, lane: str, after: int = 0, limit: int | None = None
    ) -> tuple[list[tuple[int, bytes]], int]:
        """What is kept behind a sequence, and the last sequence, as the leader knows it."""
        stream = self._stream(lane)
        check_number("the sequence", after)
        check_limit(limit)
        for _ in range(READ_ATTEMPTS):
            state = await self._state(stream, lane)
            if state is None:
                raise self._forgotten(stream, lane)
            self._tails[lane] = state.last_seq
            first = max(after + 1, state.first_seq)
            last = state.last_seq if limit is None else min(first + limit - 1, state.last_seq)
            if not state.messages or first > last:
                return [], state.last_seq
            records = await fetch(self._service, stream, first, last)
            if records is not None:
                return records, state.last_seq
        raise UnconfirmedError(f"the lane '{lane}' of {self._service.url} could not be read to its end")

    async def truncate(self, lane: str, up_to: int) -> None:
        """Forget the records up to a sequence, at most up to the last one."""
        stream = self._stream(lane)
        check_number("the sequence", up_to)
        state = await state_of(self._service, stream) or State()
        up_to = min(up_to, state.last_seq)  # beyond, JetStream would skip sequences
        if not state.messages or up_to < state.first_seq:
            return
        try:
            await ask(self._service, f"STREAM.PURGE.{stream}", seq=up_to + 1)
        except RefusedError as error:
            if error.code != NO_STREAM:
                raise ConnectionError(
                    f"{self._service.url} does not truncate the lane '{lane}': {error}"
                ) from error

    async def lanes(self) -> list[str]:
        """The names of all lanes."""
        return sorted(await self._lane_settings())

    async def _lane_settings(self) -> dict[str, dict[str, Any]]:
        """How the stream of each lane is set up."""
        found: dict[str, dict[str, Any]] = {}
        offset = 0
        while True:
            try:
                answer = await ask(
                    self._service, "STREAM.LIST", offset=offset, subject=f"{self._lane_prefix}>"
                )
            except RefusedError as error:
                raise ConnectionError(f"{self._service.url} does not list its streams: {error}") from error
            streams = answer.get("streams") or []
            offset += len(streams)
            for stream in streams:
                subjects = stream["config"].get("subjects") or []
                if len(subjects) == 1 and subjects[0].startswith(self._lane_prefix):
                    found[subjects[0].removeprefix(self._lane_prefix)] = stream["config"]
            if not streams or offset >= answer.get("total", 0):
                return found

    async def drop(self, lane: str) -> None:
        """Forget a lane and its sequences."""
        stream = self._stream(lane)
        self._appends.known.discard(stream)
        self._forgotten(stream, lane)
        try:
            await ask(self._service, f"STREAM.DELETE.{stream}")
        except RefusedError as error:
            if error.code != NO_STREAM:
                raise ConnectionError(
                    f"{self._service.url} does not drop the lane '{lane}': {error}"
                ) from error

    def _stream(self, lane: str) -> str:
        stream = self._streams.get(lane) if isinstance(lane, str) else None
        if stream is None:
            stream = self._streams[lane] = stream_name(self._service.options.prefix, check_key(lane))
        return stream

    async def _state(self, stream: str, lane: str) -> State | None:
        """What a lane's stream holds; None if it holds less than it did when we looked last, or is not there any more.

        One of several servers may know less than we do, for a while: it was just deposed, or came back without its
        disk. So it is asked again.
        """
        deadline = asyncio.get_running_loop().time() + (GONE_S if self.durability == "replicated" else 0.0)
        while True:
            found = await state_of(self._service, stream)
            if found is None and stream not in self._used and not self._tails.get(lane):
                return State()
            if found is not None and found.last_seq >= self._tails.get(lane, 0):
                return found
            if asyncio.get_running_loop().time() >= deadline:
                return None
            await asyncio.sleep(STALE_S)

    async def _make_stream(self, stream: str, subject: str) -> None:
        """Make the stream of a lane unless it is there; ForgottenError if it ought to have been."""
        lane = subject.removeprefix(self._lane_prefix)
        several = self.durability == "replicated"
        if several and stream in self._used and await self._state(stream, lane) is not None:
            await self._known_to_our_server(stream, subject)
            return
        _, made = await ensure_stream(
            self._service,
            stream,
            subject,
            discard="new",
            deny_delete=True,
            allow_direct=False,
            storage=_storage(self.durability),
            num_replicas=self._replicas(self.durability),
        )
        if made and stream in self._used:
            raise self._forgotten(stream, lane)
        await self._known_to_our_server(stream, subject)
        self._used.add(stream)

    async def _known_to_our_server(self, stream: str, subject: str) -> None:
        """Return when the server we are connected to knows where a stream is; others may know that a little earlier.

        A message that expects what cannot be is refused by the stream, and stored nowhere.
        """
        deadline = asyncio.get_running_loop().time() + self._service.options.store_timeout
        while True:
            try:
                await self._appends.now(stream, subject, b"", {"Nats-Expected-Last-Sequence": NEVER})
                return
            except NobodyError:
                if asyncio.get_running_loop().time() > deadline:
                    raise
            await asyncio.sleep(ROUTES_S)

    async def _level(self, bucket: dict[str, Any]) -> Durability:
        """What the lanes beside a bucket survive; the release before did not write it down."""
        said = (bucket.get("metadata") or {}).get(LEVEL)
        if said is not None:
            return check_durability(said)
        lanes = (await self._lane_settings()).values()
        if any(lane.get("storage") == "memory" for lane in lanes):
            return "memory"
        return "replicated" if bucket.get("num_replicas", 1) >= REPLICAS else "disk"

    def _replicas(self, level: Durability) -> int:
        return max(REPLICAS, self._service.options.replicas) if level == "replicated" else 1

    def _forgotten(self, stream: str, lane: str) -> ForgottenError:
        self._tails.pop(lane, None)
        self._used.discard(stream)
        return ForgottenError(
            f"the lane '{lane}' of {self._service.url} is gone: it was dropped, or kept in memory and the server "
            "restarted; what follows begins anew"
        )

    async def close(self) -> None:
        """Let go."""
        for watch in tuple(self._watches):
            await watch.close()
        await self._appends.close()


def stream_name(prefix: str, lane: str) -> str:
    """What JetStream calls a lane; different for different lanes, and legible unless it is very long."""
    name = f"{_spell(prefix.removesuffix('.'))}_lane_{_spell(lane)}"
    if len(name) > STREAM_NAME_MAX:
        name = f"{name[:150]}_sha_{hashlib.sha256(name.encode()).hexdigest()[:40]}"
    return name


def _storage(level: Durability) -> str:
    """Records and lanes are kept alike, and so lost together."""
    return "memory" if level == "memory" else "file"


def _spell(text: str) -> str:
    """Letters, digits and dashes as they are, every other byte as `_` and two digits."""
    return re.sub("[^A-Za-z0-9-]", lambda found: "".join(f"_{byte:02X}" for byte in found[0].encode()), text)


def _expecting(sequence: int | None) -> dict[str, str] | None:
    """The headers of a message that is to be stored behind another one."""
    return None if sequence is None else {"Nats-Expected-Last-Sequence": str(sequence)}
