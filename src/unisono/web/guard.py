"""Who may look: on loopback whoever is on this machine, under its own name; elsewhere who knows the token.

A page of another site must not look through the eyes of somebody's browser: requests that another site makes it send
are refused, and so are those for a name that is not ours (a name of theirs that leads to this machine).
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import secrets
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from http.cookies import CookieError, SimpleCookie
from typing import Any

from starlette.responses import JSONResponse

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

LOOPBACK = ("127.0.0.1", "localhost", "::1")
COOKIE = "unisono_dashboard"
OPEN_PATHS = ("/", "/login", "/healthz")  # and what is under /static: there is nothing to see there
URL_MAX = 2048
SEND_S = 20.0  # somebody who takes nothing for so long is served no longer

log = logging.getLogger("unisono.dashboard")

HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


class Guard:
    """Lets requests through to the application, or answers them with one clear error."""

    def __init__(self, app: App, *, token: str | None = None, hosts: Iterable[str] = ()) -> None:
        self._app = app
        self._token = token
        self._hosts = {*LOOPBACK, *hosts}
        self._sessions = secrets.token_bytes(32)  # of this life

    @property
    def session(self) -> str:
        """What the cookie of somebody who knew the token says."""
        return hmac.new(self._sessions, (self._token or "").encode(), "sha256").hexdigest()

    def knows(self, token: object) -> bool:
        """Whether this is the token."""
        return (
            self._token is not None
            and isinstance(token, str)
            and hmac.compare_digest(token.encode(), self._token.encode())
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            return
        headers = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in reversed(scope["headers"])
        }

        async def send_more(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                given = {name for name, _ in message["headers"]}
                more = [(n.encode(), v.encode()) for n, v in HEADERS.items() if n.encode() not in given]
                message["headers"] = [*message["headers"], *more]
            async with asyncio.timeout(SEND_S):
                await send(message)

        refusal = self._refusal(scope, headers)
        if refusal is not None:
            status, words = refusal
            await JSONResponse({"error": words}, status)(scope, receive, send_more)
            return
        try:
            await self._app(scope, receive, send_more)
        except TimeoutError:
            log.warning("a page took nothing for %g s, and is served no longer", SEND_S)

    def _refusal(self, scope: Scope, headers: dict[str, str]) -> tuple[int, str] | None:
        method, path = scope["method"], scope["path"]
        if method not in ("GET", "HEAD") and not (method == "POST" and path == "/login"):
            return 405, "this is for looking only: GET"
        if len(scope.get("raw_path") or b"") + len(scope["query_string"]) > URL_MAX:
            return 414, f"the address is over {URL_MAX} characters"
        if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none") and path != "/":
            return 403, "another site asked for this; open the dashboard itself"
        if self._token is None and host_of(headers.get("host", "")) not in self._hosts:
            return 421, "this dashboard is not known by that name; use the address that it printed"
        if not self._may_look(path, headers):
            return (
                401,
                "the token is missing or wrong; open the address that the dashboard printed, token included",
            )
        return None

    def _may_look(self, path: str, headers: dict[str, str]) -> bool:
        if self._token is None or path in OPEN_PATHS or path.startswith("/static/"):
            return True
        scheme, _, token = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self.knows(token.strip()):
            return True
        try:
            cookie = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
        except CookieError:
            return False
        return cookie is not None and hmac.compare_digest(cookie.value.encode(), self.session.encode())


def host_of(header: str) -> str:
    """The name in a Host header, without the port."""
    if header.startswith("["):
        return header[1:].partition("]")[0].lower()
    return header.rpartition(":")[0].lower() if ":" in header else header.lower()
