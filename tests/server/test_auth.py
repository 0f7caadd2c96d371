"""What the server lets nodes and clients do, and what it refuses: each of them tried on the real server."""

import asyncio
import json
import tomllib
from contextlib import asynccontextmanager
from urllib.parse import parse_qs, unquote, urlsplit

import nats
import pytest
from nats.js.api import StreamConfig
from server_kit import in_a_loop, until

from unisono.ens.registry import open_service
from unisono.model.errors import ConfigError, ServerError, UnconfirmedError
from unisono.server import BundledServer, Credentials, ServerSettings
from unisono.server.auth import client_permissions, node_permissions

READ_CONTROL = json.dumps({"last_by_subj": "$KV.unisono.control"}).encode()
JETSTREAM = [
    "$JS.API.INFO",
    "$JS.API.STREAM.INFO.KV_unisono",
    "$JS.API.STREAM.MSG.GET.KV_unisono",
    "$JS.API.DIRECT.GET.KV_unisono.$KV.unisono.control",
    "$JS.API.CONSUMER.CREATE.KV_unisono.x.$KV.unisono.>",
    "$JS.API.CONSUMER.MSG.NEXT.lanes.x",
    "$JS.API.STREAM.CREATE.mine",
    "$JS.API.STREAM.DELETE.lanes",
    "$JS.API.STREAM.PURGE.KV_unisono",
    "$JS.ACK.lanes.x.1.1.1.1.0",
    "$JS.FC.lanes.x.y",
]


@asynccontextmanager
async def connected(url):
    """A plain client, with the errors that the server tells it in `refused`."""
    parts = urlsplit(url)
    refused = []

    async def on_error(error):
        refused.append(str(error))

    client = await nats.connect(
        f"nats://{parts.hostname}:{parts.port}",
        user=unquote(parts.username),
        password=unquote(parts.password),
        inbox_prefix=parse_qs(parts.query)["inbox"][0],
        error_cb=on_error,
        allow_reconnect=False,
    )
    client.refused = refused
    try:
        yield client
    finally:
        await client.close()


async def settled(client):
    """The server has seen what we sent, and we what it said; the first PING may overtake what is pending."""
    for _ in range(2):
        await client.flush()


async def is_admitted(url):
    """Whether the server lets somebody with these credentials in."""
    service = open_service(url)
    try:
        await service.connect()
        return True
    except ConnectionError as error:
        if "does not admit" not in str(error):
            raise
        return False
    finally:
        await service.close()


@asynccontextmanager
async def world(tmp_path):
    """A server with a node, two clients, a control record and a lane."""
    settings = ServerSettings(data=tmp_path, auth=True, clients=("desk", "rival"))
    async with (
        BundledServer(settings) as server,
        connected(server.node_url) as node,
        connected(server.client_url("desk")) as desk,
        connected(server.client_url("rival")) as rival,
    ):
        bucket = await node.jetstream().create_key_value(bucket="unisono", history=3)
        await bucket.put("control", b"the record")
        await node.jetstream().add_stream(StreamConfig(name="lanes", subjects=["u-lane.>"]))
        yield server, node, desk, rival


async def hear(client, *subjects):
    """What this client hears on these subjects, as a list that grows."""
    heard = []

    async def cb(message):
        heard.append((message.subject, message.data))

    for subject in subjects:
        await client.subscribe(subject, cb=cb)
    await settled(client)
    return heard


@in_a_loop
async def test_what_a_client_may_do(tmp_path):
    async with world(tmp_path) as (_, node, desk, rival):
        asked = await hear(node, "u.in.>")
        heard = await hear(desk, "u.e.>", "u.ctl", "u.out.desk.>", "_INBOX.desk.>")
        await desk.publish("u.in.n1.desk.0", b"a stamp, please")
        await desk.publish("u.in.any.desk.ctl", b"the control record, please")
        await settled(desk)
        await until(lambda: len(asked) == 2)
        for subject in ("u.e.orders", "u.e.orders.eu", "u.ctl", "u.out.desk.0.n1"):
            await node.publish(subject, b"for the desk")
        await node.publish("u.out.rival.0.n1", b"for the rival")
        await settled(node)
        await until(lambda: len(heard) == 4)
        assert {subject for subject, _ in heard} == {
            "u.e.orders",
            "u.e.orders.eu",
            "u.ctl",
            "u.out.desk.0.n1",
        }
        assert desk.refused == rival.refused == node.refused == []


