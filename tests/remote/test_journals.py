"""Journals of several processes about the same bundles: what different parts of them say of one event agrees."""

from remote_kit import connect, nodes, run, take

from unisono.history import Kind, Outcome, judge
from unisono.journal import read_records

ROWS = [("a", "b", "c"), ("a", "b"), ("b", "c"), ("c",)]


def test_subscribers_of_different_parts_of_bundles_keep_journals_that_agree(nats_url, tmp_path):
    """Found by the audit of the demo, and by nothing in the suite."""

    async def scenario():
        async with nodes(nats_url, "n1"), connect(nats_url, "p", journal=tmp_path) as bus:
            buses = [connect(nats_url, f"s{i}", journal=tmp_path) for i in range(len(ROWS))]
            subscriptions = []
            for other, topics in zip(buses, ROWS, strict=True):
                await other.__aenter__()
                subscription = other.subscribe(*topics)
                await subscription.open()
                subscriptions.append(subscription)
            await bus.publish_many([("abc"[n // 2 % 3], b"%d" % n) for n in range(900)])
            heard = [
                sum(topic in topics for topic in ["abc"[n // 2 % 3] for n in range(900)]) for topics in ROWS
            ]
            for subscription, count in zip(subscriptions, heard, strict=True):
                await take(subscription, count)
            for other in buses:
                await other.__aexit__(None, None, None)
        return sum(heard)

    count = run(scenario())
    records = read_records(tmp_path)
    delivered = [record for record in records if record.kind is Kind.DELIVERED]
    assert len(delivered) == count
    stamps = {}
    for record in delivered:
        assert stamps.setdefault(record.event, record.stamp) == record.stamp
    verdicts = judge(records)
    assert all(verdict.outcome is not Outcome.VIOLATED for verdict in verdicts)
