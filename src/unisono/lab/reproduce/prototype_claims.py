"""Paper 000, figures 22 to 24: what its text says of the prototype, and what real processes here say to that."""

from __future__ import annotations

from unisono.lab.reproduce.claims import Claim, beaten, listed, not_testable, shown, trend
from unisono.lab.reproduce.experiments import PUBLICATIONS, WAN_RATES
from unisono.lab.reproduce.families import Curve, Family, Plot, Tables
from unisono.lab.reproduce.prototype import PLACINGS, sweeps
from unisono.lab.reproduce.rows import Rows
from unisono.lab.wan import jgroups

MODELS = {"worst": "worst case", "uniform": "uniform", "power": "power law"}
LOW, HIGH = WAN_RATES[0], WAN_RATES[-1]
HOW = "real processes, links of 21 ms"
BROKER = (
    "between two processes a message takes two lines, to the server and from it, and a node stores at the server, "
    "there and back, before it tells"
)


def judge(tables: Tables) -> list[Claim]:
    """What the text says of figures 22 to 24."""
    return [
        *_nodes(tables["wan-nodes"]),
        *_rates(tables["wan-rates"]),
        *_beside_jgroups(tables["wan-rates"], tables["wan-jgroups"]),
    ]


def _by_nodes(rows: Rows, model: str, placing: str = "spread") -> list[float]:
    return [1000 * rows.mean(f"{model}_mean_s", nodes=n, placing=placing) for n in rows.distinct("nodes")]


def _nodes(rows: Rows) -> list[Claim]:
    sizes = rows.distinct("nodes")
    by_model = {model: _by_nodes(rows, model) for model in PUBLICATIONS}
    worst, uniform, power = (by_model[model] for model in ("worst", "uniform", "power"))
    told = "; ".join(f"{MODELS[model]} {listed(values)} ms" for model, values in by_model.items())
    measured = f"{listed(sizes)} nodes: {told}"
    four, single = sizes.index(4), [values[0] for values in by_model.values()]
    beside = _by_nodes(rows, "worst", "beside")[-1]
    return [
        trend(
            "000-22",
            "more nodes in the ENS cause a corresponding increase in latency",
            holds=worst[-1] >= 1.2 * worst[0] and uniform[-1] >= 1.2 * uniform[0],
            measured=measured,
            rule="with topics on different nodes and 10 of them at least a fifth more than with one, in the worst case "
            "and with uniform publications",
        ),
        trend(
            "000-22",
            "the latency quickly reaches a stable point",
            holds=all(values[-1] <= 1.25 * values[four] for values in by_model.values()),
            measured=measured,
            rule="with 10 nodes at most a quarter more than with 4",
        ),
        trend(
            "000-22",
            "its value is mainly driven by the timestamps' length",
            holds=worst[-1] > uniform[-1] > power[-1],
            measured=f"10 nodes: worst case {shown(worst[-1])}, uniform {shown(uniform[-1])}, power law "
            f"{shown(power[-1])} ms",
            rule="the later in the order the published topics are, the more managers an event visits, and the later it "
            "is heard",
        ),
        trend(
            "000-22",
            "with a single node the whole system is a centralized sequencer",
            holds=max(single) <= 1.2 * min(single),
            measured=f"{listed(single)} ms in the three publication models",
            rule="on one node the publication model changes latency by at most a fifth",
        ),
        beaten(
            "latency in ms with 10 nodes, worst case: topics that share subscribers on one node beside the server, as "
            "'unisono up' has them, instead of on different nodes",
            paper=worst[-1],
            ours=beside,
            rule="less is better; both as real processes with forwarding, two lines of 21 ms are the least there is",
        ),
    ]


def _within(rows: Rows, model: str, rate: int, placing: str = "spread") -> float:
    return 100 * rows.mean(f"{model}_{rate}_within", placing=placing)


def _rates(rows: Rows) -> list[Claim]:
    shares = {model: [_within(rows, model, rate) for rate in WAN_RATES] for model in PUBLICATIONS}
    told = "; ".join(f"{MODELS[model]} {listed(values)} %" for model, values in shares.items())
    measured = f"{listed(WAN_RATES)} events/s: {told}"
    late = {model: 100 - values[-1] for model, values in shares.items()}
    ours = 100 - _within(rows, "worst", HIGH, "beside")
    claims = [
        trend(
            "000-23",
            "the latency of ordering may reduce the percentage notified in a second, above all at high rates",
            holds=shares["worst"][-1] <= shares["worst"][0] - 5,
            measured=measured,
            rule=f"in the worst case at least 5 points less at {HIGH} events/s than at {LOW}",
            differs="no line was filled: every manager that an event visits sends it on and stores it over its own line",
        ),
        trend(
            "000-23",
            "a more advantageous model reduces the impact drastically",
            holds=late["power"] <= late["worst"] / 2 and late["worst"] > 0,
            measured=f"late at {HIGH} events/s: worst case {shown(late['worst'])} %, uniform {shown(late['uniform'])} %, "
            f"power law {shown(late['power'])} %",
            rule="at most half as many late with the power law as in the worst case",
        ),
        trend(
            "000-23",
            "a more advantageous model does not affect the number of notifications in a second",
            holds=min(shares["power"]) >= 95,
            measured=f"power law: {listed(shares['power'])} %",
            rule="at least 95 % at every rate with the power law",
            differs="events on the last topics fill the lines of managers that others pass too; what is stored for a "
            "takeover takes as much of a line as what is told",
        ),
    ]
    if late["worst"]:
        claims.append(
            beaten(
                f"% of notifications later than a second at {HIGH} events/s, worst case: topics on one node beside the "
                "server, instead of on different nodes",
                paper=late["worst"],
                ours=ours,
                rule="less is better",
            )
        )
    return claims


