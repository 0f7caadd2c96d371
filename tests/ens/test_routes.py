"""Who hears a frame through which source, also while listeners change their minds; and where URLs lead."""

import asyncio
import sys

import pytest

from unisono.ens.options import read_address
from unisono.ens.outbox import OutageError, Outbox
from unisono.ens.registry import open_service
from unisono.ens.routes import Listener, Routes
from unisono.model.errors import ClosedError, ConfigError, UnconfirmedError


def follow(routes, listener, *topics):
    routes.join(listener, frozenset(topics))
    return routes.leave(listener, frozenset(topics))


def publish(routes, topic):
    """What a broker does: one copy for each source that means the topic."""
    from unisono.model.ids import matches

    for source in routes.sources:
        if matches(source, topic):
            routes.deliver(source, topic, topic.encode())


def test_a_topic_meant_twice_is_heard_once():
    routes, heard = Routes(), []
    listener = Listener(frozenset(), heard.append)
    follow(routes, listener, "a.b", "a.*", "a.>")
    publish(routes, "a.b")
    publish(routes, "a.c")
    assert heard == [b"a.b", b"a.c"]


def test_what_stays_is_heard_through_the_source_it_was_heard_through():
    routes, heard = Routes(), []
    listener = Listener(frozenset(), heard.append)
    follow(routes, listener, "a.>")
    assert follow(routes, listener, "a.b") == []  # the wide one stays for the sake of a.b
    publish(routes, "a.b")
    publish(routes, "a.c")
    assert heard == [b"a.b"]
    assert sorted(follow(routes, listener, "z")) == ["a.>", "a.b"]
    publish(routes, "z")
    assert heard == [b"a.b", b"z"]


def test_listeners_share_a_source():
    routes, one, other = Routes(), [], []
    first, second = Listener(frozenset(), one.append), Listener(frozenset(), other.append)
    assert routes.join(first, frozenset({"a"})) == ["a"]
    assert routes.join(second, frozenset({"a", "b"})) == ["b"]
    publish(routes, "a")
    assert one == other == [b"a"]
    assert routes.leave(first, frozenset()) == []
    assert sorted(routes.leave(second, frozenset())) == ["a", "b"]


def test_an_outbox_sends_again_what_was_not_taken():
    async def main():
        taken, failures = [], [2, 0, 1]

        async def send(batch):
            count = failures.pop(0) if failures else len(batch)
            taken.extend(p.frame for p in batch[:count])
            del batch[:count]
            if batch:
                raise OutageError

        outbox = Outbox("here", 100, 1000, send, 0.001)
        for n in range(5):
            outbox.put("t", b"%d" % n)
        sender = asyncio.create_task(outbox.run())
        await outbox.flush(1)
        assert taken == [b"0", b"1", b"2", b"3", b"4"]
        assert outbox.waiting == 0
        sender.cancel()

    asyncio.run(main())


def test_an_outbox_does_not_let_a_flush_wait_for_ever():
    async def main():
        async def send(batch):
            raise OutageError

        outbox = Outbox("here", 100, 1000, send, 0.001)
        outbox.put("t", b"x")
        sender = asyncio.create_task(outbox.run())
        with pytest.raises(UnconfirmedError, match=r"1 frames still wait for here after 0.02 s"):
            await outbox.flush(0.02)
        flushing = asyncio.create_task(outbox.flush(5))
        await asyncio.sleep(0)
        outbox.close("here is closed")
        with pytest.raises(ClosedError, match="here is closed"):
            await flushing
        sender.cancel()

    asyncio.run(main())


@pytest.mark.parametrize("scheme", ["nats", "redis", "mqtt"])
@pytest.mark.parametrize(
    ("rest", "says"),
    [
        ("h?speed=9", "has no option 'speed'; it has"),
        ("h?outbox=0", "option outbox='0' will not do: expected `int` >= 1"),
        ("h?outbox=many", "option outbox='many' will not do: expected `int`"),
        ("h?connect_timeout=-1", "option connect_timeout='-1' will not do: expected `float` > 0"),
        ("h?tls=perhaps", "option tls='perhaps' will not do: expected `bool`"),
        ("h?prefix=", "option prefix=''; it is words"),
        ("h?tls_key=k.pem", "tls_key needs tls_cert"),
        ("h?tls_ca=/no/such/file.pem", "cannot use the TLS files /no/such/file.pem"),
        ("h:port", "is not an address"),
        ("h:70000", "is not an address"),
        ("h/some/where", "some/where"),
    ],
)
def test_bad_urls_are_refused_by_name(scheme, rest, says):
    with pytest.raises(ConfigError) as refused:
        open_service(f"{scheme}://{rest}")
    assert says in str(refused.value)


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("redis://h?mode=lists", "mode='lists' will not do"),
        ("mqtt://h?qos=2", "qos='2' will not do: expected `int` <= 1"),
        ("nats://h?jetstream=S&storage=tape", "it is 'file' or 'memory'"),
    ],
)
def test_a_broker_has_its_own_options(url, says):
    with pytest.raises(ConfigError) as refused:
        open_service(url)
    assert says in str(refused.value)


@pytest.mark.parametrize(("scheme", "client"), [("nats", "nats"), ("redis", "redis"), ("mqtt", "aiomqtt")])
def test_a_missing_extra_is_named(monkeypatch, scheme, client):
    for name in [name for name in sys.modules if name == client or name.startswith(f"{client}.")]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, client, None)
    monkeypatch.delitem(sys.modules, f"unisono.ens.{scheme}", raising=False)
    with pytest.raises(ConfigError, match=rf"{scheme}:// needs the extra: pip install 'unisono\[{scheme}\]'"):
        open_service(f"{scheme}://")


def test_an_address_is_taken_apart():
    address = read_address("redis", "us%40er:p%3Aw@[::1]:7000/3", 6379)
    assert (address.user, address.password, address.path) == ("us@er", "p:w", "3")
    assert str(address) == "[::1]:7000"
    assert str(read_address("nats", "", 4222)) == "127.0.0.1:4222"