@in_a_loop
async def test_what_a_client_may_not_publish(tmp_path):
    async with world(tmp_path) as (_, node, desk, rival):
        heard = await hear(node, "u.>", "$KV.>")
        denied = [
            "u.e.orders",  # a stamped event
            "u.ctl",
            "u.in.n1.rival.0",  # in another's name
            "u.in.n1.node.0",
            "u.in.n1.desk",
            "u.in.n1.desk.0.more",
            "u.in.desk.n1.0",
            "u.out.rival.0.n1",  # an answer
            "u.out.desk.0.n1",
            "u-lane.1",
            "$KV.unisono.control",
            "_INBOX.rival.x",
            "_INBOX.node.x",
            "_INBOX.desk.x",
            "u.other",
            "anything",
            "$SYS.REQ.SERVER.PING",
            *JETSTREAM,
        ]
        for subject in denied:
            for reply in ("", "u.in.n1.desk.0"):
                desk.refused.clear()
                await desk.publish(subject, b"forged", reply=reply)
                await settled(desk)
                assert desk.refused == [f'nats: permissions violation for publish to "{subject.lower()}"'], (
                    subject
                )
        assert desk.is_connected
        await settled(node)
        assert heard == []
        assert (await (await node.jetstream().key_value("unisono")).get("control")).value == b"the record"
        assert (await node.jetstream().stream_info("lanes")).state.messages == 0
        assert rival.refused == []


@in_a_loop
async def test_what_a_client_may_not_hear(tmp_path):
    async with world(tmp_path) as (_, node, desk, _rival):
        denied = [
            ">",
            "*",
            "u.>",
            "u.*.>",
            "u.in.>",
            "u.in.n1.rival.0",
            "u.in.n1.desk.0",
            "u.out.>",
            "u.out.rival.>",
            "u.out.*.0.n1",
            "u-lane.>",
            "$KV.unisono.>",
            "$KV.>",
            "_INBOX.>",
            "_INBOX.rival.>",
            "_INBOX.node.>",
            "$JS.API.>",
            "$JS.EVENT.ADVISORY.>",
            "$SYS.>",
        ]
        heard = []

        async def cb(message):
            heard.append(message.subject)

        for subject in denied:
            desk.refused.clear()
            await desk.subscribe(subject, cb=cb)
            await desk.subscribe(subject, queue="nodes", cb=cb)
            await settled(desk)
            assert len(desk.refused) == 2, subject
            assert all("permissions violation for subscription" in said for said in desk.refused), (
                desk.refused
            )
        for subject in (
            "u.in.n1.rival.0",
            "u.out.rival.0.n1",
            "u-lane.1",
            "$KV.unisono.control",
            "_INBOX.node.x",
        ):
            await node.publish(subject, b"secret")
        await settled(node)
        await settled(desk)
        assert heard == []


@in_a_loop
async def test_what_a_node_may_do(tmp_path):
    async with world(tmp_path) as (_, node, _desk, _rival):
        heard = await hear(node, "u.in.>", "u-lane.>")
        for subject in ("u.e.orders", "u.ctl", "u.in.n2.node.0", "u.out.desk.0.n1", "u-lane.7"):
            await node.publish(subject, b"x")
        stream = node.jetstream()
        assert (await stream.publish("u-lane.1", b"y")).seq == 2
        bucket = await stream.key_value("unisono")
        entry = await bucket.get("control")
        await bucket.update("control", b"the next", last=entry.revision)
        watch = await bucket.watch("control")
        assert (await watch.updates(timeout=5)).value == b"the next"
        await watch.stop()
        pull = await stream.pull_subscribe("u-lane.>", durable="reader")
        for message in await pull.fetch(2, timeout=5):
            await message.ack_sync()
        push = await stream.subscribe("u-lane.>", ordered_consumer=True)
        assert (await push.next_msg(timeout=5)).data == b"x"
        await push.unsubscribe()
        await stream.add_stream(StreamConfig(name="more", subjects=["u.more.>"]))
        await stream.delete_stream("more")
        await until(lambda: len(heard) == 3)
        assert node.refused == []
        await node.publish("elsewhere", b"x")
        await settled(node)
        assert node.refused


