"""The dashboard's addresses: the page, what it is made of, and what it asks for."""

from __future__ import annotations

import asyncio
import mimetypes
from collections.abc import AsyncGenerator, Awaitable, Callable
from importlib.resources import files
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Send

from unisono import __version__
from unisono.lab.playground import Knobs, play
from unisono.model.errors import UnisonoError
from unisono.web.guard import COOKIE, Guard
from unisono.web.journals import Journal
from unisono.web.picture import Picture
from unisono.web.reports import Reports
from unisono.web.streaming import Pages
from unisono.web.tapping import Taps

LOGIN_BYTES_MAX = 1024
PLAYS_MAX = 4  # that wait for their turn
STATIC = {
    path.name: path.read_bytes() for path in (files("unisono.web") / "static").iterdir() if path.is_file()
}

Endpoint = Callable[[Request], Awaitable[Response]]


class EventStream(StreamingResponse):
    """Server-sent events. Whatever ends it, whoever made them is told."""

    def __init__(self, events: AsyncGenerator[bytes, None]) -> None:
        super().__init__(events, media_type="text/event-stream")
        self._events = events

    async def stream_response(self, send: Send) -> None:
        """Send what comes."""
        try:
            await super().stream_response(send)
        finally:
            await self._events.aclose()


class Site:
    """What the addresses answer."""

    def __init__(
        self,
        picture: Picture,
        pages: Pages,
        taps: Taps,
        *,
        place: str | None,
        journal: Journal | None,
        reports: Reports,
    ) -> None:
        self._picture, self._pages, self._taps = picture, pages, taps
        self._place, self._journal, self._reports = place, journal, reports
        self._playing = asyncio.Lock()
        self._plays = 0
        self.guard: Guard | None = None

    def app(self, *, token: str | None = None, hosts: tuple[str, ...] = ()) -> Guard:
        """The application, guarded."""
        addresses: dict[str, Endpoint] = {
            "/": self._page,
            "/static/{name}": self._static,
            "/healthz": self._healthz,
            "/api/about": self._about,
            "/api/live": self._live,
            "/api/overlaps/{group:int}": self._overlaps,
            "/api/tap": self._tap,
            "/api/reached": self._reached,
            "/api/play": self._play,
            "/api/events": self._events,
            "/api/event": self._event,
            "/api/reports": self._report_list,
            "/api/reports/{n:int}": self._report,
        }
        routes = [Route(path, answered(endpoint), methods=["GET"]) for path, endpoint in addresses.items()]
        routes.append(Route("/login", answered(self._login), methods=["POST"]))
        app = Starlette(routes=routes, exception_handlers={HTTPException: _refused, Exception: _broken})
        self.guard = Guard(app, token=token, hosts=hosts)
        return self.guard

    # The page.

    async def _page(self, _request: Request) -> Response:
        return _file("index.html")

    async def _static(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in STATIC:
            raise HTTPException(404, f"there is no '{name[:100]}'")
        return _file(name)

    async def _login(self, request: Request) -> Response:
        assert self.guard is not None
        body = b""
        async for chunk in request.stream():
            body += chunk
            if len(body) > LOGIN_BYTES_MAX:
                raise HTTPException(413, f"a token is no longer than {LOGIN_BYTES_MAX} bytes")
        try:
            token = msgspec.json.decode(body, type=dict[str, str]).get("token")
        except msgspec.MsgspecError:
            raise HTTPException(400, 'send {"token": "…"}') from None
        if not self.guard.knows(token):
            raise HTTPException(401, "that is not the token")
        answer = JSONResponse({"ok": True})
        answer.set_cookie(COOKIE, self.guard.session, httponly=True, samesite="strict")
        return answer

    async def _healthz(self, _request: Request) -> Response:
        return JSONResponse({"ok": True})

    async def _about(self, _request: Request) -> Response:
        return JSONResponse(
            {
                "version": __version__,
                "place": self._place,
                "journal": None if self._journal is None else self._journal.name,
                "reports": len(await asyncio.to_thread(self._reports.found)),
            }
        )

    # Live.

    async def _live(self, _request: Request) -> Response:
        if self._place is None:
            raise HTTPException(404, "this dashboard watches no system; start it with --url")
        if self._pages.is_full:
            raise HTTPException(503, "too many pages look at this dashboard; close one")
        return EventStream(self._pages.stream())

    async def _overlaps(self, request: Request) -> Response:
        found = self._picture.overlaps(request.path_params["group"])
        if found is None:
            raise HTTPException(404, "there is no such group now")
        return _json(found)

    async def _tap(self, request: Request) -> Response:
        topic = self._taps.check(request.query_params.get("topic", ""))
        return EventStream(self._taps.stream(topic))

    async def _reached(self, request: Request) -> Response:
        topic, number = request.query_params.get("topic", ""), request.query_params.get("number", "")
        if not number.isdecimal() or len(number) > 18:
            raise HTTPException(400, "a number is asked for")
        return _json(self._picture.reached(topic, int(number)))

    # The playground.

    async def _play(self, request: Request) -> Response:
        knobs = knobs_of(dict(request.query_params))
        if self._plays >= PLAYS_MAX:
            raise HTTPException(503, "the playground is busy; try again in a moment")
        self._plays += 1
        try:
            async with self._playing:
                return _json(await asyncio.to_thread(play, knobs))
        finally:
            self._plays -= 1

    # One event.

    async def _events(self, request: Request) -> Response:
        return _json(
            await asyncio.to_thread(self._the_journal().events, request.query_params.get("topic", ""))
        )

    async def _event(self, request: Request) -> Response:
        found = await asyncio.to_thread(self._the_journal().life, request.query_params.get("id", ""))
        if found is None:
            raise HTTPException(404, "the journal has no such event")
        return _json(found)

    def _the_journal(self) -> Journal:
        if self._journal is None:
            raise HTTPException(404, "this dashboard reads no journal; start it with --journal DIR")
        return self._journal

    # Reports.

    async def _report_list(self, _request: Request) -> Response:
        return _json(await asyncio.to_thread(self._reports.found))

    async def _report(self, request: Request) -> Response:
        found = await asyncio.to_thread(self._reports.read, request.path_params["n"])
        if found is None:
            raise HTTPException(404, "there is no such report; look at the list again")
        content, kind, policy = found
        return Response(content, media_type=kind, headers={"content-security-policy": policy})


def knobs_of(query: dict[str, str]) -> Knobs:
    """The knobs that an address names; HTTPException if there is no such knob, or it cannot be turned so far."""
    try:
        return msgspec.convert(query, Knobs, strict=False)
    except msgspec.ValidationError as error:
        raise HTTPException(400, f"that cannot be played: {str(error)[:200]}") from None


def answered(endpoint: Endpoint) -> Endpoint:
    """An endpoint whose named errors are answers."""

    async def answer(request: Request) -> Response:
        try:
            return await endpoint(request)
        except UnisonoError as error:
            raise HTTPException(409, str(error)) from None

    return answer


async def _refused(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": error.detail}, error.status_code)


async def _broken(_request: Request, _error: Exception) -> Response:
    return JSONResponse({"error": "something went wrong here; the dashboard's log says what"}, 500)


def _file(name: str) -> Response:
    kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
    kind = "text/javascript" if name.endswith(".js") else kind
    return Response(STATIC[name], media_type=kind, headers={"cache-control": "no-cache"})


def _json(data: Any) -> Response:
    return Response(msgspec.json.encode(data), media_type="application/json")
