"""What an operator asks of the nodes: who sequences what, and other ranks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import NamedTuple

from unisono.engines.takeover.control import Control
from unisono.engines.topic_managers.describing import NodeDescription, TopicDescription
from unisono.ens.registry import open_service
from unisono.model.durability import Durability
from unisono.model.errors import ConfigError, FrameError, UnconfirmedError
from unisono.model.frames import ANY_EPOCH, Replan
from unisono.model.places import Clear, Place, Placed, Survey, Surveyed
from unisono.runtime.naming import made_up_name
from unisono.runtime.remote import viewing
from unisono.runtime.remote.client import Client
from unisono.runtime.remote.door import ADMIN, OPERATOR
from unisono.runtime.remote.errand import ask
from unisono.runtime.remote.viewing import view_of_place
from unisono.runtime.remote.wire import DESCRIBE, decode_description, encode, question, to_client, to_node

PATIENCE_S = 5.0
DESCRIBE_S = 2.0
ASK_S = 0.5
APPLY_S = 20.0


class Overview(NamedTuple):
    """What the nodes say of themselves."""

    control: Control
    nodes: tuple[NodeDescription, ...]  # those that answered
    durability: Durability = "none"  # what stored means to them

    @property
    def topics(self) -> dict[str, TopicDescription]:
        """Every topic that a node manages now."""
        return {topic.topic: topic for node in self.nodes for topic in node.topics}


@asynccontextmanager
async def operator(url: str, name: str | None = None) -> AsyncIterator[Client]:
    """A client that looks at the nodes."""
    service = open_service(url)
    if service.capabilities.carries_objects:
        raise ConfigError(f"{url} lives inside one process, where no command reaches it; name a broker's URL")
    await service.connect()
    client = Client(service, name or made_up_name(service), PATIENCE_S)
    try:
        await client.open()
        yield client
    finally:
        await client.close()
        await service.close()


async def look(url: str) -> Overview:
    """Who sequences what, as every node tells it; those that do not answer in time are left out."""
    described: dict[str, NodeDescription] = {}
    complete = asyncio.Event()
    async with operator(url) as client:
        control = client.control
        assert control is not None

        def heard(topic: str, frame: bytes) -> None:
            with suppress(FrameError):
                node = decode_description(frame)
                described[node.node] = node
                if described.keys() >= set(control.live):
                    complete.set()

        inbox = to_client(f"{client.client}.{DESCRIBE}", "*")
        await client.service.subscribe(frozenset({inbox}), heard, with_topic=True)
        client.post.publish(question(client.client, DESCRIBE), b"?")
        with suppress(TimeoutError):
            async with asyncio.timeout(DESCRIBE_S):
                await complete.wait()
        answered = tuple(described[n] for n in sorted(described))
        return Overview(client.control or control, answered, client.durability)


async def rerank(url: str, rank: tuple[str, ...], moves: Mapping[str, str]) -> Control:
    """Let the nodes begin an epoch with these ranks and owners; returns the control record of it."""
    async with operator(url, ADMIN) as client:
        assert client.control is not None
        unknown = sorted(set(moves.values()).difference(client.control.live))
        if unknown:
            raise ConfigError(f"there is no node '{unknown[0]}'; there are {', '.join(client.control.live)}")
        try:
            async with asyncio.timeout(APPLY_S):
                while not _is_granted(client.control, rank, moves):
                    if (control := client.control) is not None and control.state == "active":
                        known = {topic: node for topic, node in moves.items() if topic in control.owner}
                        wish = Replan(control.epoch, rank=_whole(control, rank), moves=known)
                        client.post.publish(to_node(OPERATOR, control.leader), encode(wish))
                    await asyncio.sleep(ASK_S)
        except TimeoutError:
            raise UnconfirmedError(
                f"the nodes have not begun an epoch with these ranks within {APPLY_S:g} s; see their logs"
            ) from None
        assert client.control is not None
        return client.control


def _is_granted(control: Control | None, rank: tuple[str, ...], moves: Mapping[str, str]) -> bool:
    if control is None or control.state != "active":
        return False
    moved = all(control.owner[topic] == node for topic, node in moves.items() if topic in control.owner)
    return moved and control.plan.rank == _whole(control, rank)


def _whole(control: Control, rank: tuple[str, ...]) -> tuple[str, ...]:
    """The wanted ranks, for exactly the topics that are there."""
    known = [topic for topic in rank if topic in control.owner]
    wanted = set(known)
    return (*known, *(topic for topic in control.plan.rank if topic not in wanted))


async def list_views(url: str) -> Control:
    """The control record, which has the views."""
    async with operator(url) as client:
        assert client.control is not None
        return client.control


async def make_view(url: str, name: str, names: tuple[str, ...]) -> Control:
    """Let the nodes begin an epoch with this view; returns the control record of it."""
    async with operator(url) as client:
        await viewing.make_view(client, name, names)
        assert client.control is not None
        return client.control


async def drop_view(url: str, name: str) -> Control:
    """Let the nodes begin an epoch without a view; ConfigError if there is none."""
    async with operator(url, ADMIN) as client:
        assert client.control is not None
        if name not in client.control.views:
            raise ConfigError(f"there is no view '{name}'; see `unisono views list`")
        return await _insist(
            client,
            Replan(ANY_EPOCH, drop_view=name),
            lambda control: name not in control.views,
            f"without the view '{name}'",
        )


async def delete_topics(url: str, names: tuple[str, ...]) -> Control:
    """Let the nodes begin an epoch in which these topics take no more events; ConfigError if there is no such topic."""
    async with operator(url, ADMIN) as client:
        assert client.control is not None
        for name in names:
            if name not in client.control.owner:
                raise ConfigError(f"there is no topic '{name}'; see `unisono topics`")
        return await _insist(
            client,
            Replan(ANY_EPOCH, close=names),
            lambda control: set(names) <= set(control.closed),
            f"without {', '.join(names)}",
        )


async def _insist(client: Client, wish: Replan, is_granted: Callable[[Control], bool], what: str) -> Control:
    """Ask the leader for something until an epoch has begun that has it."""
    try:
        async with asyncio.timeout(APPLY_S):
            while True:
                control = client.control
                assert control is not None
                if control.state == "active":
                    if is_granted(control):
                        return control
                    client.post.publish(to_node(OPERATOR, control.leader), encode(wish))
                await asyncio.sleep(ASK_S)
    except TimeoutError:
        raise UnconfirmedError(
            f"the nodes have not begun an epoch {what} within {APPLY_S:g} s; see their logs, and whether these "
            "credentials are an operator's"
        ) from None


async def survey_places(url: str) -> list[Place]:
    """Every durable subscriber's place, by name."""
    places: list[Place] = []
    async with operator(url) as client:
        after = ""
        while True:
            page = await ask(client, Survey(after), Surveyed)
            if page.after == after:
                places += page.places
                if page.is_last or not page.places:
                    return places
                after = page.places[-1].name


async def remove_place(url: str, name: str, *, even_held: bool = False) -> None:
    """Forget a durable subscriber's place; ConfigError if there is none, or somebody holds it."""
    async with operator(url) as client:
        placed = await ask(client, Clear(name, even_held), Placed)
        if placed.reason:
            raise ConfigError(placed.reason)
        assert client.control is not None
        is_viewed = view_of_place(name) in client.control.views
    if is_viewed:
        await drop_view(url, view_of_place(name))
