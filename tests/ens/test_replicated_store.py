"""The store on three servers passes the contract that every store passes."""

import asyncio
import threading
from contextlib import contextmanager

import pytest

from unisono.ens.registry import open_service
from unisono.server import BundledCluster, ServerSettings
from unisono.testing import StoreContract

pytestmark = pytest.mark.durability


@contextmanager
def running(cluster):
    """A cluster in an event loop of its own: each test has another one."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    def wait_for(work):
        return asyncio.run_coroutine_threadsafe(work, loop).result(60)

    try:
        wait_for(cluster.start())
        yield
    finally:
        wait_for(cluster.stop())
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    cluster = BundledCluster(ServerSettings(data=tmp_path_factory.mktemp("cluster")))
    with running(cluster):
        yield cluster


class TestReplicated(StoreContract):
    @pytest.fixture(autouse=True)
    def _cluster(self, cluster):
        self.cluster = cluster

    def make_service(self):
        return open_service(f"{self.cluster.url}?durability=replicated")
