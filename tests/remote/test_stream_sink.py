"""The sink for Spark, driven as Spark drives it: each row becomes one event, however often its batch is written."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest
from remote_kit import QUICK, connect, nodes, run
from stream_kit import ddl, in_thread, read_batch, write

from unisono import ConfigError, GapError, PayloadError
from unisono.ens.registry import open_service
from unisono.ens.store import open_store
from unisono.pipeline.stream.link import close_link
from unisono.pipeline.stream.marks import Mark, key_of
from unisono.pipeline.stream.options import sink_options
from unisono.pipeline.stream.sink import BatchWriter, LiveWriter
from unisono.server.bundled import BundledServer
from unisono.server.settings import ServerSettings

ROWS = [{"topic": "ab"[n % 2], "value": b"%d" % n} for n in range(1000)]


async def values(url, topics="a,b"):
    return [int(row["value"]) for row in await in_thread(read_batch, url, subscribe=topics)]


def system(url, scenario, options=QUICK):
    """A node, and what is done with it."""

    async def main():
        async with nodes(url, "n1", options=options):
            try:
                await scenario()
            finally:
                await in_thread(close_link, url)

    run(main())


def test_rows_become_events_in_their_order(nats_url):
    async def main():
        done = await in_thread(write, nats_url, ROWS)
        assert (done.published, done.found) == (1000, 0)
        assert await values(nats_url) == list(range(1000))
        rows = [{"value": b"1", "headers": [("h", "x")]}, {"value": b"2", "headers": None}]
        await in_thread(write, nats_url, rows, query="r", topic="c")
        told = await in_thread(read_batch, nats_url, subscribe="c", includeHeaders="true")
        assert [(row["value"], row["headers"]) for row in told] == [(b"1", [("h", "x")]), (b"2", [])]
        await in_thread(
            write, nats_url, [{"topic": "j", "value": b'{"a": [1]}'}], query="s", valueFormat="json"
        )
        (row,) = await in_thread(read_batch, nats_url, subscribe="j")
        assert (row["value"], row["content"]) == (b'{"a":[1]}', "data")

    system(nats_url, main)


def test_a_batch_that_is_written_again_changes_nothing(nats_url):
    async def main():
        await in_thread(write, nats_url, ROWS)
        done = await in_thread(write, nats_url, ROWS)
        assert (done.published, done.found) == (0, 1000)
        await in_thread(write, nats_url, [{"topic": "a", "value": b"7000"}], batch=1)
        done = await in_thread(write, nats_url, ROWS)  # an older batch
        assert done.published == 0
        assert await values(nats_url) == [*range(1000), 7000]

    system(nats_url, main)


@pytest.mark.parametrize("key", [False, True], ids=["by row", "by a column"])
def test_what_an_attempt_has_left_is_found_in_the_log(nats_url, key):
    rows = [row | ({"key": f"k{n}"} if key else {}) for n, row in enumerate(ROWS)]
    options = {"idColumn": "key"} if key else {}

    async def main():
        with pytest.raises(InterruptedError):
            await in_thread(write, nats_url, [*rows[:500], None], **options)
        await in_thread(close_link, nats_url)  # the worker is gone, with what it knew
        async with connect(nats_url, "p") as bus:
            await bus.publish("other", 1)  # an epoch begins
        again = rows if not key else [*reversed(rows)]
        done = await in_thread(write, nats_url, again, **options)
        assert done.found >= 400, "what was confirmed is found; the last window may be"
        assert done.published + done.found == 1000
        assert sorted(await values(nats_url)) == list(range(1000))

    system(nats_url, main)


def test_nodes_that_have_forgotten_ids_do_not_matter(nats_url):
    """More ids than nodes carry over into the next epoch: only the log remembers all of them."""
    many = [{"topic": "a", "value": b"%d" % n} for n in range(40_000)]

    async def main():
        with pytest.raises(InterruptedError):
            await in_thread(write, nats_url, [*many[:39_900], None])
        await in_thread(close_link, nats_url)
        async with connect(nats_url, "p") as bus:
            await bus.publish("other", 1)
        await in_thread(write, nats_url, many)
        assert sorted(await values(nats_url, "a")) == list(range(40_000))

    system(nats_url, main)


def test_two_attempts_at_once_make_one_event_of_each_row(nats_url):
    async def main():
        async with connect(nats_url, "p") as bus:
            await bus.publish("a", b"-1")
            await bus.publish("b", b"-2")
        url = f"{nats_url}&name=other"  # another worker's connection
        await asyncio.gather(in_thread(write, nats_url, ROWS), in_thread(write, url, ROWS))
        await in_thread(close_link, url)
        assert sorted(await values(nats_url)) == [-2, -1, *range(1000)]

    system(nats_url, main)


def test_where_nobody_can_tell_what_was_published(nats_url):
    async def main():
        async with connect(nats_url, "p") as bus:
            for n in range(4):
                await bus.publish(f"t{n}", n)
        service = open_service(nats_url)
        await service.connect()
        store = await open_store(service)
        world = int.from_bytes((await store.look("world"))[1])
        await store.decide(key_of("q", 0), msgspec.msgpack.encode(Mark(0, world, -5)), 0)
        await service.close()
        with pytest.raises(
            GapError, match=r"batch 0 was begun and not finished.* failOnDataLoss=false publishes it again"
        ):
            await in_thread(write, nats_url, ROWS)
        await in_thread(write, nats_url, ROWS, failOnDataLoss="false")
        assert await values(nats_url) == list(range(1000))

    system(nats_url, main)


@pytest.mark.parametrize(
    ("columns", "options", "complaint"),
    [
        ("value BINARY", {}, "need a column 'topic' \\(or the option topic=\\)"),
        ("topic STRING", {}, "need a column 'value'"),
        ("topic STRING, value BIGINT", {}, "'value' is bigint; cast it to string or binary"),
        ("topic STRING, value STRING", {"idColumn": "key"}, "need a column 'key'"),
        ("topic STRING, value STRING", {"topic": "a"}, "contradict each other"),
        ("topic STRING, value STRING, price BIGINT", {}, "'price' has no place in an event"),
        ("topic STRING, value STRING, headers STRING", {}, "cast it to map<string,string>"),
    ],
)
def test_rows_that_cannot_be_events(columns, options, complaint):
    with pytest.raises(ConfigError, match=complaint):
        LiveWriter(
            sink_options({"url": "nats://h", **options}, streaming=True), ddl(columns), overwrite=False
        )


def test_values_that_cannot_be_published(nats_url):
    with pytest.raises(ConfigError, match="events cannot be taken back"):
        BatchWriter(
            sink_options({"url": "nats://h"}, streaming=False),
            ddl("topic STRING, value STRING"),
            overwrite=True,
        )

    async def main():
        with pytest.raises(ConfigError, match="row 1 of partition 0 has no value; filter such rows out"):
            await in_thread(write, nats_url, [{"topic": "a", "value": b"1"}, {"topic": "a", "value": None}])
        with pytest.raises(PayloadError, match="is no JSON"):
            await in_thread(write, nats_url, [{"topic": "a", "value": b"{"}], valueFormat="json")

    system(nats_url, main)


def test_credentials_of_a_client_do_not_read_lanes(tmp_path: Path):
    async def main():
        async with BundledServer(ServerSettings(data=tmp_path, auth=True, clients=("desk",))) as server:
            node = server.credentials.url("node")
            async with nodes(node, "n1"):
                async with connect(server.credentials.url("desk"), "desk") as bus:
                    await bus.publish("a", 1)
                path = str(server.credentials.path("node"))
                assert len(await in_thread(read_batch, credentials=path, subscribe="a")) == 1
                with pytest.raises(
                    ConfigError, match=r"does not let us read the lanes .*credentials/node.toml"
                ):
                    await in_thread(
                        read_batch, credentials=str(server.credentials.path("desk")), subscribe="a"
                    )
                where = node.rpartition("@")[2].partition("?")[0]
                with pytest.raises(ConnectionError, match="does not admit user 'node'"):
                    await in_thread(
                        read_batch, url=f"nats://{where}", user="node", password="wrong", subscribe="a"
                    )

    run(main())
