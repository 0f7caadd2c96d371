"""`unisono up`: the bundled server and its nodes, with one command, until it is stopped."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.markup import escape

from unisono.cli.dashboard import REPORTS
from unisono.cli.loop import run_loop
from unisono.cli.output import MISSED, people
from unisono.cli.settings import Durability, Sequencer, Settings, load
from unisono.cli.up_nodes import NodeProcess
from unisono.model.errors import ConfigError, ServerError
from unisono.observability import logs
from unisono.observability.exposition import MetricsServer
from unisono.observability.metrics import Registry
from unisono.server import BundledCluster, BundledServer, ServerSettings
from unisono.web.serving import Dashboard, DashboardSettings

log = logging.getLogger("unisono.up")

NODE_COMMAND = [sys.executable, "-m", "unisono", "node", "--json"]
READY_S = 60.0  # for all nodes, from the server's start on
NODES_STOP_S = 5.0
SERVER_STOP_S = 3.5
PAGE = "dashboard"  # the client that the page looks as
STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def up(
    host: Annotated[str | None, typer.Option(help="Where the server listens. [default: 127.0.0.1]")] = None,
    port: Annotated[
        int | None, typer.Option(help="Its port; 0 takes one that is free. [default: 4222]")
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="Where everything is kept. [default: unisono-data]")
    ] = None,
    nodes: Annotated[int | None, typer.Option(help="How many nodes share the topics. [default: 1]")] = None,
    servers: Annotated[
        int | None, typer.Option(help="How many servers keep everything: 1, 3 or 5. [default: 1]")
    ] = None,
    durability: Durability = None,
    sequencer: Sequencer = None,
    auth: Annotated[
        bool | None, typer.Option("--auth/--no-auth", help="Admit only those with credentials.")
    ] = None,
    client: Annotated[
        list[str] | None, typer.Option(help="With --auth: a client that gets credentials; may be repeated.")
    ] = None,
    metrics_port: Annotated[
        int | None, typer.Option(help="Serve /metrics and /healthz; 0 takes a free port.")
    ] = None,
    dashboard: Annotated[
        bool, typer.Option("--dashboard", help="Serve the dashboard, a page that shows everything.")
    ] = False,
    dashboard_port: Annotated[
        int | None, typer.Option(help="Its port; 0 takes a free one. [default: 8765]")
    ] = None,
    monitor_port: Annotated[
        int | None, typer.Option(help="The server's own HTTP pages, on loopback.")
    ] = None,
    sync: Annotated[
        str | None,
        typer.Option(
            "--sync-interval",
            "--sync",
            help="How often what is stored is forced to disk, or 'always'. [default: 1s]",
        ),
    ] = None,
    tls_cert: Annotated[Path | None, typer.Option(help="The server's certificate, PEM.")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="Its key, PEM.")] = None,
    tls_ca: Annotated[Path | None, typer.Option(help="The CA that clients check it with, PEM.")] = None,
    tls_verify: Annotated[bool | None, typer.Option(help="Ask clients for certificates of that CA.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON line on stdout when ready.")] = False,
    log_json: Annotated[bool | None, typer.Option("--log-json/--log-text", help="Log JSON lines.")] = None,
) -> None:
    """Start a NATS server with JetStream on disk, and nodes; serve until stopped."""
    given = {
        "host": host,
        "port": port,
        "data": None if data is None else str(data),
        "nodes": nodes,
        "servers": servers,
        "auth": auth,
        "clients": client or None,
        "monitor_port": monitor_port,
        "sync": sync,
        "tls_cert": None if tls_cert is None else str(tls_cert),
        "tls_key": None if tls_key is None else str(tls_key),
        "tls_ca": None if tls_ca is None else str(tls_ca),
        "tls_verify": tls_verify,
    }
    flags = {f"up.{key}": value for key, value in given.items()}
    more = {"durability": durability, "sequencer": sequencer, "metrics_port": metrics_port}
    more["dashboard_port"] = dashboard_port
    settings = load({**flags, **more, "log_json": log_json})
    logs.configure(settings.log, json=settings.log_json)
    wants_page = dashboard or dashboard_port is not None
    if not run_loop(System(settings, wants_page=wants_page).serve(json=json)):
        raise typer.Exit(MISSED)


class System:
    """The server, the nodes and the metrics of one `up`."""

    def __init__(self, settings: Settings, *, wants_page: bool = False) -> None:
        self._settings = settings
        self._wants_page = wants_page
        self._page: Dashboard | None = None
        self._server = server_of(settings, self._tell)
        self._registry = Registry()
        self._metrics = self._registry.new(role="up", name="up")
        self._pages: MetricsServer | None = None
        self._nodes: list[NodeProcess] = []
        self._is_up = False

    async def serve(self, *, json: bool) -> bool:
        """Start everything, say so, and run until a signal; False when something was given up while it ran."""
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in STOPPING:
            loop.add_signal_handler(number, stop.set)
        try:
            async with AsyncExitStack() as stack:
                stopped = asyncio.create_task(stop.wait())
                stack.callback(stopped.cancel)
                starting = asyncio.create_task(self._start(stack))
                await asyncio.wait([starting, stopped], return_when=asyncio.FIRST_COMPLETED)
                if not starting.done():
                    starting.cancel()
                    await asyncio.gather(starting, return_exceptions=True)
                    return True
                await starting
                self._announce(json=json)
                return await self._run(stopped)
        finally:
            for number in STOPPING:
                loop.remove_signal_handler(number)

    async def _start(self, stack: AsyncExitStack) -> None:
        port = self._settings.metrics_port
        if port is not None:
            self._pages = MetricsServer(
                self._registry, host=self._settings.metrics_host, port=port, health=self._health
            )
            await stack.enter_async_context(self._pages)
        await stack.enter_async_context(self._server)
        arguments, env = self._node_calls()
        for n in range(1, self._settings.up.nodes + 1):
            name = f"n{n}"
            own = env | self._metrics_of(n)
            self._nodes.append(NodeProcess(name, [*arguments, "--name", name], own, on_trouble=self._tell))
        self._metrics.gauge("nodes", lambda: sum(node.ready.is_set() for node in self._nodes))
        stack.push_async_callback(self._stop_nodes)
        for node in self._nodes:
            node.start()
        await self._all_ready()
        if self._wants_page:
            self._page = await stack.enter_async_context(Dashboard(await self._page_settings()))

    async def _page_settings(self) -> DashboardSettings:
        """The page looks as a client of its own, that may not do what nodes may."""
        url, given = self._server.url, self._settings
        if self._server.settings.auth:
            known = PAGE in self._server.credentials.clients()
            url = self._server.client_url(PAGE) if known else await self._server.add_client(PAGE)
        reports = (REPORTS,) if REPORTS.is_dir() else ()
        return DashboardSettings(
            url=url,
            reports=reports,
            host=given.dashboard_host,
            port=given.dashboard_port,
            token=given.dashboard_token,
        )

    def _node_calls(self) -> tuple[list[str], dict[str, str]]:
        """The command of a node, and its environment. A password is in the latter: others see command lines."""
        env = {"UNISONO_URL": self._server.node_url}
        if (level := durability_of(self._settings)) is not None:
            env["UNISONO_DURABILITY"] = level
        if self._settings.sequencer is not None:
            env["UNISONO_SEQUENCER"] = self._settings.sequencer
        if self._settings.log_json:
            env["UNISONO_LOG_JSON"] = "true"
        env["UNISONO_RETAIN_RECORDS"] = str(self._settings.retain_records)
        env["UNISONO_RETAIN_S"] = str(self._settings.retain_s)
        if self._settings.trace_ratio:
            env["UNISONO_TRACE_RATIO"] = str(self._settings.trace_ratio)
        return (
            [*NODE_COMMAND] if self._server.settings.auth else [*NODE_COMMAND, "--url", self._server.url]
        ), env

    def _metrics_of(self, n: int) -> dict[str, str]:
        """Where the n-th node has its pages: right behind ours, so that they can be found; free ports if ours is."""
        port = self._settings.metrics_port
        if port is None:
            return {}
        own = port + n if port else 0
        return {"UNISONO_METRICS_PORT": str(own), "UNISONO_METRICS_HOST": self._settings.metrics_host}

    async def _all_ready(self) -> None:
        """Return when every node said so; raises ServerError when one was given up, or it takes too long."""
        ready = [asyncio.create_task(node.ready.wait()) for node in self._nodes]
        lives = [node.life for node in self._nodes]
        try:
            async with asyncio.timeout(READY_S):
                waiting: set[asyncio.Task[Any]] = set(ready)
                while waiting:
                    done, _ = await asyncio.wait([*waiting, *lives], return_when=asyncio.FIRST_COMPLETED)
                    waiting -= done
                    for life in done & set(lives):
                        await life  # which raises
        except TimeoutError:
            late = ", ".join(node.name for node in self._nodes if not node.ready.is_set())
            raise ServerError(f"{late} did not become ready in {READY_S:g} s; see the log above") from None
        finally:
            for task in ready:
                task.cancel()

    def _announce(self, *, json: bool) -> None:
        """Say, to people or machines, where everything is."""
        self._is_up = True
        auth = self._server.settings.auth
        credentials = self._server.credentials
        servers = [
            {"name": name, "url": server.url, "pid": server.pid, "monitor": server.monitor_url}
            for name, server in self._server.members.items()
        ]
        document = {
            "url": self._server.url,
            "dashboard": None if self._page is None else self._page.url,
            "pid": os.getpid(),
            "data": str(self._server.settings.data.absolute()),
            "nodes": [{"name": node.name, "pid": node.pid, **node.facts} for node in self._nodes],
            "metrics": self._pages.url if self._pages is not None else None,
            "server": servers[0],
            "servers": servers,
            "credentials": {name: str(credentials.path(name)) for name in credentials.clients()}
            if auth
            else None,
        }
        if json:
            sys.stdout.write(msgspec.json.encode(document).decode() + "\n")
            sys.stdout.flush()
            return
        lines = [f"[green]up[/]: {escape(self._server.url)}, data in {escape(str(document['data']))}"]
        if auth:
            files = ((name, escape(str(credentials.path(name)))) for name in credentials.clients())
            lines += [f"client '{name}': UNISONO_CONFIG={path}" for name, path in files]
        if self._pages is not None:
            lines.append(f"metrics: {escape(self._pages.url)}")
        if self._page is not None:
            lines.append(f"dashboard: [bold]{escape(self._page.url)}[/]")
        for line in (*lines, "stop with Ctrl-C"):
            people.print(line, soft_wrap=True)  # to be copied whole

    async def _run(self, stopped: asyncio.Task[Any]) -> bool:
        """Until a signal, or until the server or a node is given up."""
        serving = asyncio.create_task(self._server.wait())
        try:
            lives = [node.life for node in self._nodes]
            await asyncio.wait([stopped, serving, *lives], return_when=asyncio.FIRST_COMPLETED)
            ended = [task for task in (serving, *lives) if task.done()]
            for task in ended:
                log.error("%s", task.exception())
            return not ended
        finally:
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)

    async def _stop_nodes(self) -> None:
        await asyncio.gather(*(node.stop(NODES_STOP_S) for node in self._nodes))

    def _health(self) -> dict[str, Any]:
        nodes = {node.name: node.ready.is_set() for node in self._nodes}
        return {
            "ok": self._is_up and self._server.is_ready and all(nodes.values()),
            "server": self._server.is_ready,
            "nodes": nodes,
        }

    def _tell(self, error: ServerError) -> None:
        self._metrics.restarts += 1
        log.warning("%s", error)


def durability_of(settings: Settings) -> str | None:
    """What stored means to the nodes: what was asked for, or the best of several servers; None: as it was before."""
    several = settings.up.servers > 1
    if settings.durability == "replicated" and not several:
        raise ConfigError("durability=replicated needs several servers; start with --servers 3")
    return settings.durability or ("replicated" if several else None)


def server_of(settings: Settings, tell: Callable[[ServerError], None]) -> BundledServer | BundledCluster:
    """One server, or a cluster of them."""
    durability_of(settings)  # better refused before anything is started
    given, count = server_settings(settings), settings.up.servers
    if count == 1:
        return BundledServer(given, on_trouble=tell)
    return BundledCluster(given, count, on_trouble=tell)


def server_settings(settings: Settings) -> ServerSettings:
    """What the bundled server is to be like."""
    given = settings.up
    return ServerSettings(
        data=Path(given.data),
        host=given.host,
        port=given.port,
        monitor_port=given.monitor_port,
        max_payload=given.max_payload,
        sync=given.sync,
        max_store=given.max_store,
        auth=given.auth,
        clients=given.clients,
        tls_cert=_path(given.tls_cert),
        tls_key=_path(given.tls_key),
        tls_ca=_path(given.tls_ca),
        tls_verify=given.tls_verify,
        stop_timeout=SERVER_STOP_S,
    )


def _path(text: str | None) -> Path | None:
    return None if text is None else Path(text)
