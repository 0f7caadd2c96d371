"""Scenarios on other networks: rings, routers, links of the paper, narrow lines, links that lose, peers that fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from unisono.lab.scenarios.load import read_scenario
from unisono.lab.scenarios.reading import Text
from unisono.lab.scenarios.run import Run, run_scenario
from unisono.lab.scenarios.worlds import make_world
from unisono.model.errors import ConfigError

FILE = Path("world.toml")

SMALL = """\
seed = 5
duration = 2.0

[topics]
count = 4

[[subscribers]]
count = 6
pick = 2

[publications]
rate = 20.0
publishers = 2
popularity = "zipf"

[network]
latency_ms = 10.0
"""


def run(text: str) -> Run:
    return run_scenario(read_scenario(Text(str(FILE), text), FILE))


def refusal(text: str) -> str:
    with pytest.raises(ConfigError) as error:
        make_world(read_scenario(Text(str(FILE), text), FILE))
    return str(error.value)


def replaced(before: str, after: str) -> str:
    assert before in SMALL
    return SMALL.replace(before, after, 1)


@pytest.mark.parametrize("shape", ["chain", "nodes"])
@pytest.mark.parametrize(
    "network", ['links = "paper-000"', 'topology = "pastry"', 'topology = "transit-stub"']
)
def test_worlds_on_other_networks_hold(shape, network):
    text = f'shape = "{shape}"\n' + SMALL.replace("latency_ms = 10.0", network)
    one, two = (run(text).summary for _ in range(2))
    assert one.is_good
    assert one.digest == two.digest
    assert one.verdicts["nothing_lost"] == "held"
    assert one.latency_ms.p50 > 20


def test_bytes_take_time_on_narrow_lines():
    """Publisher to sequencer, and a copy to each of six: 1,000 bytes and what the bus adds, 8 ms up and 1 ms down."""
    text = SMALL.replace("pick = 2", "").replace("publishers = 2", "publishers = 2\nsize_bytes = 1000")
    wide, narrow = (run(text + more).summary.latency_ms for more in ("", 'bandwidth = "adsl"\n'))
    assert (wide.p50, wide.max) == (20.0, 20.0)
    assert narrow.max == pytest.approx(20 + 2 * 9 + 5 * 8, rel=0.1), "the last copy waits for five others"
    small = run(text.replace("1000", "0") + 'bandwidth = "adsl"\n').summary.latency_ms
    assert 20 < small.max < 30, "a frame has some bytes of its own"


@pytest.mark.parametrize("shape", ["chain", "nodes"])
def test_links_that_lose_and_peers_that_fail_are_made_good(shape):
    ring = SMALL.replace("latency_ms = 10.0", 'topology = "pastry"\npeers = 100\nlink_loss = 0.05')
    ring = ring.replace("duration = 2.0", "duration = 4.0")
    ring += '[[faults]]\nkind = "perturbation"\nat = 2.5\nuntil = 3.5\npeers = 0.3\nloss = 1.0\n'
    done = run(f'shape = "{shape}"\n' + ring)
    assert done.summary.is_good
    assert done.summary.verdicts["nothing_lost"] == "held"
    calm = run(f'shape = "{shape}"\n' + ring.partition("link_loss")[0]).summary
    assert done.summary.latency_ms.p99 > calm.latency_ms.p99
    if shape == "chain":  # with nodes, other chances have some join earlier
        bare = run('shape = "chain"\nrepair = false\non_gap = "tag"\n' + ring).summary
        assert bare.delivered < done.summary.delivered, "nobody asks again"


NETWORKS = {
    "a ring that is too small": (
        'topology = "pastry"\npeers = 7',
        "line 18: 'network.peers' is 7, and 8 subscribers",
    ),
    "an empty ring": ('topology = "pastry"\npeers = 0', "line 18: 'network.peers' is at least 1, not 0"),
    "another shape": (
        'topology = "torus"',
        "line 17: 'network.topology' is one of flat, pastry, transit-stub",
    ),
    "a ring of routers": (
        'topology = "transit-stub"\npeers = 99',
        "line 18: 'network.peers' goes with topology",
    ),
    "too many clusters": (
        'topology = "transit-stub"\nclusters = 10',
        "line 18: 'network.clusters' is 10, and there are 9",
    ),
    "loss of links where there is one": (
        "link_loss = 0.1",
        "line 17: 'network.link_loss' goes with topology = \"pastry\", not with \"flat\"; 'loss' says what",
    ),
    "links that lose nearly all": (
        'topology = "pastry"\nlink_loss = 0.6',
        "line 18: 'network.link_loss' is at most 0.5, not 0.6",
    ),
    "lines of no kind": ('bandwidth = "isdn"', "line 17: 'network.bandwidth' is one of unlimited, adsl"),
    "a perturbation of nobody": (
        '[[faults]]\nkind = "perturbation"\nat = 1\nuntil = 2\npeers = 0.1\nloss = 0.5',
        'line 18: \'faults.kind\' is "perturbation" of the peers of a ring: take topology = "pastry"',
    ),
    "a perturbation of all and more": (
        'topology = "pastry"\n[[faults]]\nkind = "perturbation"\nat = 1\nuntil = 2\npeers = 2\nloss = 0.5',
        "line 22: 'faults.peers' is at most 1, not 2",
    ),
    "a perturbation that does nothing": (
        'topology = "pastry"\n[[faults]]\nkind = "perturbation"\nat = 1\nuntil = 2\npeers = 0.1',
        "line 18: 'faults.loss' is missing: or 'latency_ms'",
    ),
    "clusters on a flat network": (
        "clusters = 2",
        "line 17: 'network.clusters' goes with topology = \"transit-stub\"",
    ),
    "links of routers": (
        'topology = "transit-stub"\nlinks = "even"',
        "line 18: 'network.links' does not go with",
    ),
    "two latencies": (
        'links = "paper-000"\nlatency_ms = 3',
        "line 18: 'network.latency_ms' contradicts links",
    ),
    "two latencies of routers": (
        'topology = "transit-stub"\nlatency_ms = 3',
        "line 18: 'network.latency_ms' contradicts",
    ),
    "two latencies on a ring": (
        'topology = "pastry"\nlinks = "even"\nnotifications.latency_ms = 3',
        "line 19: 'network.notifications.latency_ms' is given for all",
    ),
}


@pytest.mark.parametrize("what", NETWORKS)
def test_impossible_networks_are_refused(what):
    text, expected = NETWORKS[what]
    assert expected in refusal(replaced("latency_ms = 10.0", text))
