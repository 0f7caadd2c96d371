"""What is counted, and how Prometheus reads it."""

import asyncio
import builtins
import json
import socket
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from unisono.model.errors import ConfigError, ServerError
from unisono.observability.exposition import MetricsServer
from unisono.observability.metrics import BOUNDS_S, COUNTERS, GAUGES, PHASES, Durations, Metrics, Registry


def read(url):
    """Status and text of a page."""
    try:
        with urllib.request.urlopen(url, timeout=10) as page:
            return page.status, page.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


async def pages(registry, *paths, health=None):
    """What the pages say."""
    async with MetricsServer(registry, health=health) as server:
        root = server.url.removesuffix("/metrics")
        return [await asyncio.to_thread(read, root + path) for path in paths]


def values(text):
    """Value by name and labels."""
    return {
        (
            sample.name,
            *(sample.labels[k] for k in ("role", "name", "phase", "le") if k in sample.labels),
        ): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_every_counter_is_an_integer_and_every_phase_is_measured():
    metrics = Metrics()
    assert set(metrics.counters()) == set(COUNTERS)
    assert set(metrics.counters().values()) == {0}
    assert set(metrics.durations()) == set(PHASES)
    fields = set(Metrics.__struct_fields__) - {"role", "name", "_gauges", "_refresh"}
    assert fields == set(COUNTERS) | set(PHASES)


def test_the_guide_explains_every_metric():
    guide = (Path(__file__).parents[2] / "docs" / "operations.md").read_text()
    for name, _ in COUNTERS.values():
        assert f"`unisono_{name}_total`" in guide
    for name, _ in GAUGES.values():
        assert f"`unisono_{name}`" in guide
    for phase in PHASES:
        assert f'`unisono_phase_seconds{{phase="{phase}"}}`' in guide


def test_the_exposition_tells_what_was_counted():
    registry = Registry()
    node, bus = registry.new(role="node", name="n1"), registry.new(role="client", name="desk")
    node.sequenced += 128
    node.takeovers += 1
    node.gauge("epoch", lambda: 7)
    node.gauge("lanes_unconfirmed", [1, 2, 3].__len__)
    bus.published += 5
    bus.tagged += 2
    bus.deliver.observe(0.0003, 4)
    bus.deliver.observe(99)
    bus.hold.observe(-1)
    ((status, text),) = asyncio.run(pages(registry, "/metrics"))
    assert status == 200
    found = values(text)
    assert found["unisono_events_sequenced_total", "node", "n1"] == 128
    assert found["unisono_events_sequenced_total", "client", "desk"] == 0
    assert found["unisono_takeovers_total", "node", "n1"] == 1
    assert found["unisono_events_tagged_total", "client", "desk"] == 2
    assert found["unisono_epoch", "node", "n1"] == 7
    assert ("unisono_epoch", "client", "desk") not in found
    assert found["unisono_lanes_unconfirmed_events", "node", "n1"] == 3
    bucket = "unisono_phase_seconds_bucket"
    assert found[bucket, "client", "desk", "deliver", "0.00025"] == 0
    assert found[bucket, "client", "desk", "deliver", "0.0005"] == 4
    assert found[bucket, "client", "desk", "deliver", "+Inf"] == 5
    assert found["unisono_phase_seconds_count", "client", "desk", "deliver"] == 5
    assert found["unisono_phase_seconds_sum", "client", "desk", "deliver"] == pytest.approx(99.0012)
    assert found[bucket, "client", "desk", "hold", "5e-05"] == 1
    registry.forget(bus)
    ((_, text),) = asyncio.run(pages(registry, "/metrics"))
    assert "desk" not in text


def test_a_duration_on_a_bound_belongs_below_it():
    durations = Durations()
    durations.observe(BOUNDS_S[0])
    assert durations.counts[0] == 1


def test_health_and_other_pages():
    good, metrics, other = asyncio.run(
        pages(Registry(), "/healthz", "/metrics", "/etc/passwd", health=lambda: {"ok": True, "nodes": 2})
    )
    assert (good[0], json.loads(good[1])) == (200, {"ok": True, "nodes": 2})
    assert metrics[0] == 200
    assert other[0] == 404
    assert "GET /metrics and GET /healthz" in other[1]
    ((status, text),) = asyncio.run(pages(Registry(), "/healthz", health=lambda: {"ok": False}))
    assert (status, json.loads(text)) == (503, {"ok": False})


def test_a_loop_that_is_stuck_is_not_healthy(monkeypatch):
    monkeypatch.setattr("unisono.observability.exposition.ANSWER_S", 0.2)

    async def stuck():
        async with MetricsServer(Registry()) as server:
            url = server.url.replace("metrics", "healthz")
            asking = asyncio.create_task(asyncio.to_thread(read, url))
            await asyncio.sleep(0)
            time.sleep(1.5)  # noqa: ASYNC251 that is the point
            return await asking

    status, text = asyncio.run(stuck())
    assert status == 503
    assert "the event loop did not answer" in text


def test_a_port_that_is_taken():
    async def main(port):
        await MetricsServer(Registry(), port=port).start()

    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        pytest.raises(ServerError, match=r"give another port with --metrics-port \(0 takes"),
    ):
        asyncio.run(main(listener.getsockname()[1]))


def test_counting_needs_no_prometheus(monkeypatch):
    real = builtins.__import__

    def without(name, *rest, **more):
        if name.startswith("prometheus_client"):
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    registry = Registry()
    registry.new(role="client", name="desk").published += 1
    assert registry.sample()[0].counters["published"] == 1
    with pytest.raises(ConfigError, match=r"'pip install unisono\[metrics\]'"):
        asyncio.run(MetricsServer(registry).start())


def test_a_gauge_that_is_not_there():
    with pytest.raises(ConfigError, match="there is no gauge 'mood'; there are epoch, "):
        Metrics().gauge("mood", lambda: 1)


def test_counting_costs_next_to_nothing():
    metrics = Metrics()
    began = time.perf_counter()
    for _ in range(100_000):
        metrics.delivered += 1
    assert time.perf_counter() - began < 1.0  # some 5 ms; a busy machine is forgiven
    assert metrics.delivered == 100_000
