"""Topics are deleted on a real broker: nothing more comes, what was there stays told."""

import asyncio
import json

import pytest
from remote_kit import connect, nodes, run
from typer.testing import CliRunner

from unisono import DeletedError, UnisonoError
from unisono.cli.main import app


async def topics(url, *words):
    """What `unisono topics` prints, or why it failed."""
    done = await asyncio.to_thread(
        CliRunner().invoke, app, ["topics", *words, "--json"], env={"UNISONO_URL": url}
    )
    return json.loads(done.stdout) if done.stdout else str(done.exception)


def test_a_deleted_topic_takes_no_more_events_and_keeps_its_past(nats_url):
    async def main():
        async with nodes(nats_url, "n1", "n2"), connect(nats_url, "p") as bus:
            async with bus.subscribe("old", "new") as events:
                first = await bus.publish("old", 1, id="one")
                assert "no topic 'odd'" in await topics(nats_url, "--delete", "odd")
                assert (await topics(nats_url, "--delete", "old"))["deleted"] == ["old"]
                with pytest.raises(DeletedError, match="'old' was deleted"):
                    await bus.publish("old", 2)
                async with connect(nats_url, "q") as other:
                    again = await other.publish("old", 1, id="one")
                    assert again.duplicate
                    assert again.stamp == first.stamp
                    with pytest.raises(UnisonoError, match="'old' was deleted"):
                        async with other.subscribe("old"):
                            pass
                    await other.publish("new", 3)
                assert [(await events.get_one(timeout=20)).data for _ in range(2)] == [1, 3]
            deleted = {row["topic"]: row["deleted"] for row in (await topics(nats_url))["topics"]}
            assert deleted == {"new": False, "old": True}
            async with bus.subscribe("old", "new", start="earliest") as past:
                assert [(await past.get_one(timeout=20)).data for _ in range(2)] == [1, 3]

    run(main())