@in_a_loop
async def test_nobody_else_is_admitted(tmp_path):
    async with world(tmp_path) as (server, *_):
        for user, password in ((None, None), ("desk", "guess"), ("node", ""), ("nobody", "x")):
            who = "" if user is None else f"{user}:{password}@"
            assert not await is_admitted(f"nats://{who}{server.address}")


@in_a_loop
async def test_why_clients_may_not_even_read_the_bucket(tmp_path):
    """The server writes its answer wherever the request says, with its own rights: reading would be writing."""
    settings = ServerSettings(data=tmp_path, auth=True, clients=("desk",))
    async with BundledServer(settings) as server, connected(server.node_url) as node:
        users = tmp_path / "users.conf"
        mine = '["u.in.*.desk.*"'
        assert mine in users.read_text()
        users.write_text(users.read_text().replace(mine, f'{mine}, "$JS.API.STREAM.MSG.GET.KV_unisono"'))
        await server.reload()
        bucket = await node.jetstream().create_key_value(bucket="unisono")
        await bucket.put("control", b"the record")
        async with connected(server.client_url("desk")) as desk:
            subject = "$JS.API.STREAM.MSG.GET.KV_unisono"
            await desk.publish(subject, READ_CONTROL, reply="$KV.unisono.control")
            await settled(desk)
            assert desk.refused == []
        async with asyncio.timeout(10):
            while (await bucket.get("control")).value == b"the record":  # noqa: ASYNC110
                await asyncio.sleep(0.02)


@in_a_loop
async def test_clients_come_and_go_at_run_time_and_nobody_else_notices(tmp_path):
    async with world(tmp_path) as (server, node, desk, rival):
        asked = await hear(node, "u.in.>")
        url = await server.add_client("late")
        async with connected(url) as late:
            await late.publish("u.in.n1.late.0", b"hello")
            await late.publish("u.in.n1.desk.0", b"forged")
            await settled(late)
            assert len(late.refused) == 1
            await until(lambda: asked == [("u.in.n1.late.0", b"hello")])
            for name in ("later", "latest"):
                await server.add_client(name)
            assert await server.add_client("late") == url  # a second time is no harm
            await server.remove_client("late")
            await until(lambda: late.is_closed)
        assert not await is_admitted(url)
        assert desk.is_connected
        assert rival.is_connected
        assert node.stats["reconnects"] == 0
        assert desk.refused == rival.refused == node.refused == []
        await desk.publish("u.in.n1.desk.0", b"still here")
        await settled(desk)
        await until(lambda: len(asked) == 2)
        assert server.credentials.clients() == ["desk", "later", "latest", "rival"]


@in_a_loop
async def test_credentials_are_files_for_us_alone_and_stay(tmp_path):
    settings = ServerSettings(data=tmp_path, auth=True, clients=("desk",))
    async with BundledServer(settings) as server:
        first = server.client_url("desk")
        await server.add_client("late")
    files = {path.name: path for path in (tmp_path / "credentials").iterdir()}
    assert set(files) == {"node.toml", "client-desk.toml", "client-late.toml"}
    for path in (*files.values(), tmp_path / "users.conf", tmp_path / "nats.conf"):
        assert path.stat().st_mode & 0o777 == 0o600, path
    assert (tmp_path / "credentials").stat().st_mode & 0o777 == 0o700
    assert tomllib.loads(files["client-desk.toml"].read_text())["url"] == first
    assert urlsplit(first).password not in files["client-late.toml"].read_text()
    async with BundledServer(settings) as server:  # at another port, with the same passwords
        assert urlsplit(server.client_url("desk")).password == urlsplit(first).password
        assert urlsplit(server.client_url("desk")).port == server.port
        async with connected(server.client_url("late")):
            pass


