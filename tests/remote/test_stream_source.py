"""The source of rows for Spark, driven as Spark drives it: the one order, exactly once, whatever happens in between."""

from __future__ import annotations

import asyncio
import json
import time

import msgspec
import pytest
from remote_kit import QUICK, connect, nodes, run, take
from stream_kit import Query, ddl, in_thread, read_batch

from unisono import ConfigError, GapError
from unisono.model.errors import DeletedError, ForgottenError
from unisono.pipeline.stream.options import sink_options, source_options
from unisono.pipeline.stream.rows import schema_of
from unisono.pipeline.stream.source import LiveReader
from unisono.runtime.remote.admin import delete_topics, list_views

SHORT = msgspec.structs.replace(
    QUICK,
    node=msgspec.structs.replace(
        QUICK.node, lane_records_max=40, lane_events_max=40, lane_records_kept=20, retain_records=100
    ),
)


async def publish(bus, count, topics="ab", first=0, many=10):
    """Events one by one, and bundles of them, in turns."""
    for n in range(first, first + count, many):
        events = [(topics[k % len(topics)], {"n": k}) for k in range(n, min(n + many, first + count))]
        if n // many % 2:
            await bus.publish_many(events)
        else:
            for topic, data in events:
                await bus.publish(topic, data)


async def heard(url, count, *topics):
    """What a subscriber is told from the start."""
    async with connect(url) as bus, bus.subscribe(*topics, start="earliest") as events:
        return await take(events, count)


def as_told(events):
    return [
        (e.topic, e.id, e.stamp[e.topic], json.dumps(e.data, separators=(",", ":")).encode()) for e in events
    ]


def as_read(rows):
    return [(r["topic"], r["id"], r["number"], r["value"]) for r in rows]


def test_rows_come_as_a_subscriber_is_told_them(nats_url):
    async def main():
        async with (
            nodes(nats_url, "n1", "n2"),
            connect(nats_url, "p") as bus,
            connect(nats_url, "q") as other,
        ):
            await publish(bus, 60)  # before anybody holds these together
            query = Query(nats_url, subscribe="a,b", startingOffsets="earliest")
            await in_thread(query.start)
            await in_thread(query.step, 25)
            await asyncio.gather(publish(bus, 100, first=100), publish(other, 100, first=200))
            rows = await in_thread(query.drain, 260, 17)
            assert as_read(rows) == as_told(await heard(nats_url, 260, "a", "b"))
            assert [r["position"] for r in rows] == list(range(1, 261))
            assert rows == await in_thread(read_batch, nats_url, subscribe="a,b"), (
                "a batch is what a stream was"
            )
            row = rows[-1]
            assert dict(row["stamp"])[row["topic"]] == row["number"]
            assert (row["in_order"], row["deadline"], row["content"]) == (True, None, "data")
            assert abs(row["published_at"].timestamp() - time.time()) < 60
            assert [v for v in (await list_views(nats_url)).views if v.startswith("spark.")], (
                "a view keeps the order"
            )
            await in_thread(query.stop)

    run(main())


def test_a_query_goes_on_from_its_checkpoint_and_batches_are_the_same_again(nats_url):
    async def main():
        async with (
            nodes(nats_url, "n1") as (first,),
            nodes(nats_url, "n2"),
            connect(nats_url, "p", publish_timeout=20) as bus,
        ):
            await publish(bus, 50)
            query = await in_thread(Query(nats_url, subscribe="a,b", startingOffsets="earliest").start)
            steps = []
            for n in range(6):
                before = query.checkpoint
                await publish(bus, 30, first=100 + 30 * n)
                rows = await in_thread(query.step, 40)
                steps.append((before, query.checkpoint, rows))
                if n == 1:
                    await first.close()  # its topics are taken over
                if n == 3:
                    await in_thread(query.stop)
                    query = Query(nats_url, query.checkpoint, subscribe="a,b")
                    query.rows = [row for step in steps for row in step[2]]
                    await in_thread(query.start)
            await in_thread(query.drain, 230, 40)
            assert as_read(query.rows) == as_told(await heard(nats_url, 230, "a", "b"))
            for start, end, rows in steps:
                assert await in_thread(query.read, start, end) == rows
            await in_thread(query.stop)

    run(main())