def _by_rate(rows: Rows, model: str, placing: str) -> list[float]:
    return [1000 * rows.mean(f"{model}_{rate}_mean_s", placing=placing) for rate in WAN_RATES]


SAID = {
    "close": "mean latency is close to that of JGroups as long as a favourable topic order is chosen",
    "outperforms": "when the event rate grows it outperforms JGroups (power law)",
    "small": "that is as stamps are kept small: the impact of ordering is limited",
    "tree": "and as SCRIBE's tree does better than point-to-point multicast",
}


def _beside_jgroups(rows: Rows, peers: Rows) -> list[Claim]:
    power, worst = _by_rate(rows, "power", "spread"), _by_rate(rows, "worst", "spread")
    beside = _by_rate(rows, "power", "beside")
    small = trend(
        "000-24",
        SAID["small"],
        holds=power[-1] <= worst[-1] / 2,
        measured=f"{HIGH} events/s: power law {shown(power[-1])} ms, worst case {shown(worst[-1])} ms",
        rule="at most half the latency of the worst case",
    )
    tree = not_testable(
        "000-24",
        SAID["tree"],
        "there is no tree here: the NATS server makes the copies, and is not behind a line of its own",
    )
    if not _has_jgroups(peers):
        why = (
            jgroups.why_not()
            or "JGroups was not installed when this was run; name another --out to run it anew"
        )
        return [*(not_testable("000-24", SAID[key], why) for key in ("close", "outperforms")), small, tree]
    theirs = [1000 * peers.mean("mean_s", rate_s=rate) for rate in WAN_RATES]
    measured = (
        f"{listed(WAN_RATES)} events/s: JGroups {listed(theirs)} ms; power law {listed(power)} ms, beside the server "
        f"{listed(beside)} ms"
    )
    return [
        trend(
            "000-24",
            SAID["close"],
            holds=power[0] <= 1.5 * theirs[0],
            measured=measured,
            rule=f"at {LOW} events/s at most one and a half times JGroups, topics on different nodes",
            differs=f"{BROKER}; JGroups' members reach each other over one link, and store nothing. With the node beside "
            f"the server {shown(beside[0])} ms",
        ),
        trend(
            "000-24",
            SAID["outperforms"],
            holds=power[-1] < theirs[-1],
            measured=measured,
            rule=f"at {HIGH} events/s less than JGroups, topics on different nodes",
            differs=f"at this rate both fill lines: {BROKER}; JGroups' first member sends a copy to each other one",
        ),
        small,
        tree,
        beaten(
            f"mean latency in ms at {HIGH} events/s beside JGroups: topics on one node beside the server",
            paper=theirs[-1],
            ours=beside[-1],
            rule="less is better; JGroups in its own right, SEQUENCER over TCP, ten members, the same links",
        ),
    ]


def _has_jgroups(peers: Rows) -> bool:
    return all(value > 0 for value in peers.values("is_there"))


def plots(tables: Tables) -> list[Plot]:
    """Figures 22 to 24."""
    nodes, rates, peers = tables["wan-nodes"], tables["wan-rates"], tables["wan-jgroups"]
    sizes, at = [float(n) for n in nodes.distinct("nodes")], [float(rate) for rate in WAN_RATES]
    by_nodes, shares, means = [], [], []
    for placing in rates.distinct("placing"):
        where = PLACINGS[placing]
        is_ours = placing != "spread"
        for model in ("worst",) if is_ours else PUBLICATIONS:
            label = f"{MODELS[model]}, {where}"
            by_nodes.append(Curve(label, sizes, _by_nodes(nodes, model, placing), is_ours=is_ours))
            within = [_within(rates, model, rate, placing) for rate in WAN_RATES]
            shares.append(Curve(label, at, within, is_ours=is_ours))
            means.append(Curve(label, at, _by_rate(rates, model, placing), is_ours=is_ours))
    if _has_jgroups(peers):
        theirs = [1000 * peers.mean("mean_s", rate_s=rate) for rate in WAN_RATES]
        means.append(Curve("JGroups, SEQUENCER over TCP", at, theirs))
    return [
        Plot("000-22", "End-to-end latency", "nodes", "latency (ms)", by_nodes, how=HOW),
        Plot(
            "000-23",
            "Notifications in a second",
            "events/s",
            "notifications within a second (%)",
            shares,
            how=HOW,
        ),
        Plot(
            "000-24",
            "Mean latency beside JGroups",
            "events/s",
            "mean latency (ms)",
            means,
            how=HOW,
            is_log_y=True,
        ),
    ]


FAMILY = Family("prototype", ("000-22", "000-23", "000-24"), sweeps, judge, plots)
