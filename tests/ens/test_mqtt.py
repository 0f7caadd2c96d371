"""MQTT passes the contract against a real Mosquitto, and survives what happens to brokers."""

import dataclasses

import pytest

from unisono.ens.registry import open_service
from unisono.testing import EnsContract
from unisono.testing.servers import mosquitto_server, why_no_mosquitto

pytestmark = pytest.mark.skipif(why_no_mosquitto() is not None, reason=str(why_no_mosquitto()))


@pytest.fixture(scope="module")
def server():
    with mosquitto_server() as running:
        yield running


class MqttContract(EnsContract):
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


class TestQos1(MqttContract):
    pass


class TestQos0(MqttContract):
    options = "?qos=0"