@in_a_loop
async def test_our_own_service_connects_with_them_and_tells_what_is_refused(tmp_path):
    async with world(tmp_path) as (server, node, *_):
        service = open_service(server.client_url("desk") + "&prefix=u.e.")
        troubles = []
        service.on_trouble = troubles.append
        await service.connect()
        heard = []
        await service.subscribe(frozenset({"orders"}), heard.append)
        await node.publish("u.e.orders", b"stamped")
        await until(lambda: heard == [b"stamped"])
        service.publish(("orders",), b"forged")
        await service.flush()
        await until(lambda: len(troubles) == 1)
        assert 'permissions violation for publish to "u.e.orders"' in str(troubles[0])
        await service.close()
        durable = open_service(
            server.node_url + "&jetstream=EVENTS&prefix=u.events."
        )  # answers come to its own inbox
        await durable.connect()
        heard.clear()
        await durable.subscribe(frozenset({"orders"}), heard.append)
        durable.publish(("orders",), b"kept")
        await durable.flush()
        await until(lambda: heard == [b"kept"])
        await durable.close()


@in_a_loop
async def test_a_node_keeps_records_and_lanes_and_a_client_does_not(tmp_path):
    settings = ServerSettings(data=tmp_path, auth=True)
    async with BundledServer(settings) as server:
        service = open_service(server.node_url)
        await service.connect()
        store = service.store()
        await store.open()
        told = []
        watch = await store.watch("control", lambda revision, value: told.append(value))
        assert await store.decide("control", b"the record", 0) is not None
        await until(lambda: told == [b"the record"])
        assert await store.append("orders.eu", b"an event", 0) == 1
        assert (await store.read("orders.eu"))[0] == [(1, b"an event")]
        await watch.close()
        client = open_service(server.client_url() + "&flush_timeout=1&connect_timeout=1")
        client.on_trouble = lambda error: None
        await client.connect()
        with pytest.raises((ConnectionError, UnconfirmedError)):
            await client.store().open()
        assert await store.look("control") is not None
        await client.close()
        await service.close()


def test_the_sets_as_they_are_documented():
    client = client_permissions("u.", "desk")
    assert client.publish == ("u.in.*.desk.*", "u.d.desk.>", "u.p.desk.>")
    assert client.subscribe == ("u.e.>", "u.d.>", "u.p.>", "u.ctl", "u.beat", "u.out.desk.>", "_INBOX.desk.>")
    node = node_permissions("u.")
    assert node.publish == ("u.>", "u-lane.>", "$KV.>", "$JS.API.>", "$JS.ACK.>", "$JS.FC.>")
    assert node.subscribe == ("u.>", "u-lane.>", "$KV.>", "_INBOX.node.>")


@pytest.mark.parametrize("name", ["", "a.b", "*", ">", "node", "a b", "x" * 65, "../up", 'a"b'])
def test_names_that_no_client_may_have(tmp_path, name):
    with pytest.raises(ConfigError, match="is no name for a client"):
        Credentials(tmp_path).prepare("127.0.0.1:1", {}, [name])


def test_credentials_that_others_can_read_or_that_are_none(tmp_path):
    credentials = Credentials(tmp_path)
    with pytest.raises(ServerError, match="there are no credentials at"):
        credentials.url("desk")
    credentials.prepare("127.0.0.1:1", {}, ["desk"])
    credentials.path("desk").chmod(0o644)
    with pytest.raises(ServerError, match="can be read by others; 'chmod 600' it"):
        credentials.url("desk")
    credentials.path("desk").chmod(0o600)
    credentials.path("desk").write_text("url = 7\n")
    with pytest.raises(ServerError, match="is not readable as credentials"):
        credentials.url("desk")
    credentials.path("desk").write_text('url = "nats://127.0.0.1"\n')
    with pytest.raises(ServerError, match="has a URL without user and password"):
        credentials.write_users()


@in_a_loop
async def test_without_auth_there_are_no_names(tmp_path):
    async with BundledServer(ServerSettings(data=tmp_path)) as server:
        with pytest.raises(ServerError, match="everybody is admitted here"):
            await server.add_client("desk")
