"""A few runs of the fault campaign; `make faults` has the others."""

import asyncio
import sys
from contextlib import suppress

import msgspec
import pytest

from unisono.lab.faults.campaign import CampaignResult, campaign, impossible, possible_seeds, quantile
from unisono.lab.faults.proxy import HOST, Proxy
from unisono.lab.faults.soak import Memory, judge_memory, soak
from unisono.lab.faults.world import KINDS, SPECIAL, TRANSPORTS, draw

SEED = 10620  # the node of the hottest topic is killed, then the server


def test_few_seeds_cover_every_kind_and_a_seed_is_a_world():
    for transport, kinds in TRANSPORTS.items():
        worlds = [draw(seed, transport) for seed in range(len(kinds))]
        assert {world.faults[0].kind for world in worlds} == set(kinds)
        assert worlds == [draw(seed, transport) for seed in range(len(kinds))]
    assert {*KINDS, *SPECIAL} == set(TRANSPORTS["nats"])


def test_what_a_machine_cannot_do_is_left_out():
    seeds = possible_seeds(30, 0, "nats", None, {"clock_jump": "no clock"})
    assert len(seeds) == 30
    assert not any("clock_jump" in draw(seed).kinds for seed in seeds)


def test_a_run_holds(tmp_path):
    result = campaign(1, first=SEED, keep=tmp_path)
    assert result.failures == []
    assert (result.lost, result.duplicates, result.violations) == (0, 0, 0)
    assert {"node_kill", "server_kill"} <= result.kinds.keys()
    assert result.acknowledged > 100
    assert not list(tmp_path.iterdir()), "what held leaves nothing behind"


def test_a_run_that_breaks_says_how_to_run_it_again(tmp_path, monkeypatch):
    """Nobody can start: the interpreter that the run is given does not exist."""
    monkeypatch.setattr(sys, "executable", "/bin/false")
    result = campaign(1, first=3, kind="node_kill", keep=tmp_path)
    assert not result.held
    assert (
        result.failures[0].again == "unisono lab faults --transport nats --runs 1 --from 3 --kind node_kill"
    )
    assert (tmp_path / "nats-3").is_dir()


def test_the_contract():
    document = msgspec.to_builtins(CampaignResult("nats", 3))
    assert {"runs", "lost", "duplicates", "violations", "resume_s_p95", "kinds"} <= document.keys()
    assert quantile([], 0.95) is None
    assert quantile([float(n) for n in range(1, 101)], 0.95) == 95.0
    assert isinstance(impossible(), dict)


def test_a_link_is_cut_one_way_and_both_and_heals():
    async def scenario():
        async def echo(reader, writer):
            with suppress(ConnectionError):
                while data := await reader.read(100):
                    writer.write(data)
            writer.close()
            done.set()

        done = asyncio.Event()
        server = await asyncio.start_server(echo, HOST, 0)
        proxy = Proxy(server.sockets[0].getsockname()[1])
        port = await proxy.open()
        reader, writer = await asyncio.open_connection(HOST, port)

        async def says(text):
            writer.write(text)
            async with asyncio.timeout(0.2):
                return await reader.readexactly(len(text))

        assert await says(b"one") == b"one"
        for ways in (("in",), ("out",), ("in", "out")):
            proxy.cut(*ways)
            with pytest.raises(TimeoutError):
                await says(b"two")
            proxy.heal()
            async with asyncio.timeout(5):
                assert await reader.readexactly(3) == b"two"
        proxy.refuse()
        async with asyncio.timeout(5):
            with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                await reader.readexactly(1)
        writer.close()
        await proxy.close()
        await done.wait()
        server.close()

    asyncio.run(scenario())


def test_a_short_soak(tmp_path):
    result = soak(0.1, rate=0.2, keep=tmp_path)
    assert result.held, result.run
    assert result.run.acknowledged > 100
    for memory in result.memory.values():
        assert memory.is_flat is None, "six seconds say nothing about memory"
        assert memory.samples[0] > 5
        assert memory.plot


@pytest.mark.parametrize(("growth_mb", "is_flat"), [(0.0, True), (30.0, False)])
def test_memory_that_grows_when_it_is_warm(growth_mb, is_flat):
    warm = [20.0 + i / 10 for i in range(300)]
    memory = Memory(warm + [50.0 + growth_mb * i / 300 for i in range(300)])
    judge_memory(memory, 600.0)
    assert memory.is_flat is is_flat
    assert memory.slope_mb_per_minute == pytest.approx(growth_mb / 5, abs=0.01)