def test_where_to_begin_and_to_end(nats_url):
    async def main():
        async with nodes(nats_url, "n1"), connect(nats_url, "p") as bus:
            await publish(bus, 40, many=1)
            between = time.time()
            await publish(bus, 40, first=40, many=1)
            rows = await in_thread(read_batch, nats_url, subscribe="a,b")
            assert len(rows) == 80
            told = await in_thread(read_batch, nats_url, subscribe="a,b", startingOffsets='{"a": 7}')
            assert told == [row for row in rows if row["topic"] == "b" or row["number"] > 7]
            told = await in_thread(read_batch, nats_url, subscribe="a,b", endingOffsets='{"a": 3, "b": 2}')
            assert told == rows[:5]
            told = await in_thread(read_batch, nats_url, subscribe="a,b", startingTimestamp=str(between))
            assert told == rows[40:]
            told = await in_thread(read_batch, nats_url, subscribe="a,b", startingOffsets="latest")
            assert told == []
            told = await in_thread(
                read_batch, nats_url, subscribe="b", includeStamp="false", valueFormat="stored"
            )
            assert [row["number"] for row in told] == list(range(1, 41))
            assert msgspec.msgpack.decode(told[0]["value"]) == {"n": 1}
            assert "stamp" not in told[0]
            await bus.publish("a", b"raw", id="mine", headers={"h": "1"})
            (last,) = (await in_thread(read_batch, nats_url, subscribe="a", includeHeaders="true"))[-1:]
            assert (last["value"], last["content"], last["id"], last["headers"]) == (
                b"raw",
                "bytes",
                "mine",
                [("h", "1")],
            )

    run(main())


def test_a_pattern_brings_topics_that_are_made_later(nats_url):
    async def main():
        async with nodes(nats_url, "n1"), connect(nats_url, "p") as bus:
            await publish(bus, 10, ("x.1", "y"))
            query = await in_thread(Query(nats_url, subscribePattern="x.*", startingOffsets="earliest").start)
            await in_thread(query.drain, 5)
            await publish(bus, 30, ("x.1", "x.2", "x.3"))
            rows = await in_thread(query.drain, 35, 4)
            assert as_read(rows) == as_told(await heard(nats_url, 35, "x.*"))
            await in_thread(query.stop)

    run(main())


def test_what_is_not_kept_any_more_is_an_error_or_passed_over_as_asked(nats_url):
    async def main():
        async with nodes(nats_url, "n1", options=SHORT), connect(nats_url, "p") as bus:
            await publish(bus, 10)
            query = await in_thread(Query(nats_url, subscribe="a,b", startingOffsets="earliest").start)
            await in_thread(query.drain, 10)
            for n in range(8):
                await publish(bus, 60, first=100 + 60 * n)
                await bus.publish(f"new{n}", n)  # an epoch begins
            with pytest.raises(
                GapError, match=r"does not reach back .* numbers 6 to \d+ of 'a', .*failOnDataLoss=false"
            ):
                await in_thread(query.step)
            await in_thread(query.stop)
            query = Query(nats_url, query.checkpoint, subscribe="a,b", failOnDataLoss="false")
            rows = await in_thread(query.start().step)
            assert 0 < len(rows) < 480
            assert rows == (await in_thread(read_batch, nats_url, subscribe="a,b"))[-len(rows) :]
            with pytest.raises(GapError, match="does not reach back"):
                await in_thread(read_batch, nats_url, subscribe="a,b", startingOffsets='{"a": 1}')
            await in_thread(query.stop)

    run(main())


def test_a_topic_that_is_deleted_is_not_waited_for(nats_url):
    async def main():
        async with nodes(nats_url, "n1"), connect(nats_url, "p") as bus:
            await publish(bus, 10)
            query = await in_thread(Query(nats_url, subscribe="a,b", startingOffsets="earliest").start)
            await in_thread(query.drain, 10)
            await delete_topics(nats_url, ("b",))
            with pytest.raises(DeletedError, match=r"the topic 'b' was deleted: .* failOnDataLoss=false"):
                await in_thread(query.step)
            await in_thread(query.stop)
            query = Query(nats_url, query.checkpoint, subscribe="a,b", failOnDataLoss="false")
            await bus.publish("a", 1)
            assert [row["value"] for row in await in_thread(query.start().step)] == [b"1"]
            await in_thread(query.stop)
            assert len(await in_thread(read_batch, nats_url, subscribe="b")) == 5

    run(main())


def test_another_system_is_not_taken_for_the_one_of_the_checkpoint(nats_url):
    async def main():
        async with nodes(nats_url, "n1"), connect(nats_url, "p") as bus:
            await publish(bus, 10)
            query = await in_thread(Query(nats_url, subscribe="a", startingOffsets="earliest").start)
            query.checkpoint["world"] = "1"
            with pytest.raises(ForgottenError, match="made with another system"):
                await in_thread(query.step)
            query.checkpoint = {"epoch": 1}
            with pytest.raises(ConfigError, match="is no offset of this source"):
                await in_thread(query.step)
            await in_thread(query.stop)
            with pytest.raises(ConfigError, match="there is no topic 'typo'; see `unisono topics`"):
                await in_thread(read_batch, nats_url, subscribe="typo")
            with pytest.raises(ConfigError, match="offsets name 'b', which is not subscribed"):
                await in_thread(read_batch, nats_url, subscribe="a", startingOffsets='{"b": 1}')

    run(main())


