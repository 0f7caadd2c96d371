"""A dashboard in a thread of its own, and ways to ask it things."""

import asyncio
import http.client
import json
import threading
import time
from contextlib import contextmanager

from unisono.web.serving import Dashboard, DashboardSettings


def until(condition, within_s=20.0, every_s=0.02):
    deadline = time.monotonic() + within_s
    while not (found := condition()):
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(every_s)
    return found


@contextmanager
def served(*, meanwhile=None, **settings):
    """A dashboard that serves; `meanwhile(dashboard)` is a coroutine that runs beside it."""
    settings.setdefault("port", 0)
    ready, stop, loops, seen = threading.Event(), None, [], []

    async def main():
        nonlocal stop
        stop = asyncio.Event()
        loops.append(asyncio.get_running_loop())
        async with Dashboard(DashboardSettings(**settings)) as dashboard:
            seen.append(dashboard)
            ready.set()
            beside = None if meanwhile is None else asyncio.create_task(meanwhile(dashboard))
            await stop.wait()
            if beside is not None:
                beside.cancel()
                await asyncio.gather(beside, return_exceptions=True)

    errors = []

    def run():
        try:
            asyncio.run(main())
        except BaseException as error:
            errors.append(error)
        finally:
            ready.set()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    ready.wait(20)
    if errors:
        raise errors[0]
    try:
        yield seen[0]
    finally:
        loops[0].call_soon_threadsafe(stop.set)
        thread.join(10)
        assert not thread.is_alive(), "the dashboard did not stop"


def port_of(dashboard):
    return int(dashboard.url.split(":")[2].split("/")[0])


def ask(dashboard, path, *, method="GET", headers=None, body=None):
    """The status, the headers and the document of an answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port_of(dashboard), timeout=10)
    try:
        connection.request(method, path, body=body, headers=headers or {})
        answer = connection.getresponse()
        content = answer.read()
        document = json.loads(content) if "json" in answer.headers.get("content-type", "") else content
        return answer.status, dict(answer.headers), document
    finally:
        connection.close()
