"""JetStream's own requests: one question, one answer, errors by their numbers."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import nats.errors

from unisono.ens.nats import NatsService
from unisono.model.errors import ConfigError, UnconfirmedError

NO_MESSAGE = 10037
STREAM_IN_USE = 10058
NO_STREAM = 10059
WRONG_LAST = (10071, 10164)  # the last sequence is another one
TOO_MUCH = (10167,)  # more is under way than the server keeps in memory

PATIENCE_S, PATIENCE_S_MAX = 0.25, 1.0  # after which a question is asked again
UNAVAILABLE = 10008  # for now: a leader is being elected

REMEDIES = {
    10023: "it is out of memory or disk; raise its limits, or truncate lanes",
    10039: "JetStream is off for this account; turn it on, or say store=local in the URL",
    10047: "it is out of disk; raise max_file_store at the server, or truncate lanes",
    10028: "it is out of memory; raise max_memory_store, or begin with durability=disk",
    10065: "another stream has these subjects; say another prefix= in the URL",
    10074: "durability=replicated and replicas= need a cluster with as many servers (unisono up --servers 3)",
    10005: "durability=replicated and replicas= need a cluster with as many servers, and all of them up",
    10077: "its store is full or broken; free its disk, or truncate lanes",
}


class Refusal(msgspec.Struct, frozen=True):
    """Why JetStream did not do what it was asked for."""

    err_code: int = 0
    description: str = "for no reason given"

    def __str__(self) -> str:
        remedy = REMEDIES.get(self.err_code)
        return f"{self.description} ({self.err_code}{f': {remedy}' if remedy else ''})"


class RefusedError(Exception):
    """JetStream has answered, with a refusal."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(str(refusal))
        self.code = refusal.err_code


class _Answer(msgspec.Struct):
    error: Refusal | None = None


class State(msgspec.Struct):
    """What a stream holds."""

    messages: int = 0
    first_seq: int = 0
    last_seq: int = 0


async def ask(service: NatsService, operation: str, **request: Any) -> dict[str, Any]:
    """JetStream's answer; raises RefusedError, or ConnectionError and UnconfirmedError when there is none.

    A cluster in which a leader is being elected does not answer at all, or asks for patience: so a question is asked
    again, and the first answer counts.
    """
    await service.wait_until_up()
    timeout_s, patience_s = service.options.store_timeout, PATIENCE_S
    deadline = asyncio.get_running_loop().time() + timeout_s
    asking: set[asyncio.Task[dict[str, Any]]] = set()
    try:
        while (left_s := deadline - asyncio.get_running_loop().time()) > 0:
            task = asyncio.create_task(_ask_once(service, operation, request, left_s))
            task.add_done_callback(_look_at)
            asking.add(task)
            done, asking = await asyncio.wait(
                asking, timeout=min(patience_s, left_s), return_when=asyncio.FIRST_COMPLETED
            )
            patience_s = min(2 * patience_s, PATIENCE_S_MAX)
            try:
                for answered in done:
                    return answered.result()
            except nats.errors.TimeoutError:
                break
            except RefusedError as error:
                if error.code != UNAVAILABLE:
                    raise
                await asyncio.sleep(min(patience_s, left_s))
    finally:
        for task in asking:
            task.cancel()
    raise UnconfirmedError(f"JetStream at {service.url} did not answer within {timeout_s:g} s")


def _look_at(task: asyncio.Task[dict[str, Any]]) -> None:
    """Another answer may have come first; then nobody asks what became of this one."""
    if not task.cancelled():
        task.exception()


async def _ask_once(
    service: NatsService, operation: str, request: dict[str, Any], timeout_s: float
) -> dict[str, Any]:
    try:
        message = await service.client.request(
            f"$JS.API.{operation}",
            msgspec.json.encode(request) if request else b"",
            timeout=max(timeout_s, 0.01),
        )
    except nats.errors.NoRespondersError:
        raise ConnectionError(
            f"nobody answers for JetStream at {service.url}; start the server with `nats-server -js`, "
            "wait until it is ready, or say store=local in the URL"
        ) from None
    except nats.errors.TimeoutError:
        raise
    except nats.errors.Error as error:
        raise ConnectionError(f"{service.url} does not answer: {error}") from error
    refusal = msgspec.json.decode(message.data, type=_Answer).error
    if refusal is not None:
        raise RefusedError(refusal)
    answer: dict[str, Any] = msgspec.json.decode(message.data)
    return answer


async def state_of(service: NatsService, stream: str) -> State | None:
    """What a stream holds, as its leader knows it; None if it is not there."""
    info = await _info(service, stream)
    return None if info is None else msgspec.convert(info["state"], State)


async def ensure_stream(
    service: NatsService, stream: str, subject: str, **config: Any
) -> tuple[dict[str, Any], bool]:
    """Make a stream unless it is there, and taken as it is if it has the subject; its settings, whether it was made."""
    info = await _info(service, stream)
    if info is None:
        try:
            made = await ask(service, f"STREAM.CREATE.{stream}", name=stream, subjects=[subject], **config)
            is_new = not msgspec.convert(
                made["state"], State
            ).last_seq  # else it was there, and not seen in time
            return made.get("config", {}), is_new
        except RefusedError as error:
            if error.code != STREAM_IN_USE:  # else somebody was quicker
                raise ConnectionError(f"{service.url} gives no stream '{stream}': {error}") from error
            info = await _info(service, stream) or {}
    subjects = info.get("config", {}).get("subjects") or []
    if subject not in subjects:
        raise ConfigError(
            f"the stream '{stream}' at {service.url} holds {', '.join(subjects) or 'nothing'}, not '{subject}'; "
            "say another prefix= or bucket= in the URL, or remove the stream"
        )
    return info.get("config", {}), False


async def _info(service: NatsService, stream: str) -> dict[str, Any] | None:
    try:
        return await ask(service, f"STREAM.INFO.{stream}")
    except RefusedError as error:
        if error.code == NO_STREAM:
            return None
        raise ConnectionError(f"{service.url} does not show the stream '{stream}': {error}") from error
