"""One question to the nodes: asked again, and of another node, until somebody answers."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from typing import Generic, TypeVar

from unisono.engines.effects import Effect, Send
from unisono.engines.inputs import Controlled, Input, Lost, Received, Tick
from unisono.engines.takeover.control import Control
from unisono.model.errors import UnconfirmedError
from unisono.model.frames import Message
from unisono.runtime.remote.client import Client

RETRY_S = 1.0
ERRAND_S = 10.0

A = TypeVar("A")


class Errand(Generic[A]):
    """An engine that sends one message and waits for an answer of one kind."""

    def __init__(self, message: Message, kind: type[A]) -> None:
        self.message = message
        self.kind = kind
        self.answer: asyncio.Future[A] = asyncio.get_running_loop().create_future()
        self.control: Control | None = None
        self.tries = 0
        self.retry_at: float | None = None

    def handle(self, input: Input, now: float) -> list[Effect]:
        """Take one input at time `now`."""
        match input:
            case Controlled(control):
                is_first, self.control = self.control is None, control
                return self._send(now) if is_first else []
            case Received(_, answer) if isinstance(answer, self.kind):
                if not self.answer.done():
                    self.answer.set_result(answer)
            case Lost() | Tick() if not self.answer.done():
                self.tries += 1
                return self._send(now)
        return []

    def _send(self, now: float) -> list[Effect]:
        self.retry_at = now + RETRY_S
        nodes = () if self.control is None else self.control.live
        return [Send(nodes[self.tries % len(nodes)], self.message)] if nodes else []

    def next_timer(self) -> float | None:
        """When to ask again."""
        return None if self.answer.done() else self.retry_at

    def check(self) -> None:
        """Nothing can be wrong with it."""

    def copy(self) -> Errand[A]:
        """Nobody explores it."""
        raise NotImplementedError

    def state(self) -> Hashable:
        """Nobody explores it."""
        raise NotImplementedError


async def ask(client: Client, message: Message, kind: type[A]) -> A:
    """The answer of any node; UnconfirmedError if none gives one in time."""
    errand = Errand(message, kind)
    host = client.host(client.address("ask"), errand, lambda effect: None)
    try:
        async with asyncio.timeout(ERRAND_S):
            return await errand.answer
    except TimeoutError:
        raise UnconfirmedError(
            f"no node has answered within {ERRAND_S:g} s; it may have been done, or not"
        ) from None
    finally:
        client.detach(host)
