"""Making views: asks the nodes until one counts."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING

from unisono.engines.effects import Confirm, Effect, Fail
from unisono.engines.takeover.views import ViewAsker, view_of
from unisono.model.errors import UnconfirmedError

if TYPE_CHECKING:
    from unisono.runtime.remote.client import Client

VIEW_S = 20.0  # an epoch begins within so long


def view_of_place(name: str) -> str:
    """What the view of a durable subscriber is called."""
    return f"place.{name}"


async def make_view(client: Client, name: str, asked: Iterable[str]) -> None:
    """Make the common order of these topics permanent; raises QuotaError if that cannot be."""
    answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def carry_out(effect: Effect) -> None:
        match effect:
            case Confirm() if not answer.done():
                answer.set_result(None)
            case Fail(error) if not answer.done():
                answer.set_exception(error)

    host = client.host(client.address("view"), ViewAsker(view_of(name, tuple(asked))), carry_out)
    try:
        async with asyncio.timeout(VIEW_S):
            await answer
    except TimeoutError:
        raise UnconfirmedError(
            f"the nodes have not made the view '{name}' within {VIEW_S:g} s; see their logs"
        ) from None
    finally:
        client.detach(host)
