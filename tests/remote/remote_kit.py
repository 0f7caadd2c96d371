"""A broker, nodes and buses for the tests of what goes on between processes."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager

import unisono
from unisono.ens.registry import open_service
from unisono.runtime.remote.node import Node
from unisono.runtime.remote.node_options import NodeOptions

QUICK = NodeOptions(beat_s=0.05, suspect_s=0.6)
BOUND_S = 60.0


def run(scenario, bound_s=BOUND_S):
    """Run a coroutine, with a bound."""

    async def bounded():
        async with asyncio.timeout(bound_s):
            return await scenario

    return asyncio.run(bounded())


@asynccontextmanager
async def nodes(url, *names, options=QUICK):
    """Nodes in this process, each with a connection of its own."""
    async with AsyncExitStack() as stack:
        started = []
        for name in names:
            node = await stack.enter_async_context(Node(open_service(url), name, options))
            await node.ready()
            started.append(node)
        yield started


async def take(events, count, timeout=20):
    """The next events of a subscription."""
    return [await events.get_one(timeout=timeout) for _ in range(count)]


def shared(one, other):
    """What two sequences of events have in common, as each of them has it."""
    ours, theirs = {e.id for e in one}, {e.id for e in other}
    return [e.id for e in one if e.id in theirs], [e.id for e in other if e.id in ours]


def connect(url, name=None, **options):
    """A bus."""
    return unisono.connect(url, name=name, **options)
