"""Serves the dashboard in an event loop that has other things to do as well."""

from __future__ import annotations

import asyncio
import ipaddress
import secrets
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

import msgspec

from unisono.model.errors import ConfigError, ServerError
from unisono.web.watching import INTERVAL_S, Watcher

if TYPE_CHECKING:
    import uvicorn

CONNECTIONS_MAX = 128
STOP_S = 2.0


class DashboardSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What a dashboard shows, and where."""

    url: str | None = None  # of the system it watches
    journal: Path | None = None
    reports: tuple[Path, ...] = ()
    host: str = "127.0.0.1"
    port: int = 8765
    token: str | None = None  # None: one is made up where one is needed
    interval_s: float = INTERVAL_S


class Dashboard:
    """`async with Dashboard(settings) as dashboard: print(dashboard.url)`."""

    def __init__(self, settings: DashboardSettings) -> None:
        try:
            import starlette  # noqa: F401
            import uvicorn  # noqa: F401
        except ImportError:
            raise ConfigError("the dashboard needs a web server: 'pip install unisono[dashboard]'") from None
        self._settings = settings
        is_open = not is_loopback(settings.host)
        self.token = settings.token or (secrets.token_urlsafe(24) if is_open else None)
        self._socket: socket.socket | None = None
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def url(self) -> str:
        """The address to open; the token is behind the '#', which browsers do not send."""
        host = self._settings.host
        shown = f"[{host}]" if ":" in host else host
        port = self._settings.port if self._socket is None else self._socket.getsockname()[1]
        return f"http://{shown}:{port}/" + ("" if self.token is None else f"#token={self.token}")

    async def __aenter__(self) -> Dashboard:
        """Serve; ServerError when the port is taken."""
        import uvicorn

        from unisono.web.app import Site
        from unisono.web.journals import Journal
        from unisono.web.picture import Picture
        from unisono.web.reports import Reports
        from unisono.web.streaming import Pages
        from unisono.web.tapping import Taps

        settings = self._settings
        picture = Picture()
        self._pages, self._taps = Pages(picture), Taps()
        journal = None if settings.journal is None else Journal(settings.journal)
        watcher = (
            None
            if settings.url is None
            else Watcher(settings.url, picture, interval_s=settings.interval_s, taps=self._taps)
        )
        place = None if watcher is None else watcher.place
        site = Site(
            picture, self._pages, self._taps, place=place, journal=journal, reports=Reports(settings.reports)
        )
        app = site.app(token=self.token, hosts=(settings.host.lower(),))
        self._socket = listen(settings.host, settings.port)
        config = uvicorn.Config(
            app,
            http="h11",
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            limit_concurrency=CONNECTIONS_MAX,
            timeout_keep_alive=10,
            timeout_graceful_shutdown=1,
        )
        self._server = _server(config)
        self._tasks = [asyncio.create_task(self._server.serve([self._socket]), name="dashboard")]
        if watcher is not None:
            watcher.is_looked_at = lambda: self._pages.is_looked_at or self._taps.is_open
            watcher.on_look, self._pages.on_open = self._pages.look, watcher.wake
            self._tasks.append(asyncio.create_task(watcher.run(), name="dashboard watches"))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Serve no more."""
        self._pages.close()
        self._taps.is_closed = True
        self._server.should_exit = True
        for task in self._tasks[1:]:
            task.cancel()
        _, late = await asyncio.wait(self._tasks, timeout=STOP_S)
        for task in late:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._socket is not None:
            self._socket.close()


def is_loopback(host: str) -> bool:
    """Whether only this machine can come in there."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens; ServerError when it cannot be had."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        made = socket.socket(family, kind, protocol)
        try:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.bind(address)
            made.listen(128)
        except BaseException:
            made.close()
            raise
    except (OSError, UnicodeError, OverflowError) as error:
        raise ServerError(
            f"no dashboard at {host}:{port}: {getattr(error, 'strerror', None) or error}; "
            "give another port (0 takes one that is free)"
        ) from None
    made.setblocking(False)
    return made


def _server(config: uvicorn.Config) -> uvicorn.Server:
    import uvicorn

    class Server(uvicorn.Server):
        """Signals are the affair of whoever runs the loop."""

        @contextmanager
        def capture_signals(self) -> Iterator[None]:
            yield

    return Server(config)
