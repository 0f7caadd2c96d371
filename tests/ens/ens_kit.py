"""What the tests of the brokers share: waiting for a condition, listening, and a load across a restart."""

import asyncio
import socket
import threading
from contextlib import asynccontextmanager, contextmanager

from unisono.ens.registry import open_service
from unisono.model.errors import BackPressureError


async def until(condition, *, within_s=15.0, every_s=0.01):
    """Wait for a condition, not for a time."""
    async with asyncio.timeout(within_s):
        while not condition():
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
    for n in range(1_000_000):
        try:
            service.publish((topic,), b"%d" % n)
        except BackPressureError as refused:
            assert "`await flush()` makes room" in str(refused)
            return n
    raise AssertionError("the outbox has no bound")


@contextmanager
def somebody_else():
    """A port on which something answers that is no broker."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(10)

        def greet():
            try:
                while True:
                    connection, _ = listener.accept()
                    with connection:
                        connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            except OSError:
                pass

        thread = threading.Thread(target=greet, daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        with socket.create_connection(listener.getsockname()[:2]):
            listener.close()
        thread.join(5)


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
