"""One broker of a kind for all tests of this folder in one process; each test has a prefix of its own."""

import itertools

import pytest
from shell_kit import Command

from unisono.testing.servers import mosquitto_server, nats_server, redis_server, why_no_mosquitto

_worlds = itertools.count(1)


@pytest.fixture(scope="session")
def nats_broker():
    with nats_server(jetstream=True) as server:
        yield server


@pytest.fixture(scope="session")
def redis_broker():
    with redis_server() as server:
        yield server


@pytest.fixture(scope="session")
def mqtt_broker():
    if (reason := why_no_mosquitto()) is not None:
        pytest.skip(reason)
    with mosquitto_server() as server:
        yield server


def _nats(broker):
    n = next(_worlds)
    return f"{broker.url}?prefix=w{n}.&bucket=w{n}&durability=memory"


@pytest.fixture
def nats_url(nats_broker):
    return _nats(nats_broker)


BROKERS = ["nats", "redis", "redis pub/sub", "mqtt", "mqtt qos 0"]


@pytest.fixture(params=BROKERS)
def url(request):
    """Each transport in turn."""
    if request.param == "nats":
        return _nats(request.getfixturevalue("nats_broker"))
    if request.param.startswith("redis"):
        mode = "&mode=pubsub" if "pub/sub" in request.param else ""
        return f"{request.getfixturevalue('redis_broker').url}?prefix=w{next(_worlds)}:{mode}"
    qos = "&qos=0" if "qos 0" in request.param else ""
    return f"{request.getfixturevalue('mqtt_broker').url}?prefix=w{next(_worlds)}/{qos}"


@pytest.fixture
def shell(nats_url):
    running = []

    def start(*words, url=nats_url, **options):
        command = Command(url, *words, **options)
        running.append(command)
        return command

    yield start
    for command in reversed(running):
        command.kill()