def test_where_nothing_can_be_read(nats_url):
    with pytest.raises(ConfigError, match=r"there is no system at nats://.* start one"):
        read_batch(nats_url, subscribe="a")
    with pytest.raises(ConnectionError, match=r"no NATS server answers at 127\.0\.0\.1:1"):
        read_batch("nats://127.0.0.1:1", subscribe="a")
    for url in ("memory://", "nats://127.0.0.1:1?store=local"):
        with pytest.raises(ConfigError, match="keeps no lanes at the server"):
            read_batch(url, subscribe="a")


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (
            {"subscribe": "a", "kafka.bootstrap": "x"},
            "no option 'kafka.bootstrap'; it has .*subscribePattern",
        ),
        ({}, "exactly one of subscribe= .* and subscribePattern="),
        ({"subscribe": "a", "subscribePattern": "b.*"}, "exactly one of subscribe="),
        ({"subscribe": "a.*"}, "subscribe='a.\\*': .*wildcard"),
        ({"subscribe": "a,,b"}, "subscribe='': a topic cannot be empty"),
        ({"subscribe": "a", "startingOffsets": "first"}, "startingOffsets='first' is none"),
        ({"subscribe": "a", "startingOffsets": '{"a": -1}'}, "-1 is no number of 'a'"),
        ({"subscribe": "a", "startingTimestamp": "yesterday"}, "'yesterday' is none"),
        ({"subscribe": "a", "startingTimestamp": "1", "startingOffsets": "latest"}, "leave one of them out"),
        ({"subscribe": "a", "endingOffsets": "latest"}, "endingOffsets is for batches"),
        ({"subscribe": "a", "maxOffsetsPerTrigger": "0"}, "a whole number, 1 or more"),
        ({"subscribe": "a", "failOnDataLoss": "maybe"}, "it is true or false"),
        ({"subscribe": "a", "valueFormat": "xml"}, "it is json or stored"),
        ({"subscribe": "a", "user": "me"}, "user and password belong together"),
        ({"subscribe": "a", "credentials": "/nowhere"}, "say where the system is"),
    ],
)
def test_options_that_will_not_do(options, complaint):
    with pytest.raises(ConfigError, match=complaint):
        source_options({"url": "nats://h", **options}, streaming=True)


def test_options_of_batches_and_sinks_that_will_not_do(tmp_path):
    with pytest.raises(ConfigError, match="maxOffsetsPerTrigger is for streams"):
        source_options({"url": "nats://h", "subscribe": "a", "maxOffsetsPerTrigger": "1"}, streaming=False)
    with pytest.raises(ConfigError, match="is no file with a URL in it"):
        source_options({"credentials": str(tmp_path), "subscribe": "a"}, streaming=False)
    for options, complaint in (
        ({"subscribe": "a"}, "the sink has no option 'subscribe'"),
        ({"topic": "a.*"}, "topic='a.\\*': .*wildcard"),
        ({"batchId": "1"}, "say which one with queryId="),
    ):
        with pytest.raises(ConfigError, match=complaint):
            sink_options({"url": "nats://h", **options}, streaming=False)
    with pytest.raises(ConfigError, match="batchId is for batches"):
        sink_options({"url": "nats://h", "batchId": "1", "queryId": "q"}, streaming=True)


def test_columns_are_not_made_up():
    for more, last in (
        ({}, "stamp"),
        ({"includeHeaders": "true"}, "headers"),
        ({"includeStamp": "false"}, "epoch"),
    ):
        options = source_options({"url": "nats://h", "subscribe": "a", **more}, streaming=True)
        schema = ddl(schema_of(options))
        assert LiveReader(options, schema).schema.fieldNames()[-1] == last
        with pytest.raises(
            ConfigError, match=r"the columns of the source are position, topic, .*; leave .schema\(\) out"
        ):
            LiveReader(options, ddl("position BIGINT"))


def test_credentials_go_into_the_url(tmp_path):
    said = {
        "url": "nats://old:x@h:1?prefix=w.",
        "user": "me",
        "password": "a/b@c",
        "tls_ca": "/ca.pem",
        "SUBSCRIBE": "a",
    }
    options = source_options(said, streaming=True)
    assert options.url == "nats://me:a%2Fb%40c@h:1?prefix=w.&tls_ca=%2Fca.pem"
    (tmp_path / "node.toml").write_text('url = "nats://node:pw@h:1"\n')
    options = source_options({"credentials": str(tmp_path / "node.toml"), "subscribe": "a"}, streaming=True)
    assert options.url == "nats://node:pw@h:1"
