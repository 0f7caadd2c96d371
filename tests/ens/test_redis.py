"""Redis streams and pub/sub pass the contract against a real server, and survive what happens to servers."""

import pytest

from unisono.ens.registry import open_service
from unisono.testing import EnsContract
from unisono.testing.servers import redis_server


@pytest.fixture(scope="module")
def server():
    with redis_server() as running:
        yield running


class RedisContract(EnsContract):
    is_ordered = True
    options = ""

    @pytest.fixture(autouse=True)
    def _server(self, server):
        self.url = server.url + self.options

    def make_service(self):
        return open_service(self.url)


class TestStreams(RedisContract):
    pass


class TestPubSub(RedisContract):
    options = "?mode=pubsub"
