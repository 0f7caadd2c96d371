"""Spans that follow one event, by the in-memory exporter of OpenTelemetry."""

import builtins
import subprocess
import sys
import time

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import TraceIdRatioBased
from opentelemetry.trace import SpanKind, get_current_span

from unisono.model.errors import ConfigError
from unisono.observability.tracing import HEADER, PHASES, Tracing, open_tracing


def traced(ratio=1.0):
    """A Tracing, and where its spans go."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider(sampler=TraceIdRatioBased(ratio), shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return Tracing(provider), exporter


def test_one_event_through_all_phases_and_two_processes():
    publisher, there = traced()
    node, here = traced()
    headers = publisher.publish("orders", {"mine": "kept"}, event="desk-1")
    assert headers["mine"] == "kept"
    assert set(headers) == {"mine", HEADER}
    began = time.time_ns() - 5_000_000
    for phase in PHASES[1:-1]:
        node.phase(phase, headers, began, began + 1_000_000, node="n1")
    with node.deliver("orders", headers, subscription="s1"):
        assert get_current_span().get_span_context().is_valid
    (root,) = there.get_finished_spans()
    spans = here.get_finished_spans()
    assert [root.name, *(span.name for span in spans)] == list(PHASES)
    assert {span.context.trace_id for span in spans} == {root.context.trace_id}
    assert {span.parent.span_id for span in spans} == {root.context.span_id}
    assert root.kind is SpanKind.PRODUCER
    assert spans[-1].kind is SpanKind.CONSUMER
    assert spans[0].end_time - spans[0].start_time == 1_000_000
    assert spans[0].attributes["node"] == "n1"
    assert root.attributes["messaging.destination.name"] == "orders"
    assert root.attributes["event"] == "desk-1"


def test_what_the_application_does_is_a_child():
    tracing, exporter = traced()
    headers = tracing.publish("orders")
    with tracing.deliver("orders", headers):
        inner = tracing.publish("payments")  # an effect is traced back to its cause
    assert headers[HEADER].split("-")[1] == inner[HEADER].split("-")[1]
    names = {span.name: span for span in exporter.get_finished_spans()}
    with pytest.raises(RuntimeError), tracing.deliver("orders", headers):
        raise RuntimeError("the handler fails")
    failed = exporter.get_finished_spans()[-1]
    assert failed.status.description == "RuntimeError: the handler fails"
    assert set(names) == {"publish", "deliver"}


def test_what_is_not_sampled_leaves_nothing():
    tracing, exporter = traced(ratio=0.0)
    assert tracing.publish("orders") is None
    assert tracing.publish("orders", {"a": "b"}) == {"a": "b"}
    tracing.phase("sequence", None, 1)
    tracing.phase("sequence", {"a": "b"}, 1)
    tracing.phase("sequence", {HEADER: "nonsense"}, 1)
    tracing.phase("sequence", {HEADER: f"00-{'1' * 32}-{'2' * 16}-00"}, 1)  # not sampled, somebody says
    with tracing.deliver("orders", {}):
        pass
    assert exporter.get_finished_spans() == ()


def test_an_event_that_is_followed_already_stays_so():
    tracing, exporter = traced()
    headers = {HEADER: f"00-{'1' * 32}-{'2' * 16}-01"}
    assert tracing.publish("orders", headers) == headers
    assert exporter.get_finished_spans() == ()


def test_a_share_is_followed():
    exporter = InMemorySpanExporter()
    tracing = open_tracing(0.5, exporter=exporter)
    followed = sum(tracing.publish("orders") is not None for _ in range(400))
    tracing.close()
    assert 100 < followed < 300
    assert len(exporter.get_finished_spans()) == followed


def test_off_costs_nothing_not_even_an_import():
    assert open_tracing(0) is None
    code = (
        "import sys, unisono.observability.tracing as t; assert t.open_tracing(0) is None; "
        "assert not any(name.startswith('opentelemetry') for name in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_what_is_missing_is_said(monkeypatch):
    with pytest.raises(ConfigError, match="it is a share of events, from 0"):
        open_tracing(2)
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "pigeons")
    with pytest.raises(ConfigError, match="no exporter of traces named 'pigeons'"):
        open_tracing(1)
    real = builtins.__import__

    def without(name, *rest, **more):
        if name.startswith("opentelemetry"):
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ConfigError, match=r"'pip install unisono\[otel\]'"):
        open_tracing(1)
