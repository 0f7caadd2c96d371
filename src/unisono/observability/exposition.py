"""`/metrics` for Prometheus and `/healthz` for whoever must know whether we are alive.

The pages are served by a thread with `prometheus_client` (extra `metrics`), but what they show is read in the event
loop: a loop that is stuck cannot be said to be healthy.
"""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError
from socketserver import ThreadingMixIn
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from unisono.model.errors import ConfigError, ServerError
from unisono.observability.metrics import COUNTERS, GAUGES, PHASES, Registry, Sample

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIEnvironment

    from prometheus_client.core import Metric

log = logging.getLogger("unisono.metrics")

T = TypeVar("T")

ANSWER_S = 2.0  # in which the event loop must answer
LABELS = ("role", "name")
Health = Callable[[], dict[str, Any]]


class Collector:
    """What `prometheus_client` asks when somebody reads `/metrics`."""

    def __init__(self, sample: Callable[[], list[Sample]]) -> None:
        self._sample = sample

    def collect(self) -> Iterator[Metric]:
        """Everything that was counted, as Prometheus has it."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

        samples = self._sample()
        for attribute, (name, meaning) in COUNTERS.items():
            counter = CounterMetricFamily(f"unisono_{name}", meaning, labels=LABELS)
            for s in samples:
                counter.add_metric([s.role, s.name], s.counters[attribute])
            yield counter
        for key, (name, meaning) in GAUGES.items():
            gauge = GaugeMetricFamily(f"unisono_{name}", meaning, labels=LABELS)
            for s in samples:
                if key in s.gauges:
                    gauge.add_metric([s.role, s.name], s.gauges[key])
            yield gauge
        meaning = "; ".join(f"{phase}: {text}" for phase, text in PHASES.items())
        phases = HistogramMetricFamily(
            "unisono_phase_seconds", f"Parts of an event's life. {meaning}.", labels=(*LABELS, "phase")
        )
        for s in samples:
            for phase, (buckets, sum_s) in s.durations.items():
                phases.add_metric([s.role, s.name, phase], buckets, sum_s)
        yield phases


class MetricsServer:
    """The two pages, at a port of their own."""

    def __init__(
        self, registry: Registry, *, host: str = "127.0.0.1", port: int = 0, health: Health | None = None
    ) -> None:
        self._registry = registry
        self._host, self._port = host, port
        self._health = health or (lambda: {"ok": True})
        self._server: WSGIServer | None = None
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def url(self) -> str:
        """Where `/metrics` is."""
        return f"http://{f'[{self._host}]' if ':' in self._host else self._host}:{self.port}/metrics"

    @property
    def port(self) -> int:
        """The port that was given, or found free."""
        return self._server.server_port if self._server is not None else self._port

    async def start(self) -> None:
        """Listen; raises ConfigError without `prometheus_client`, ServerError when the port is taken."""
        try:
            from prometheus_client import CollectorRegistry, make_wsgi_app
        except ImportError:
            raise ConfigError(
                "metrics need prometheus_client: 'pip install unisono[metrics]', or leave --metrics-port out"
            ) from None
        self._loop = asyncio.get_running_loop()
        collectors = CollectorRegistry(auto_describe=False)
        collectors.register(Collector(lambda: self._ask(self._registry.sample)))
        self._pages = {"/metrics": make_wsgi_app(collectors), "/healthz": self._healthz}
        try:
            self._server = make_server(self._host, self._port, self._page, _Server, _QuietHandler)
        except OSError as error:
            raise ServerError(
                f"no metrics at {self._host}:{self._port}: {error.strerror or error}; "
                "give another port with --metrics-port (0 takes one that is free)"
            ) from None
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.05,), name="metrics", daemon=True
        )
        self._thread.start()

    async def stop(self) -> None:
        """Listen no more."""
        if self._server is not None and self._thread is not None:
            await asyncio.to_thread(self._server.shutdown)
            await asyncio.to_thread(self._thread.join)
            self._server.server_close()
            self._server = self._thread = None

    async def __aenter__(self) -> MetricsServer:
        """Listen."""
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        """Listen no more."""
        await self.stop()

    # In the server's threads.

    def _page(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        page = self._pages.get(environ["PATH_INFO"])
        if page is None or environ["REQUEST_METHOD"] not in ("GET", "HEAD"):
            return _answer(
                start_response, "404 Not Found", {"error": "here are GET /metrics and GET /healthz"}
            )
        try:
            return page(environ, start_response)
        except (TimeoutError, CancelledError):
            error = f"the event loop did not answer in {ANSWER_S:g} s"
            return _answer(start_response, "503 Service Unavailable", {"ok": False, "error": error})

    def _healthz(self, _environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        found = self._ask(self._health)
        return _answer(start_response, "200 OK" if found.get("ok") else "503 Service Unavailable", found)

    def _ask(self, question: Callable[[], T]) -> T:
        async def ask() -> T:
            return question()

        assert self._loop is not None
        answer = asyncio.run_coroutine_threadsafe(ask(), self._loop)
        try:
            return answer.result(ANSWER_S)
        except TimeoutError:
            answer.cancel()
            raise


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class _QuietHandler(WSGIRequestHandler):
    timeout = 10  # seconds for somebody who connects and says nothing

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        log.debug(format, *args)


def _answer(start_response: StartResponse, status: str, document: dict[str, Any]) -> Iterable[bytes]:
    start_response(status, [("Content-Type", "application/json")])
    return [json.dumps(document).encode() + b"\n"]
