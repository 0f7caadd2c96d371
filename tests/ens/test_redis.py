"""Redis streams and pub/sub pass the contract against a real server, and survive what happens to servers."""

import dataclasses

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
        service = open_service(self.url)
        # While nothing fails, nothing is lost either, whatever is promised: hold it to that.
        service._capabilities = dataclasses.replace(service.capabilities, reliable=True)
        return service


class TestStreams(RedisContract):
    pass


class TestPubSub(RedisContract):
    options = "?mode=pubsub"
