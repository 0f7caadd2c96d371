"""The store inside a process passes the contract; services without a store say so."""

import asyncio
import logging

import pytest

from unisono.ens.memory import MemoryService
from unisono.ens.registry import open_service
from unisono.ens.store import open_store
from unisono.model.errors import ConfigError
from unisono.testing import StoreContract


@pytest.fixture(autouse=True)
def _quiet(caplog):
    caplog.set_level(logging.CRITICAL + 1, "unisono")


class TestLocal(StoreContract):
    def make_service(self):
        if not hasattr(self, "_service"):
            self._service = MemoryService()
        return self._service


def test_a_store_in_memory_is_nobody_elses():
    async def main():
        one, other = [await open_store(open_service("memory://")) for _ in range(2)]
        assert not one.shared
        await one.append("lane", b"x")
        assert await other.read("lane") == ([], 0)
        named = [await open_store(open_service("memory://shelf")) for _ in range(2)]
        await named[0].append("lane", b"x")

    asyncio.run(main())


def test_a_service_without_a_store_names_those_that_have_one():
    class Bare:
        pass

    with pytest.raises(ConfigError, match=r"Bare has no store .* use nats:// \(JetStream\), redis://"):
        asyncio.run(open_store(Bare()))
