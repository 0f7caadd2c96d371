"""What the tests of the brokers share: waiting for a condition, listening, and a load across a restart."""

import asyncio
import os
import signal
import socket
import threading
from contextlib import asynccontextmanager, contextmanager
from itertools import count

import pytest

from unisono.ens.registry import open_service
from unisono.model.errors import BackPressureError


async def until(condition, *, within_s=15.0, every_s=0.01):
    """Wait for a condition, not for a time."""
    async with asyncio.timeout(within_s):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(every_s)


@asynccontextmanager
async def connected(url):
    """A service that writes its troubles down in `troubles`."""
    service = open_service(url)
    service.troubles = []
    service.on_trouble = service.troubles.append
    await service.connect()
    try:
        yield service
    finally:
        await service.close()


async def listen(service, *topics):
    """What is heard on these topics, as a list that grows."""
    heard = []
    await service.subscribe(frozenset(topics), heard.append)
    return heard


async def load_across_a_restart(url, server, *, frames=400, restart_at=150, kill=True):
    """Publish and listen while the server is killed and started again; returns what was heard, and the services' troubles."""
    async with connected(url) as there, connected(url) as here:
        heard = await listen(there, "load.x")
        published = []
        restarting = None
        for n in range(frames):
            if n == restart_at:
                await here.flush()
                restarting = asyncio.create_task(asyncio.to_thread(server.restart, kill=kill))
            here.publish(("load.x",), b"%d" % n)
            published.append(b"%d" % n)
            if n % 10 == 0:
                await asyncio.sleep(0.002)
        await restarting
        await here.flush()
        await until(there.is_up.is_set)
        await until(here.is_up.is_set)
        await here.flush()
        here.publish(("load.x",), b"end")
        await until(lambda: b"end" in heard)
        return published, heard, here.troubles + there.troubles


async def fill_the_outbox(service, topic="full.x"):
    """Publish until it is refused; returns how many were taken."""
    with pytest.raises(BackPressureError, match=r"`await flush\(\)` makes room"):  # noqa: PT012
        for n in count():
            service.publish((topic,), b"%d" % n)
    return n


async def outage_with_a_full_outbox(url, server):
    """Without a server the outbox fills up to its bound; when it is back, everything arrives; closing is bounded."""
    async with connected(f"{url}outbox=100&close_timeout=0.3") as service:
        heard = await listen(service, "full.>")
        server.stop()
        await until(lambda: not service.is_up.is_set())
        with pytest.raises(ConnectionError, match="is away"):
            async with asyncio.timeout(10):
                await service.subscribe(frozenset({"other"}), heard.append)
        taken = await fill_the_outbox(service)
        assert taken == 100
        server.start()
        await service.flush()
        if service.capabilities.reliable:
            await until(lambda: len(set(heard)) >= taken)
        return heard, taken


async def close_while_the_server_is_away(url, server):
    """How long closing takes, and what it says about frames that were never sent."""
    service = open_service(f"{url}close_timeout=0.2")
    troubles = []
    service.on_trouble = troubles.append
    await service.connect()
    server.stop()
    await until(lambda: not service.is_up.is_set())
    service.publish(("t",), b"never sent")
    loop = asyncio.get_running_loop()
    start = loop.time()
    await service.close()
    server.start()
    return loop.time() - start, troubles


@contextmanager
def somebody_else():
    """A port on which something answers that is no broker."""
    stopping = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def greet():
            while not stopping.is_set():
                connection, _ = listener.accept()
                with connection:
                    connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=greet)
        thread.start()
        yield listener.getsockname()[1]
        stopping.set()
        socket.create_connection(listener.getsockname()).close()
        thread.join()


def refusal(url):
    """What connecting to this URL says, and how long it took."""

    async def main():
        loop = asyncio.get_running_loop()
        start = loop.time()
        service = open_service(url)
        try:
            await service.connect()
        except ConnectionError as error:
            return str(error), loop.time() - start
        finally:
            await service.close()
        raise AssertionError(f"{url} was reached")

    return asyncio.run(main())


@contextmanager
def hung(server):
    """A server that is there and does nothing."""
    pid = server._process.pid
    os.kill(pid, signal.SIGSTOP)
    os.waitpid(pid, os.WUNTRACED)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)
