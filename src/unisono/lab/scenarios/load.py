"""Reads a scenario file; whatever is wrong with it is one line that names the file, the line and the key."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from unisono.engines.takeover.control import Sequencer
from unisono.engines.topic_managers.settings import Mode, Stamps
from unisono.lab.scenarios.crowd import FEED_KEYS, GROUP_KEYS, Names, Topics, read_feeds, read_groups
from unisono.lab.scenarios.harm import FAULT_KEYS, read_faults
from unisono.lab.scenarios.net import NETWORK_KEYS, NOTIFICATIONS_KEYS, read_conditions, read_ground
from unisono.lab.scenarios.reading import Table, Text, read_text
from unisono.lab.scenarios.scenario import Guarantee, Scenario, Shape
from unisono.model.errors import TopicError
from unisono.model.ids import check_topic
from unisono.sim.world import PlanKind

DURATION_S = 10.0
RING_EVENTS = 16_384  # as the runtime's nodes keep
TOPICS_MAX = 10_000
RECORDS = ("journal", "history", "trace")
PLANS: dict[Sequencer, str] = {"topics": "line", "atoms": "forest"}  # what each has unless the file says
ENGINES: dict[str, Sequencer] = {
    "topic_managers": "topics",
    "sequencing_atoms": "atoms",
}  # as `lab fuzz` says

SCENARIO_KEYS = (
    "name",
    "seed",
    "duration",
    "guarantee",
    "sequencer",
    "shape",
    "plan",
    "mode",
    "stamps",
    "on_gap",
    "buffer",
    "max_hold",
    "repair",
    "ring",
    "record",
    "topics",
    "nodes",
    "subscribers",
    "publications",
    "network",
    "faults",
)
TOPICS_KEYS = ("count", "prefix", "names")
NODES_KEYS = ("count",)
KEYS = {
    "": SCENARIO_KEYS,
    "topics": TOPICS_KEYS,
    "nodes": NODES_KEYS,
    "subscribers": GROUP_KEYS,
    "publications": FEED_KEYS,
    "network": NETWORK_KEYS,
    "network.notifications": NOTIFICATIONS_KEYS,
    "faults": FAULT_KEYS,
}
HOMES = {key: title for title, keys in reversed(KEYS.items()) for key in keys}


def load_scenario(file: Path) -> Scenario:
    """The scenario in a file."""
    return read_scenario(read_text(file, HOMES), file)


def read_scenario(text: Text, file: Path) -> Scenario:
    """The scenario that a text describes; traces are looked for beside the file."""
    top = Table(text, (), text.data, SCENARIO_KEYS)
    shape = _shape(top)
    sequencer = _sequencer(top, shape)
    guarantee = _guarantee(top, shape)
    names = Names(top)
    nodes = _nodes(top, shape, names)
    network = top.table("network", NETWORK_KEYS)
    packets, notifications = read_conditions(network)
    feeds, topics, duration = read_feeds(top, Topics(_topics(top)), names, shape, file.parent, DURATION_S)
    faults = read_faults(top, shape, duration, names, nodes)
    shares = (packets.loss, notifications.loss, network.data.get("link_loss"), *(f.loss for f in faults))
    repair = any(shares) or shape == "nodes"
    groups = read_groups(top, topics, names, shape, repair=repair, duration=duration)
    processes = sum(len(group.names) for group in groups) + sum(len(feed.publishers) for feed in feeds)
    sequencers = {"nodes": len(nodes), "chain": len(topics.names), "colocated": 1}[shape]
    for fault_table, fault in zip(top.tables("faults", FAULT_KEYS), faults, strict=True):
        if fault.kind == "shuffle" and all(feed.popularity.kind == "uniform" for feed in feeds):
            fault_table.fail("kind", 'is "shuffle", and no publications have a popularity to shuffle')
        if fault.kind == "perturbation" and network.data.get("topology") != "pastry":
            fault_table.fail("kind", 'is "perturbation" of the peers of a ring: take topology = "pastry"')
        names.check(fault_table, "process", [fault.process] if fault.process else [])
        names.check(fault_table, "side", fault.side)
    return Scenario(
        name=top.string("name", file.stem),
        seed=top.whole("seed", 1, most=2**53),
        duration=duration,
        guarantee=guarantee,
        shape=shape,
        sequencer=sequencer,
        plan=cast(PlanKind, top.word("plan", PLANS[sequencer], ("line", "forest"))),
        mode=_mode(top, shape),
        stamps=cast(Stamps, _stamps(top, shape)),
        ring=top.whole("ring", RING_EVENTS, least=1),
        nodes=nodes,
        topics=topics.names,
        groups=groups,
        feeds=feeds,
        packets=packets,
        notifications=notifications,
        faults=faults,
        record=_record(top),
        ground=read_ground(network, processes, sequencers),
    )


def _shape(top: Table) -> Shape:
    otherwise = "nodes" if "nodes" in top else "colocated"
    shape = cast(Shape, top.word("shape", otherwise, ("colocated", "chain", "nodes")))
    if "nodes" in top and shape != "nodes":
        top.fail("nodes", f'go with shape = "nodes", not with "{shape}"')
    return shape


def _sequencer(top: Table, shape: Shape) -> Sequencer:
    word = top.word("sequencer", "topics", (*PLANS, *ENGINES))
    sequencer = ENGINES.get(word) or cast(Sequencer, word)
    if sequencer == "atoms" and shape != "nodes":
        top.fail("sequencer", f'says how nodes share topics: "{word}" goes with shape = "nodes"')
    return sequencer


def _guarantee(top: Table, shape: Shape) -> Guarantee:
    wanted = top.data.get("guarantee")
    if wanted == "causal":
        top.fail("guarantee", 'is "total_causal" in a simulation: there is no engine for "causal" alone')
    if wanted == "none":
        top.fail("guarantee", 'is not simulated when it is "none": there is nothing to judge')
    guarantee = top.word("guarantee", "total", ("fifo", "total", "total_causal"))
    if guarantee == "fifo" and shape == "nodes":
        top.fail("guarantee", 'is not simulated as "fifo" with shape = "nodes" yet; take shape = "colocated"')
    return cast(Guarantee, guarantee)


def _mode(top: Table, shape: Shape) -> Mode:
    mode = cast(Mode, top.word("mode", "forward", ("forward", "return")))
    if mode == "return" and shape == "nodes":
        top.fail("mode", 'is always "forward" with shape = "nodes": nodes announce what they have stored')
    return mode


def _stamps(top: Table, shape: Shape) -> str:
    stamps = top.word("stamps", "full", ("full", "upward"))
    if stamps == "upward" and shape == "nodes":
        top.fail("stamps", 'are always "full" with shape = "nodes"')
    return stamps


def _record(top: Table) -> tuple[str, ...]:
    if "record" not in top:
        return ("journal",)
    wanted = top.strings("record")
    for place, word in enumerate(wanted):
        if word not in RECORDS:
            top.fail("record", f'has "{word}"; there are {", ".join(RECORDS)}', place=place)
    return tuple(wanted)


def _nodes(top: Table, shape: Shape, names: Names) -> tuple[str, ...]:
    count = top.table("nodes", NODES_KEYS).whole("count", 2, least=1, most=100)
    if shape != "nodes":
        return ()
    return tuple(names.take(top, "nodes", f"node{i + 1}") for i in range(count))


def _topics(top: Table) -> tuple[str, ...]:
    table = top.table("topics", TOPICS_KEYS)
    if "names" not in table:
        if "count" not in table and table.data:
            table.missing("count", "how many topics there are, or 'names'")
        prefix = table.string("prefix", "t")
        count = table.whole("count", 0, least=1 if "count" in table else 0, most=TOPICS_MAX)
        return tuple(_checked(table, "prefix", f"{prefix}{i + 1}") for i in range(count))
    for key in ("count", "prefix"):
        if key in table:
            table.fail(key, "contradicts 'topics.names': give one of them")
    found = table.strings("names")
    if not found:
        table.fail("names", "is empty: name at least one topic")
    return tuple(_checked(table, "names", name, i) for i, name in enumerate(found))


def _checked(table: Table, key: str, name: str, place: int | None = None) -> str:
    try:
        return check_topic(name)
    except TopicError as error:
        table.fail(key, f"is no good: {error}", place=place)
