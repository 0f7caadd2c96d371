"""What a sink remembers of each partition of a query, and what the log says about the rest.

A mark is a record in the nodes' store: the batch that is being written, in which epoch that began, and whether it is
done. Who finds its batch done writes nothing. Who finds it begun looks into the lanes, from that epoch on, for what was
stored of it: the log is a memory without a bound, where nodes remember ids for a while.
"""

from __future__ import annotations

import hashlib

import msgspec

from unisono.model.errors import FrameError, GapError, UnconfirmedError
from unisono.model.frames import Stamped
from unisono.pipeline.stream.link import Link
from unisono.pipeline.stream.log import GoneError, Log

TRIES_MAX = 16  # somebody else may write the same mark: another attempt at the same work


class Mark(msgspec.Struct, frozen=True, array_like=True):
    """How far a partition of a query is."""

    batch: int
    world: int
    epoch: int  # that went on when the batch was begun
    is_done: bool = False


_decoder: msgspec.msgpack.Decoder[Mark] = msgspec.msgpack.Decoder(Mark)


def brief(query: str) -> str:
    """A query in twelve letters, for ids and the names of records."""
    return hashlib.sha256(query.encode()).hexdigest()[:12]


def key_of(query: str, partition: int) -> str:
    """The record of a partition."""
    return f"spark.{brief(query)}.{partition}"


async def look(link: Link, key: str) -> tuple[int, Mark | None]:
    """A mark and its revision."""
    found = await link.patiently(lambda: link.store.look(key))
    if found is None:
        return 0, None
    try:
        return found[0], _decoder.decode(found[1])
    except msgspec.MsgspecError as error:
        raise FrameError(f"the record '{key}' is no mark of a sink: {error}") from None


async def put(link: Link, key: str, mark: Mark) -> None:
    """Write a mark, unless it says more already."""
    for _ in range(TRIES_MAX):
        revision, known = await look(link, key)
        if known is not None and (known.batch, known.is_done) >= (mark.batch, mark.is_done):
            return
        data = msgspec.msgpack.encode(mark)
        if await link.patiently(lambda r=revision, d=data: link.store.decide(key, d, r)) is not None:  # type: ignore[misc]
            return
    raise UnconfirmedError(
        f"the record '{key}' changes all the time: does another query write with the same queryId=?"
    )


async def stored_ids(link: Link, mark: Mark, prefix: str, *, needed: bool) -> set[tuple[str, str]]:
    """Topic and id of everything that was stored since a batch was begun, of ids that begin like this.

    If the log does not reach back that far: GapError where that is `needed`, else what it has.
    """
    log = Log(link, (">",))
    await log.open()
    epoch = mark.epoch if mark.world == log.world else -1
    found: set[tuple[str, str]] = set()
    while epoch <= log.newest:
        try:
            units = await log.units(epoch)
        except GoneError:
            if needed:
                raise GapError(
                    f"batch {mark.batch} was begun and not finished, and the log does not reach back to epoch {mark.epoch}, when "
                    "that was: nobody can tell what of it was published; failOnDataLoss=false publishes it again"
                ) from None
            epoch = (await log.earliest()).epoch
            continue
        for unit in units:
            if isinstance(unit, Stamped):
                keyed = [(unit.topic, unit.publication.key)]
            else:
                keyed = [(part.topic, key) for part in unit.parts for _, key in part.keys]
            found.update((topic, key) for topic, key in keyed if key is not None and key.startswith(prefix))
        epoch += 1
    return found
