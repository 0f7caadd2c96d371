"""Traces: spans that follow one event through publish, sequence, store, receive, hold and deliver.

Off, there is no Tracing and nothing is asked: `if tracing is not None`. On, the publisher decides by `ratio` which
events are followed; only those carry a `traceparent` header (W3C), so whoever meets an event without one does nothing.

headers = tracing.publish("orders", headers)            # the publisher; adds traceparent if this one is followed
tracing.phase("sequence", headers, began, node="n1")    # anybody, afterwards: from `began` (time.time_ns()) to now
with tracing.deliver("orders", headers): ...            # around the handler, whose own spans become children

Spans of phases are written down when they are over, so that nothing is kept in between.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from unisono.model.errors import ConfigError

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace.export import SpanExporter
    from opentelemetry.trace import Tracer, TracerProvider

HEADER = "traceparent"
PHASES = ("publish", "sequence", "store", "receive", "hold", "deliver")


class Tracing:
    """Spans of one process."""

    def __init__(self, provider: TracerProvider, *, is_ours: bool = False) -> None:
        from opentelemetry import trace
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self._trace = trace
        self._provider = provider
        self._is_ours = is_ours
        self._tracer: Tracer = provider.get_tracer("unisono")
        self._propagator = TraceContextTextMapPropagator()

    def publish(
        self, topic: str, headers: Mapping[str, str] | None = None, **attributes: str | int
    ) -> dict[str, str] | None:
        """Begin to follow an event, or decide not to; returns the headers to publish it with."""
        if headers is not None and HEADER in headers:
            return dict(headers)  # somebody follows it already
        kind = self._trace.SpanKind.PRODUCER
        span = self._tracer.start_span("publish", kind=kind, attributes=_attributes(topic, attributes))
        try:
            if not span.get_span_context().trace_flags.sampled:
                return None if headers is None else dict(headers)
            carrier = dict(headers or {})
            self._propagator.inject(carrier, context=self._trace.set_span_in_context(span))
            carrier.pop("tracestate", None)  # one header is enough to find each other
            return carrier
        finally:
            span.end()

    def phase(
        self,
        name: str,
        headers: Mapping[str, str] | None,
        began_ns: int,
        ended_ns: int | None = None,
        **attributes: str | int,
    ) -> None:
        """Write down a phase that is over, if this event is followed; times are of `time.time_ns()`."""
        context = self._followed(headers)
        if context is not None:
            span = self._tracer.start_span(name, context, start_time=began_ns, attributes=attributes)
            span.end(max(began_ns, ended_ns or time.time_ns()))

    @contextmanager
    def deliver(
        self, topic: str, headers: Mapping[str, str] | None, **attributes: str | int
    ) -> Iterator[None]:
        """Around what the application does with an event; an error is noted and goes on."""
        context = self._followed(headers)
        if context is None:
            yield
            return
        kind = self._trace.SpanKind.CONSUMER
        with self._tracer.start_as_current_span(
            "deliver", context, kind=kind, attributes=_attributes(topic, attributes)
        ):
            yield

    def close(self) -> None:
        """Send what was written down, if that is our affair and not your program's."""
        shutdown = getattr(self._provider, "shutdown", None)
        if self._is_ours and shutdown is not None:
            shutdown()

    def _followed(self, headers: Mapping[str, str] | None) -> Context | None:
        if not headers or HEADER not in headers:
            return None
        context = self._propagator.extract({HEADER: headers[HEADER]})
        parent = self._trace.get_current_span(context).get_span_context()
        return context if parent.is_valid and parent.trace_flags.sampled else None


def open_tracing(
    ratio: float, *, service: str = "unisono", exporter: SpanExporter | None = None
) -> Tracing | None:
    """Traces of this share of events; None when nobody wants any.

    Without an exporter of yours, the process's own OpenTelemetry is used if it was set up (by your program or by
    `opentelemetry-instrument`), else what OTEL_TRACES_EXPORTER names (`otlp` by default).
    """
    if not 0 <= ratio <= 1:
        raise ConfigError(f"trace_ratio={ratio:g}: it is a share of events, from 0 (none) to 1 (all)")
    if ratio == 0:
        return None
    try:
        from opentelemetry import trace
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
        from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
    except ImportError:
        raise ConfigError(
            "traces need OpenTelemetry: 'pip install unisono[otel]', or leave trace_ratio at 0"
        ) from None
    if exporter is None and isinstance(trace.get_tracer_provider(), TracerProvider):
        return Tracing(trace.get_tracer_provider())
    provider = TracerProvider(
        sampler=ParentBased(TraceIdRatioBased(ratio)), resource=Resource.create({"service.name": service})
    )
    provider.add_span_processor(BatchSpanProcessor(exporter or _exporter()))
    return Tracing(provider, is_ours=True)


def _exporter() -> SpanExporter:
    import os
    from importlib.metadata import entry_points

    wanted = os.environ.get("OTEL_TRACES_EXPORTER", "otlp")
    name = "otlp_proto_http" if wanted == "otlp" else wanted
    for found in entry_points(group="opentelemetry_traces_exporter", name=name):
        exporter: SpanExporter = found.load()()
        return exporter
    raise ConfigError(
        f"there is no exporter of traces named '{wanted}': 'pip install opentelemetry-exporter-otlp-proto-http', "
        "or say another with OTEL_TRACES_EXPORTER (console writes them to stdout)"
    )


def _attributes(topic: str, more: dict[str, str | int]) -> dict[str, Any]:
    return {"messaging.system": "unisono", "messaging.destination.name": topic, **more}
