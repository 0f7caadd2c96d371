"""`sequencer=`: chosen by who begins the system, kept by everybody, and what it changes about where topics live."""

import asyncio
from contextlib import AsyncExitStack
from itertools import combinations

import msgspec
import pytest
from remote_kit import QUICK, connect, nodes, run, shared, take

import unisono
from unisono import ConfigError
from unisono.engines.takeover.control import first_control
from unisono.ens.registry import open_service
from unisono.model.release import ATOMS
from unisono.runtime.remote.admin import look
from unisono.runtime.remote.node import EMPTY, Node
from unisono.runtime.remote.wire import BEATS, decode_beat

TOPICS = ("orders", "payments", "stock", "news", "risk", "audit")


def told(sequencer):
    return msgspec.structs.replace(QUICK, node=msgspec.structs.replace(QUICK.node, sequencer=sequencer))


ATOMIC = told("atoms")


@pytest.mark.parametrize(("has", "wants"), [("atoms", "topics"), ("topics", "atoms")])
def test_whoever_was_told_something_else_is_refused_in_a_line(nats_url, has, wants):
    async def scenario():
        async with nodes(nats_url, "n1", options=told(has)) as [one]:
            assert one.control.sequencer == has
            with pytest.raises(
                ConfigError, match=f"sequencer='{wants}': .* begun with sequencer='{has}'"
            ) as no:
                async with connect(nats_url, sequencer=wants):
                    pass
            assert "\n" not in str(no.value)
            with pytest.raises(ConfigError, match=f"begun with sequencer='{has}'"):
                async with Node(open_service(nats_url), "n2", told(wants)):
                    pass
            async with nodes(nats_url, "n2") as [two], connect(nats_url) as plain:
                assert two.control.sequencer == has
                await plain.publish("orders", 1)
            async with connect(nats_url, sequencer=has) as bus:
                await bus.publish("orders", 2)

    run(scenario())


def test_nobody_says_anything_and_topics_have_managers(nats_url):
    async def scenario():
        async with nodes(nats_url, "n1") as [one]:
            assert one.control.sequencer == "topics"

    run(scenario())


def test_in_one_process_both_mean_the_same():
    async def scenario():
        heard = []
        for sequencer in ("topics", "atoms", None):
            async with unisono.connect(sequencer=sequencer) as bus, bus.subscribe("a", "b") as events:
                for n in range(4):
                    await bus.publish("ab"[n % 2], n)
                heard.append([event.data for event in await take(events, 4)])
        assert heard == [[0, 1, 2, 3]] * 3
        with pytest.raises(ConfigError, match="it is 'topics' or 'atoms'"):
            unisono.connect(sequencer="quarks")

    run(scenario())


def test_nodes_of_releases_that_do_not_know_it_are_kept_out(nats_url):
    async def scenario():
        heard = asyncio.Queue()
        service = open_service(nats_url)
        await service.connect()
        await service.subscribe(frozenset({BEATS}), lambda frame: heard.put_nowait(decode_beat(frame)))
        async with nodes(nats_url, "n1", options=ATOMIC) as [one]:
            while (await asyncio.wait_for(heard.get(), 5)).oldest != ATOMS:
                pass
            one._speaks["old"] = ATOMS - 1
            assert one._is_too_old("old")
            one._keeper.control = first_control(EMPTY, {}, ("n1", "old"))
            assert not one._is_too_old("old")
        await service.close()

    run(scenario())


def test_one_component_is_spread_over_all_nodes_and_everybody_hears_one_order(nats_url):
    async def scenario():
        async with nodes(nats_url, "n1", "n2", "n3", options=ATOMIC) as three, AsyncExitStack() as stack:
            buses = [await stack.enter_async_context(connect(nats_url, f"p{i}")) for i in range(3)]
            listeners = [await stack.enter_async_context(bus.subscribe(*TOPICS)) for bus in buses]

            async def publish(bus):
                for n in range(40):
                    await bus.publish(TOPICS[n % len(TOPICS)], n)

            await asyncio.gather(*map(publish, buses))
            before = [await take(events, 120) for events in listeners]
            control = (await look(nats_url)).control
            assert set(control.owner.values()) == {"n1", "n2", "n3"}, "a component, on three nodes"
            assert control.plan.components() == (control.plan.rank,)
            await three[0].drain()
            await asyncio.gather(*map(publish, buses))
            after = [await take(events, 120) for events in listeners]
            control = (await look(nats_url)).control
            assert set(control.owner.values()) == {"n2", "n3"}
            for one, other in combinations([a + b for a, b in zip(before, after, strict=True)], 2):
                mine, theirs = shared(one, other)
                assert mine == theirs
                assert len(mine) == 240

    run(scenario())


def test_an_answer_never_comes_before_what_it_answers(nats_url):
    """Causes and answers on topics of different nodes: one shared subscriber orders them."""

    async def scenario():
        async with nodes(nats_url, "n1", "n2", "n3", options=ATOMIC), AsyncExitStack() as stack:
            asks, answers = [await stack.enter_async_context(connect(nats_url, n)) for n in ("asks", "says")]
            heard = await stack.enter_async_context(answers.subscribe("question", order="total_causal"))
            listener = await stack.enter_async_context(connect(nats_url, "listens"))
            both = await stack.enter_async_context(
                listener.subscribe("answer", "question", order="total_causal")
            )

            async def answer():
                for _ in range(30):
                    event = await heard.get_one(timeout=20)
                    await answers.publish("answer", event.data)

            answering = asyncio.create_task(answer())
            for n in range(30):
                await asks.publish("question", n)
            await answering
            told = [(event.topic, event.data) for event in await take(both, 60)]
            control = (await look(nats_url)).control
            assert control.owner["question"] != control.owner["answer"]
            for n in range(30):
                assert told.index(("question", n)) < told.index(("answer", n))

    run(scenario())
