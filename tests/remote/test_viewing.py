"""Views on real brokers: made, shown and removed from the shell, and kept through a takeover."""

import asyncio
import json
from itertools import pairwise

from remote_kit import connect, nodes, run
from typer.testing import CliRunner

from unisono.cli.main import app


async def command(url, *words):
    """What a command prints, and why it failed; nodes may live in this process."""
    done = await asyncio.to_thread(
        CliRunner().invoke, app, ["views", *words, "--json"], env={"UNISONO_URL": url}
    )
    return json.loads(done.stdout) if done.stdout else str(done.exception)


def test_views_are_made_shown_and_removed(nats_url):
    async def main():
        async with nodes(nats_url, "n1", "n2"), connect(nats_url, "p") as bus:
            await bus.publish("orders.1", 1)
            added = await command(nats_url, "add", "desk", "orders.*", "stock")
            assert added["added"] == {"name": "desk", "names": ["orders.*", "stock"], "topics": ["orders.1"]}
            again = await command(nats_url, "add", "desk", "stock", "orders.*")
            assert again["epoch"] >= added["epoch"]
            assert "remove it first" in await command(nats_url, "add", "desk", "stock")
            await bus.publish("stock", 2)
            (view,) = (await command(nats_url, "list"))["views"]
            assert view["topics"] == ["orders.1", "stock"]
            receipts = [await bus.publish(topic, n) for n, topic in enumerate(("stock", "orders.1") * 5)]
            for one, other in pairwise(receipts):
                assert other.stamp[one.topic] >= one.stamp[one.topic]
            assert (await command(nats_url, "remove", "desk"))["removed"] == "desk"
            assert (await command(nats_url, "list"))["views"] == []
            assert "no view 'desk'" in await command(nats_url, "remove", "desk")

    run(main())


def test_a_durable_subscriber_has_a_view_until_its_place_is_removed(nats_url):
    async def main():
        async with nodes(nats_url, "n1"), connect(nats_url, "p") as bus:
            async with bus.subscribe("a", "b", name="desk", ack="auto"):
                pass
            (view,) = (await command(nats_url, "list"))["views"]
            assert (view["name"], view["names"]) == ("place.desk", ["a", "b"])
            words, env = ["places", "remove", "desk"], {"UNISONO_URL": nats_url}
            await asyncio.to_thread(CliRunner().invoke, app, words, env=env)
            assert (await command(nats_url, "list"))["views"] == []

    run(main())
