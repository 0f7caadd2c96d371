"""Nodes that are replaced while events flow: restarted one by one, and upgraded from the release before."""

import pytest
from load_kit import loaded
from outage_kit import until
from process_kit import node_processes, previous_release, replacements
from remote_kit import run

from unisono.model.release import SPEAKS

pytestmark = pytest.mark.durability

BOUND_S = 120.0
PAUSE_S = 5.0

PREVIOUS = pytest.mark.skipif(
    previous_release() is None, reason="the release before is not in this copy's history"
)


@pytest.fixture
def plain_url(nats_broker, request):
    """Without options that the release before does not have."""
    world = f"up{abs(hash(request.node.name)) % 10**6}"
    return f"{nats_broker.url}?prefix={world}.&bucket={world}"


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
