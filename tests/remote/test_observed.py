"""What nodes and buses count, trace and log while events pass."""

import asyncio
import json
import logging
import subprocess
import sys
import urllib.request

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from remote_kit import QUICK, connect, nodes, run, take

import unisono
from unisono.ens.registry import open_service
from unisono.model.errors import ConfigError
from unisono.observability.metrics import Registry
from unisono.observability.tracing import HEADER, PHASES, Tracing
from unisono.runtime.remote.admin import rerank
from unisono.runtime.remote.node import Node
from unisono.runtime.remote.node_observer import NodeObserver


def sample(registry, role, name):
    (found,) = [s for s in registry.sample() if (s.role, s.name) == (role, name)]
    return found


def measured(found, phase):
    buckets, _ = found.durations[phase]
    return buckets[-1][1]


def traced():
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return Tracing(provider), exporter


async def until(is_so, timeout=10):
    async with asyncio.timeout(timeout):
        while not is_so():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


def swallow_one(events):
    """Let the next frame with an event never come."""
    taken = events._take_note

    def lose(note):
        if hasattr(note, "publication"):
            events._take_note = taken
        else:
            taken(note)

    events._take_note = lose


def test_a_node_and_a_bus_count_what_passes(nats_url):
    async def scenario():
        registry = Registry()
        observer = NodeObserver("n1", registry)
        async with Node(open_service(nats_url), "n1", QUICK, observer) as node:
            await node.ready()
            async with (
                connect(nats_url, "desk", metrics=registry) as bus,
                bus.subscribe("a", "b") as events,
            ):
                await bus.publish_many([("ab"[i % 2], i) for i in range(50)])
                await take(events, 50)
                await until(lambda: sample(registry, "node", "n1").gauges["lanes_unconfirmed"] == 0)
                found = sample(registry, "node", "n1")
                for counter in ("sequenced", "stored", "announced"):
                    assert found.counters[counter] == 50
                assert found.counters["requests"] >= 2  # bundles are one each
                assert found.counters["joins"] >= 1
                assert found.counters["epoch_changes"] >= 1
                assert found.counters["rejected"] == found.counters["takeovers"] == 0
                assert 1 <= measured(found, "store") <= 50  # records
                assert found.gauges["topics"] == 2
                assert found.gauges["subscriptions"] == found.gauges["nodes"] == 1
                assert found.gauges["peers"] >= 2
                mine = sample(registry, "bus", "desk")
                for counter in ("published", "sequenced", "received", "delivered"):
                    assert mine.counters[counter] == 50
                assert mine.counters["joins"] == 2
                assert mine.gauges["queued"] == mine.gauges["unconfirmed"] == mine.gauges["buffered"] == 0
                assert mine.gauges["epoch"] == found.gauges["epoch"] >= 1
                for phase in ("sequence", "travel", "deliver"):
                    assert measured(mine, phase) == 50
                assert measured(mine, "hold") < 50  # the two topics are ordered together, and travel apart
                assert node.health()["ok"]
            assert [s.role for s in registry.sample()] == ["node"]
        assert not node.health()["ok"]
        assert registry.sample() == []

    run(scenario())


def test_what_is_held_back_is_counted_and_timed(nats_url):
    async def scenario():
        registry = Registry()
        async with (
            nodes(nats_url, "n1"),
            connect(nats_url, "desk", metrics=registry) as bus,
            bus.subscribe("a") as events,
        ):
            await bus.publish("a", 0)
            await take(events, 1)
            swallow_one(events)
            await bus.publish("a", 1)
            await bus.publish("a", 2)
            assert [e.data for e in await take(events, 2)] == [1, 2]
            found = sample(registry, "bus", "desk")
            assert found.counters["held"] >= 1
            assert found.counters["repaired"] >= 1
            assert measured(found, "hold") == found.counters["held"]
            assert found.counters["delivered"] == 3

    run(scenario())


def test_what_closed_subscriptions_counted_stays_counted():
    async def scenario():
        registry = Registry()
        async with unisono.connect("memory://", name="desk", metrics=registry) as bus:
            for _ in range(3):
                async with bus.subscribe("a", "b", queue=10, slow="drop") as events:
                    for i in range(20):
                        bus.publish_nowait("a", i)
                    await bus.flush()
                    await take(events, 4)
                    await events.remove("b")
            found = sample(registry, "bus", "desk")
            assert found.counters["published"] == found.counters["sequenced"] == 60
            assert found.counters["received"] == 60
            assert found.counters["dropped"] == 30
            assert found.counters["delivered"] == 12
            assert (found.counters["joins"], found.counters["leaves"]) == (6, 6)
            assert measured(found, "sequence") == 60
            assert measured(found, "travel") == 30
            assert found.gauges["subscriptions"] == 0

    run(scenario())


def test_two_buses_of_one_name_are_told_apart():
    async def scenario():
        registry = Registry()
        async with (
            unisono.connect("memory://", name="desk", metrics=registry),
            unisono.connect("memory://", name="desk", metrics=registry),
        ):
            assert [s.name for s in registry.sample()] == ["desk", "desk-2"]

    run(scenario())


