"""Three bundled servers, or more, that keep every stream together: one of three may be lost.

async with BundledCluster(ServerSettings(data=Path("data"))) as cluster:
    bus = unisono.connect(cluster.url)          # names all of them: whoever is connected to one that dies goes on
    await cluster.kill("s2")                    # and it stays away
    await cluster.start_server("s2")            # until it is asked back

Each server is watched as a single one is: one that crashes is started again at the same port.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any

import msgspec

from unisono.model.errors import ServerError
from unisono.server.auth import NODE, Credentials, url_query
from unisono.server.bundled import BundledServer
from unisono.server.directory import DataDirectory
from unisono.server.probe import free_ports, monitored
from unisono.server.settings import ClusterPlace, ServerSettings

log = logging.getLogger("unisono.server")

SERVERS = 3
PORTS_TRIED = 5
LOOK_S = 0.05
LOOPBACK = "127.0.0.1"


class BundledCluster:
    """Bundled servers that know each other, by routes on loopback; each with a folder of its own in the data directory."""

    def __init__(
        self,
        settings: ServerSettings,
        servers: int = SERVERS,
        *,
        on_trouble: Callable[[ServerError], None] | None = None,
    ) -> None:
        self.settings = settings
        self.credentials = Credentials(settings.data, settings.prefix)
        self.members: dict[str, BundledServer] = {}  # the servers by name
        self._names = [f"s{n}" for n in range(1, servers + 1)]
        self._on_trouble = on_trouble
        self._directory = DataDirectory(settings.data)

    # What others need to know.

    @property
    def address(self) -> str:
        """host:port of each server, with commas between them."""
        return ",".join(server.address for server in self.members.values())

    @property
    def url(self) -> str:
        """Where it is, all servers named, without credentials."""
        return f"nats://{self.address}{url_query(self._first.options)}"

    @property
    def node_url(self) -> str:
        """What nodes connect to, password included."""
        return self.credentials.url(NODE) if self.settings.auth else self.url

    def client_url(self, name: str = "default") -> str:
        """What this client connects to, password included."""
        return self.credentials.url(name) if self.settings.auth else self.url

    @property
    def running(self) -> list[str]:
        """The servers that answer."""
        return [name for name, server in self.members.items() if server.is_ready]

    @property
    def is_ready(self) -> bool:
        """Whether so many answer that what is asked of them can be stored."""
        return len(self.running) > len(self._names) // 2

    # Its life.

    async def start(self) -> None:
        """Start all servers and return when they have a leader; raises ServerError with what to do."""
        if (self.settings.data / "jetstream").exists():
            raise ServerError(
                f"{self.settings.data} is the data of a single server, which a cluster does not take over; "
                "give another directory with --data"
            )
        self._directory.open()
        try:
            for attempt in range(1, PORTS_TRIED + 1):
                try:
                    self._place()
                    await self._all("start")
                    break
                except ServerError as error:
                    await self._all("stop")
                    taken = "address already in use" in str(error) or "is taken" in str(error)
                    if not taken or self.settings.port or attempt == PORTS_TRIED:
                        raise
            await self.wait_for_leader()
            await self.wait_healthy()
        except BaseException:
            await self.stop()
            raise
        log.info("cluster ready", extra={"fields": {"url": self.url}})

    async def stop(self) -> None:
        """Stop all servers."""
        await self._all("stop")
        self._directory.close()

    async def wait(self) -> None:
        """Return when a server was stopped; raises ServerError when one was given up."""
        lives = [asyncio.create_task(server.wait()) for server in self.members.values()]
        try:
            done, _ = await asyncio.wait(lives, return_when=asyncio.FIRST_COMPLETED)
            for life in done:
                await life
        finally:
            for life in lives:
                life.cancel()
            await asyncio.gather(*lives, return_exceptions=True)

    async def __aenter__(self) -> BundledCluster:
        """Start it."""
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        """Stop it."""
        await self.stop()

    # One server.

    async def kill(self, name: str) -> None:
        """End a server as a crash would (SIGKILL); it stays away until `start_server`."""
        await self.members[name].kill()

    async def stop_server(self, name: str) -> None:
        """Ask a server to end; it stays away until `start_server`."""
        await self.members[name].stop()

    async def start_server(self, name: str) -> None:
        """Start a server that was killed or stopped, at the port it had; return when it has caught up."""
        await self.members[name].start()
        await self.wait_healthy(name)

    async def restart_server(self, name: str) -> None:
        """Stop a server and start it again; return when it has caught up, so that the next may follow."""
        await self.stop_server(name)
        await self.start_server(name)

    # Leaders.

    async def leader(self) -> str | None:
        """The server that leads the cluster, as the others agree; None while there is none."""
        found = await asyncio.gather(*(self._jsz(name) for name in self.running))
        leaders = {(one.get("meta_cluster") or {}).get("leader") or None for one in found}
        return leaders.pop() if len(leaders) == 1 else None

    async def stream_leader(self, stream: str) -> str | None:
        """The server that leads a stream; None while there is none."""
        for name in self.running:
            for account in (await self._jsz(name, "?streams=true")).get("account_details") or ():
                for one in account.get("stream_detail") or ():
                    leader = (one.get("cluster") or {}).get("leader")
                    if one.get("name") == stream and leader:
                        return str(leader)
        return None

    async def wait_for_leader(self, within_s: float | None = None) -> str:
        """The server that leads, as soon as there is one; raises ServerError when there is none in time."""

        async def found() -> str | None:
            return await self.leader() if self.is_ready else None

        leader: str = await self._until(found, within_s, "the servers found no leader")
        return leader

    async def wait_healthy(self, *names: str, within_s: float | None = None) -> None:
        """Return when these servers, or all that run, have caught up with the others."""

        async def caught_up() -> bool:
            asked = names or tuple(self.running)
            pages = (monitored(LOOPBACK, self._monitor_port(name), "/healthz") for name in asked)
            return all(page is not None and page[0] == 200 for page in await asyncio.gather(*pages))

        await self._until(caught_up, within_s, "the servers did not catch up with each other")

    async def _until(self, condition: Callable[[], Any], within_s: float | None, failed: str) -> Any:
        limit_s = within_s or self.settings.start_timeout
        deadline = time.monotonic() + limit_s
        while not (found := await condition()):
            if time.monotonic() > deadline:
                raise ServerError(f"{failed} in {limit_s:g} s; see nats.log of each in {self.settings.data}")
            await asyncio.sleep(LOOK_S)
        return found

    async def _jsz(self, name: str, query: str = "") -> dict[str, Any]:
        page = await monitored(LOOPBACK, self._monitor_port(name), f"/jsz{query}")
        return {} if page is None or page[0] != 200 else msgspec.json.decode(page[1], type=dict[str, Any])

    # Clients that come later.

    async def add_client(self, name: str) -> str:
        """Credentials for one more client, valid at once at every server; returns its URL."""
        self._first.must_have_auth()
        self.credentials.add(name)
        await self.reload()
        return self.credentials.url(name)

    async def remove_client(self, name: str) -> None:
        """Take a client's credentials away."""
        self._first.must_have_auth()
        self.credentials.remove(name)
        await self.reload()

    async def reload(self) -> None:
        """Make every server that runs read its configuration again."""
        await self._all("reload")

    # Inside.

    @property
    def _first(self) -> BundledServer:
        return next(iter(self.members.values()))

    def _monitor_port(self, name: str) -> int:
        port = self.members[name].monitor_port
        assert port is not None
        return port

    async def _all(self, what: str) -> None:
        results = await asyncio.gather(
            *(getattr(server, what)() for server in self.members.values()), return_exceptions=True
        )
        for result in results:
            if isinstance(result, BaseException):
                raise result

    def _place(self) -> None:
        """Choose the ports, and tell each server of the others."""
        count, given = len(self._names), self.settings
        ports = free_ports(given.host, count)
        if given.port:
            ports = list(range(given.port, given.port + count))
        free = free_ports(LOOPBACK, 2 * count)
        between, monitors = free[:count], free[count:]
        if given.monitor_port:
            monitors = list(range(given.monitor_port, given.monitor_port + count))
        password = secrets.token_urlsafe(24)
        for n, name in enumerate(self._names):
            place = ClusterPlace(
                server=name,
                port=between[n],
                others=tuple(port for port in between if port != between[n]),
                password=password,
            )
            settings = msgspec.structs.replace(
                given, data=given.data / name, port=ports[n], monitor_port=monitors[n], cluster=place
            )
            self.members[name] = BundledServer(
                settings, on_trouble=self._on_trouble, credentials=self.credentials
            )
        if given.auth:
            self.credentials.prepare(self.address, self._first.options, given.clients)
