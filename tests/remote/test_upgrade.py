"""Nodes that are replaced while events flow: restarted one by one, and upgraded from the release before."""

import asyncio
import json
import os
import sys

import pytest
from load_kit import loaded
from outage_kit import until
from process_kit import has_previous_release, node_processes, previous_release, replacements
from remote_kit import nodes, run

from unisono.model.release import SPEAKS
from unisono.runtime.remote.admin import look

pytestmark = pytest.mark.durability

BOUND_S = 120.0
PAUSE_S = 15.0  # on a machine that may be busy with other things

PREVIOUS = pytest.mark.skipif(
    not has_previous_release(), reason="the release before is not in this copy's history"
)


@pytest.fixture(params=["nats", "redis"])
def plain_url(request):
    """Without options that the release before does not have."""
    world = f"up{abs(hash(request.node.name)) % 10**6}"
    broker = request.getfixturevalue(f"{request.param}_broker")
    options = f"prefix={world}.&bucket={world}" if request.param == "nats" else f"prefix={world}:"
    return f"{broker.url}?{options}"


async def restart_one_by_one(processes, replacements, load):
    """Each is asked to end, and its replacement started; returns the longest pause of a publisher."""
    pauses = []
    for old, new in zip(processes, replacements, strict=True):
        load.longest_s = 0.0
        assert await old.stop() == 0
        await new.start()
        pauses.append(load.longest_s)
    return max(pauses)


@pytest.mark.parametrize("count", [2, 3])
def test_nodes_restarted_one_after_the_other_lose_nothing(nats_url, count, capsys):
    async def scenario():
        names = [f"n{i}" for i in range(count)]
        async with node_processes(nats_url, *names) as processes, loaded(nats_url, 1.0) as load:
            pause_s = await restart_one_by_one(processes, processes, load)
            assert pause_s < PAUSE_S
            with capsys.disabled():
                print(f" {count} nodes, longest pause {pause_s * 1000:.0f} ms ", end="")

    run(scenario(), BOUND_S)


@PREVIOUS
def test_nodes_upgraded_one_after_the_other_lose_nothing(plain_url):
    """Clients of this release; half-way, nodes of both releases share the topics."""

    async def scenario():
        names = ("n1", "n2", "n3")
        async with (
            node_processes(plain_url, *names, source=previous_release()) as old,
            replacements(plain_url, *names) as new,
            loaded(plain_url, 1.0) as load,
        ):
            assert await restart_one_by_one(old, new, load) < PAUSE_S
            await until(lambda: load.publishers[0]._hub.speaks == SPEAKS)

    run(scenario(), BOUND_S)


@PREVIOUS
def test_nodes_of_two_releases_take_over_from_each_other(plain_url):
    async def scenario():
        async with (
            node_processes(plain_url, "old", source=previous_release()) as [old],
            node_processes(plain_url, "new") as [new],
            loaded(plain_url, 1.0) as load,
        ):
            for gone in (old, new):
                sent = len(load.sent)
                await gone.kill()
                await until(lambda sent=sent: len(load.sent) > sent + 100, within_s=30)
                await gone.start()

    run(scenario(), BOUND_S)


@PREVIOUS
def test_clients_of_the_release_before_work_with_these_nodes(plain_url):
    """They do not know what nodes say beyond their words, and are served as before."""

    async def scenario():
        command = [sys.executable, "-m", "unisono"]
        old = {**os.environ, "PYTHONPATH": str(previous_release())}
        pipes = {"stdin": asyncio.subprocess.PIPE, "stdout": asyncio.subprocess.PIPE}
        async with node_processes(plain_url, "n1", "n2"):
            listening = [*command, "sub", "a", "b", "--url", plain_url, "--json", "--count", "200"]
            subs = [
                await asyncio.create_subprocess_exec(
                    *listening, env=env, stderr=asyncio.subprocess.PIPE, **pipes
                )
                for env in (old, os.environ)
            ]
            async with asyncio.timeout(60):
                while sum(row.subscribers for row in (await look(plain_url)).topics.values()) < 4:  # noqa: ASYNC110
                    await asyncio.sleep(0.2)
            lines = [json.dumps({"topic": "ab"[n % 2], "data": n}) + "\n" for n in range(100)]
            for env in (old, os.environ):
                pub = await asyncio.create_subprocess_exec(
                    *command, "pub", "--stdin", "--url", plain_url, env=env, **pipes
                )
                await asyncio.wait_for(pub.communicate("".join(lines).encode()), 60)
                assert pub.returncode == 0
            said = [(await asyncio.wait_for(sub.communicate(), 60))[0].splitlines() for sub in subs]
        rows = [[one["id"] for one in map(json.loads, lines) if "id" in one] for lines in said]
        assert len(rows[0]) == 200
        assert rows[0] == rows[1]

    run(scenario(), BOUND_S)


@PREVIOUS
def test_a_node_of_the_release_before_is_not_admitted_where_it_would_forget_a_history(plain_url):
    async def scenario():
        async with (
            nodes(plain_url, "n1") as [node],
            replacements(plain_url, "n2", source=previous_release()) as [old],
        ):
            assert node.control.retained
            starting = asyncio.create_task(old.start())
            await until(lambda: node.rejected > 0)
            await asyncio.sleep(1)
            assert node.control.nodes == ("n1",)
            starting.cancel()

    run(scenario(), BOUND_S)