def test_an_event_is_followed_through_all_phases(nats_url):
    async def scenario():
        tracing, exporter = traced()
        node = Node(open_service(nats_url), "n1", QUICK, NodeObserver("n1", None, tracing))
        async with node:
            await node.ready()
            async with connect(nats_url, "desk", trace=tracing) as bus, bus.subscribe("a") as events:
                await bus.publish("a", 0)
                await take(events, 1)
                exporter.clear()
                swallow_one(events)
                await bus.publish("a", 1)
                held = await bus.publish("a", 2)
                first, second = await take(events, 2)
                await until(lambda: [s.name for s in exporter.get_finished_spans()].count("store") == 2)
        assert held.id == second.id
        trace = int(second.headers[HEADER].split("-")[1], 16)
        spans = [s for s in exporter.get_finished_spans() if s.context.trace_id == trace]
        assert sorted(s.name for s in spans) == sorted(PHASES)
        (root,) = [s for s in spans if s.name == "publish"]
        assert all(s.parent.span_id == root.context.span_id for s in spans if s is not root)
        by_name = {s.name: s for s in spans}
        order = [by_name[name].start_time for name in ("publish", "sequence", "store", "receive", "deliver")]
        assert order == sorted(order)
        assert by_name["hold"].end_time > by_name["hold"].start_time
        assert by_name["store"].attributes["node"] == "n1"
        other = int(first.headers[HEADER].split("-")[1], 16)
        names = {s.name for s in exporter.get_finished_spans() if s.context.trace_id == other}
        assert names >= {"publish", "sequence", "store", "receive", "deliver"}

    run(scenario())


def test_events_pass_two_nodes_on_one_trace(nats_url):
    async def scenario():
        tracing, exporter = traced()
        async with (
            Node(open_service(nats_url), "n1", QUICK, NodeObserver("n1", None, tracing)) as one,
            Node(open_service(nats_url), "n2", QUICK, NodeObserver("n2", None, tracing)) as two,
        ):
            await one.ready()
            await two.ready()
            async with (
                connect(nats_url, "desk", trace=tracing) as bus,
                bus.subscribe("a", "b") as events,
                bus.subscribe("a", "b"),
            ):
                await rerank(nats_url, ("a", "b"), {"a": "n1", "b": "n2"})
                await bus.publish_many([("a", 0), ("b", 0)])
                await take(events, 2)
        visited = {}
        for span in exporter.get_finished_spans():
            if span.name == "sequence":
                visited.setdefault(span.context.trace_id, set()).add(span.attributes["node"])
        assert sorted(map(len, visited.values())) == [1, 2]

    run(scenario())


def test_a_handler_runs_inside_its_span_and_goes_on_with_the_trace():
    from opentelemetry.trace import get_current_span

    async def scenario():
        tracing, exporter = traced()
        seen = []
        bus = unisono.connect("memory://", name="desk", trace=tracing)

        @bus.on("a")
        async def answer(event):
            seen.append(get_current_span().get_span_context().trace_id)
            await bus.publish("b", event.data)

        @bus.on("b")
        def note(event):
            seen.append(get_current_span().get_span_context().trace_id)

        async with bus:
            await bus.publish("a", 1)
            await bus.drain()
        assert len(seen) == 2
        assert len({s.context.trace_id for s in exporter.get_finished_spans()} | set(seen)) == 1
        names = [s.name for s in exporter.get_finished_spans()]
        assert (names.count("publish"), names.count("deliver")) == (2, 2)

    run(scenario())


def test_nobody_is_followed_without_being_asked_for():
    async def scenario():
        async with unisono.connect("memory://") as bus, bus.subscribe("a") as events:
            await bus.publish("a", 1)
            (event,) = await take(events, 1)
            assert event.headers == {}
            assert type(bus) is unisono.Bus
            assert events.observer is None
            assert not events._since

    run(scenario())
    with pytest.raises(ConfigError, match="share of events"):
        unisono.connect("memory://", trace=2)


def test_nodes_tell_how_the_world_moves(nats_url, caplog):
    caplog.set_level(logging.INFO, "unisono.node")

    def told(text):
        return [r for r in caplog.records if r.name == "unisono.node" and text in r.getMessage()]

    async def scenario():
        registry = Registry()
        async with Node(open_service(nats_url), "n1", QUICK, NodeObserver("n1", registry)) as one:
            await one.ready()
            doomed = Node(open_service(nats_url), "n2", QUICK)
            await doomed.__aenter__()
            await doomed.ready()
            async with connect(nats_url, "desk") as bus, bus.subscribe("a", "b") as events:
                await rerank(nats_url, ("a", "b"), {"a": "n1", "b": "n2"})
                await doomed.close()  # without a word
                await until(lambda: one.control.live == ("n1",) and one.control.state == "active")
                await bus.publish("a", 1)
                await take(events, 1)
            await until(lambda: sample(registry, "node", "n1").counters["takeovers"] == 1)

    run(scenario())
    assert any(r.fields["node"] == "n1" for r in told("joined: n2"))
    assert told("declared dead: n2")[0].fields["by"] == "n1"
    (took,) = [r for r in told("took over from n2") if r.fields["node"] == "n1"]
    assert took.fields["was_dead"]
    assert took.fields["topics"] >= 1
    assert any(r.fields["mine"] == 2 for r in told("began"))


def test_the_command_serves_its_pages(nats_url):
    command = [sys.executable, "-m", "unisono", "node", "--url", nats_url, "--name", "n1", "--json"]
    with subprocess.Popen([*command, "--metrics-port", "0"], stdout=subprocess.PIPE, text=True) as process:
        try:
            ready = json.loads(process.stdout.readline())
            assert ready["ready"]
            with urllib.request.urlopen(ready["metrics"], timeout=10) as page:
                assert 'unisono_epoch{name="n1",role="node"}' in page.read().decode()
            health = ready["metrics"].replace("/metrics", "/healthz")
            with urllib.request.urlopen(health, timeout=10) as page:
                assert json.load(page)["serves"]
            said = subprocess.run(
                [*command[:3], "pub", "a", "1", "--url", nats_url, "--metrics-port", "0"],
                capture_output=True,
                text=True,
                timeout=30,
                check=True,
            )
            assert "metrics: http://127.0.0.1:" in said.stdout + said.stderr
        finally:
            process.terminate()
