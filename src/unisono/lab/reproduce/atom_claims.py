"""Paper 003, figures 3 to 8: the sweeps, and what the text says of them."""

from __future__ import annotations

from itertools import pairwise
from statistics import fmean

from unisono.lab.experiments import Value
from unisono.lab.reproduce.atom_plots import GROUPS, plots
from unisono.lab.reproduce.claims import Claim, beaten, listed, not_testable, number, shown, trend
from unisono.lab.reproduce.experiments import DECILES
from unisono.lab.reproduce.families import Family, Profile, Sweep, Tables
from unisono.lab.reproduce.rows import Rows

COUNTED = (1, 2, 4, 8, 16, 24, 30, 32, 40, 48, 56, 64)
OCCUPANCIES = tuple(round(0.025 * i, 3) for i in range(1, 41))
ROUTERS = 9  # stub domains at each transit router: 10,000 routers
TARGET = 4 / 3  # a quarter less


def sweeps(profile: Profile) -> list[Sweep]:
    """The paper's scale in both profiles, and its 100 runs in the full one."""
    is_full = profile == "full"
    world: dict[str, tuple[Value, ...]] = {"hosts": (128,), "groups": GROUPS, "stub_domains": (ROUTERS,)}
    fewer: dict[str, tuple[Value, ...]] = {**world, "hosts": (32, 64), "groups": (8, 32)}
    nodes: dict[str, tuple[Value, ...]] = {"hosts": (128,), "groups": COUNTED}
    occupancy: dict[str, tuple[Value, ...]] = {
        "hosts": (128,),
        "groups": (32,),
        "occupancy": OCCUPANCIES,
    }
    return [
        Sweep("stretch", "003-stretch", world, 100 if is_full else 20, 5),
        Sweep("stretch-hosts", "003-stretch", fewer, 100 if is_full else 10, 5),
        Sweep("nodes", "003-nodes", nodes, 100, 50),
        Sweep("occupancy", "003-occupancy", occupancy, 100 if is_full else 20, 20),
    ]


def judge(tables: Tables) -> list[Claim]:
    """What the text says of figures 3 to 8, and of state, load and laws."""
    stretch, hosts, nodes = tables["stretch"], tables["stretch-hosts"], tables["nodes"]
    return [
        *_judge_3(stretch, hosts),
        *_judge_4(stretch),
        *_judge_5(nodes),
        *_judge_6(nodes),
        *_judge_7(nodes),
        *_judge_8(tables["occupancy"]),
        *_judge_load(nodes),
        *_judge_state(nodes),
        *_judge_laws(nodes),
        *_beaten(stretch, hosts),
    ]


def _by_groups(rows: Rows, figure: str) -> list[float]:
    return [rows.mean(figure, groups=groups) for groups in rows.distinct("groups")]


def _judge_3(rows: Rows, fewer: Rows) -> list[Claim]:
    means, most = _by_groups(rows, "paper_mean"), _by_groups(rows, "paper_max")
    highest = [max(rows.values("paper_max", groups=groups)) for groups in GROUPS]
    penalty = _by_groups(rows, "paper_penalty")
    said = f"{listed(GROUPS)} groups: mean {listed(means)}, largest of a run {listed(most)} on average"
    small = {
        hosts: [fewer.mean("paper_max", hosts=hosts, groups=groups) for groups in (8, 32)]
        for hosts in (32, 64)
    }
    return [
        number(
            "003-3",
            "latency stretch with 8 groups did not exceed (largest of a run, mean of runs)",
            2.5,
            most[0],
        ),
        trend(
            "003-3",
            "with 64 groups the largest latency stretch is less than 8",
            holds=highest[-1] < 8,
            measured=f"{shown(highest[-1])} in all runs; as a mean of ratios instead of a ratio of means, mean stretch is "
            f"{listed(penalty)} for {listed(GROUPS)} groups",
            rule="less than 8 in every run",
        ),
        trend(
            "003-3",
            "with fewer groups traversing the sequencing network takes less time",
            holds=all(a < b for a, b in pairwise(means)),
            measured=said,
            rule="the mean grows with the number of groups",
        ),
        trend(
            "003-3",
            "the growth is sub-linear",
            holds=most[-1] / most[0] < GROUPS[-1] / GROUPS[0],
            measured=said,
            rule="eight times the groups, less than eight times the stretch",
        ),
        trend(
            "003-3",
            "the same with 32 and 64 hosts",
            paper="named, not shown",
            holds=all(values[0] <= 2.5 * 1.25 and values[1] < 8 for values in small.values()),
            measured="; ".join(f"{hosts} hosts: {listed(values)}" for hosts, values in small.items())
            + " (largest of a run with 8 and 32 groups)",
            rule="8 groups within 25 % of 2.5, 32 groups below 8",
        ),
    ]


def _judge_4(rows: Rows) -> list[Claim]:
    worst = rows.mean("paper_worst", groups=64)
    near, far = (rows.mean(f"paper_penalty_{i}", groups=64) for i in (0, DECILES - 1))
    return [
        trend(
            "003-4",
            "the highest relative delay penalties are those of pairs very close to each other",
            holds=worst < 0.25 and near > 2 * far,
            measured=f"the worst 1 % of pairs are {worst:.0%} as far apart as pairs are on average; nearest tenth of pairs "
            f"{shown(near)}, farthest {shown(far)}",
            rule="the worst 1 % less than a quarter of the average distance apart",
        )
    ]


def _judge_5(rows: Rows) -> list[Claim]:
    nodes = {groups: rows.mean("paper_nodes", groups=groups) for groups in COUNTED}
    before, after = (nodes[30] - nodes[1]) / 29, (nodes[64] - nodes[30]) / 34
    measured = f"{listed(COUNTED)} groups: {listed(list(nodes.values()))} nodes"
    return [
        trend(
            "003-5",
            "with more groups there are more overlaps and thus more sequencing nodes",
            holds=all(a < b for a, b in pairwise(nodes.values())),
            measured=measured,
            rule="more nodes at each larger number of groups; the mean of 100 runs",
        ),
        trend(
            "003-5",
            "after 30 groups the number of sequencing nodes grows more gradually",
            holds=after <= 0.75 * before,
            measured=f"{shown(before)} nodes for each group up to 30, {shown(after)} after",
            rule="at least a quarter fewer new nodes for each group",
            differs="a new group has two to four members and mostly one overlap, with the group of all; that joins a node only "
            "if it is nested in an overlap there or has its chosen member",
        ),
        trend(
            "003-5",
            "their number does not explode",
            holds=all(count <= groups for groups, count in nodes.items()),
            measured=measured,
            rule="never more nodes than groups",
        ),
    ]


def _judge_6(rows: Rows) -> list[Claim]:
    stress = {groups: rows.mean("paper_stress", groups=groups) for groups in COUNTED}
    passing = {groups: rows.mean("paper_passing", groups=groups) for groups in COUNTED}
    common = rows.mean("paper_common", groups=64)
    return [
        number("003-6", "stress stabilizes around (30 groups, average)", 0.2, stress[30]),
        trend(
            "003-6",
            "it first decreases as groups are added",
            holds=stress[2] > stress[8] > stress[16] > stress[30],
            measured=f"{listed(COUNTED)} groups: {listed(list(stress.values()))}; with transit {listed(list(passing.values()))}",
            rule="less at 8, 16 and 30 groups than before",
        ),
        trend(
            "003-6",
            "after 30 groups it slightly increases",
            holds=stress[64] > stress[30],
            measured=f"{shown(stress[30])} with 30 groups, {shown(stress[64])} with 64; with transit {shown(passing[30])} and "
            f"{shown(passing[64])}",
            rule="more with 64 groups than with 30",
            differs="with sizes in proportion to 1/rank a group after the thirtieth has at most four members and a few "
            "overlaps: it adds to the number of groups more than to any node",
        ),
        trend(
            "003-6",
            "all groups of a sequencing node share a member",
            holds=common == 1,
            measured=f"{common:.0%} of the nodes with 64 groups",
            rule="true of every node",
            differs="overlaps nested in one large overlap need not meet each other",
        ),
    ]


def _judge_7(rows: Rows) -> list[Claim]:
    worst = [max(rows.values("atoms_on_path_max", groups=groups)) for groups in GROUPS]
    passed = rows.mean("atoms_passed_max", groups=64)
    return [
        trend(
            "003-7",
            "in the worst case the atoms on a path are less than half of the nodes",
            holds=max(worst) < 0.5,
            measured=f"64 groups: {shown(max(worst))} of the nodes, in all runs; the longest path, transit included, has "
            f"{shown(passed)} on average",
            rule="atoms that number the messages of a group, by hosts: less than 0.5",
        ),
        trend(
            "003-7",
            "a message collects fewer numbers than there are groups",
            holds=all(
                max(rows.values("atoms_on_path_max", groups=groups)) * 128 < groups for groups in COUNTED
            ),
            measured=f"at most {shown(max(worst) * 128)} with 64 groups",
            rule="fewer at every number of groups",
        ),
    ]


def _judge_8(rows: Rows) -> list[Claim]:
    nodes = {p: rows.mean("paper_nodes", occupancy=p) for p in OCCUPANCIES}
    atoms = {p: rows.mean("atoms", occupancy=p) for p in OCCUPANCIES}
    peak = max(nodes, key=lambda p: nodes[p])
    falling = [nodes[p] for p in OCCUPANCIES if p >= peak]
    dense = [nodes[p] for p in OCCUPANCIES if p > 0.9]
    return [
        number("003-8", "the number of sequencing nodes is largest at an occupancy of", 0.2, peak),
        trend(
            "003-8",
            "double overlaps increase until there",
            holds=atoms[0.2] >= 0.95 * atoms[1.0] and atoms[0.1] < 0.6 * atoms[1.0],
            measured=f"{shown(atoms[0.1])}, {shown(atoms[0.2])}, {shown(atoms[1.0])} at 0.1, 0.2 and 1",
            rule="at 0.2 at least 95 % of all pairs, at 0.1 less than 60 %",
        ),
        trend(
            "003-8",
            "beyond it the number of sequencing nodes gradually decreases",
            holds=all(b <= 1.05 * a + 0.5 for a, b in pairwise(falling)),
            measured=", ".join(f"{shown(nodes[p])} at {p:g}" for p in (0.1, peak, 0.3, 0.4, 0.6, 0.8, 0.9)),
            rule="never more than 5 % (and half a node) above the step before",
        ),
        trend(
            "003-8",
            "above 0.9 there is a single sequencing node",
            holds=max(dense) < 1.5,
            measured=f"{listed(dense)} at 0.925, 0.95, 0.975 and 1",
            rule="one, rounded, at every occupancy above 0.9",
            differs="two groups of nine hosts in ten miss different hosts: an overlap is not all of them, and the chosen "
            "member is missing in about one overlap of ten, which need another node",
        ),
    ]


def _judge_load(rows: Rows) -> list[Claim]:
    numbered, seen = (_by_groups(rows, f"paper_{figure}") for figure in ("numbered", "seen"))
    numbers_more, sees_more = (
        rows.mean(f"paper_{figure}", groups=64) for figure in ("numbers_more", "sees_more")
    )
    ours = _by_groups(rows, "ours_seen")
    groups = f"{listed(COUNTED)} groups"
    return [
        trend(
            "003-load",
            "no sequencing node orders more messages than the busiest receiver receives",
            holds=max(numbered) <= 1,
            measured=f"{groups}: the busiest node numbers {listed(numbered)} times as many",
            rule="at most 1, transit not counted",
            differs="nested overlaps put atoms of groups without a common member on one node",
        ),
        trend(
            "003-load",
            "nor does one see more",
            holds=max(seen) <= 1,
            measured=f"transit included {listed(seen)} times as many; ours {listed(ours)}. With 64 groups {numbers_more:.1%} of "
            f"the nodes number more than the busiest receiver receives, {sees_more:.1%} see more",
            rule="at most 1, transit included",
            differs="messages pass nodes between those of their group; with ours the top of the tree sees every group that "
            "overlaps it",
        ),
    ]


def _judge_state(rows: Rows) -> list[Claim]:
    mean, most = rows.mean("paper_state", groups=64), max(rows.values("paper_state_max", groups=64))
    ours, spread = (rows.mean(f"{name}_state", groups=64) for name in ("ours", "spread"))
    return [
        trend(
            "003-state",
            "little state is required",
            holds=mean < 128,
            measured=f"64 groups: {shown(mean)} entries on average (counters, next and previous hops), at most {shown(most)}; "
            f"ours {shown(ours)} on fewer nodes, {shown(spread)} if nothing is put together",
            rule="on average fewer entries than one vector timestamp of 128 hosts; buffers are not counted",
        ),
        not_testable(
            "003-state",
            "where membership changes seldom there is very little churn in the sequencing graph",
            "the paper expects it and names neither a rate nor a measure; that a change costs little to compute is tested "
            "(tests/engines/test_atom_graphs.py)",
        ),
    ]


def _judge_laws(rows: Rows) -> list[Claim]:
    broken = {groups: rows.mean("coin_breaks_c3", groups=groups) for groups in COUNTED}
    return [
        trend(
            "003-laws",
            "C1 and C2 are enough (a single path for each group, no loops)",
            holds=max(broken.values()) == 0,
            measured="if a coin says in which direction a group travels its path, the graph breaks C3 in "
            + ", ".join(f"{100 * share:.0f}" for share in broken.values())
            + f" % of the runs with {listed(COUNTED)} groups",
            rule="whatever the directions, no edge is travelled both ways",
            differs="where an edge is travelled both ways messages can come to wait for each other for ever (CE-19); the "
            "paper does not say which way to go",
        )
    ]


def _beaten(rows: Rows, fewer: Rows) -> list[Claim]:
    rule = "at least 25 % less, on the same networks and memberships; no machine has two places"

    def mean(placing: str) -> float:
        return fmean(rows.mean(f"{placing}_mean", groups=groups) for groups in GROUPS)

    claims = [
        beaten(
            f"mean latency stretch, 128 hosts, {groups} groups: our graph and placement "
            f"({shown(rows.mean('ours_machines', groups=groups))} machines instead of "
            f"{shown(rows.mean('paper_machines', groups=groups))}, a message meets "
            f"{shown(rows.mean('ours_hops', groups=groups))} instead of {shown(rows.mean('paper_hops', groups=groups))})",
            paper=rows.mean("paper_mean", groups=groups),
            ours=rows.mean("ours_mean", groups=groups),
            factor=TARGET,
            rule=rule,
        )
        for groups in GROUPS
    ]
    whole = "the same, all numbers of groups"
    parts = {
        "ours": (whole, TARGET, rule),
        "spread": (f"{whole}: ours, every group on a machine of its own", TARGET, rule),
        "graph": (f"{whole}: our graph, the paper's mapping to machines", None, "less is better"),
        "paper_near": (
            f"{whole}: the paper's graph and nodes, our mapping to machines",
            None,
            "less is better",
        ),
        "one": (
            f"{whole}: all on one machine, which is what the load of the top allows",
            None,
            "less is better",
        ),
    }
    claims += [
        beaten(claim, paper=mean("paper"), ours=mean(placing), factor=factor, rule=rule)
        for placing, (claim, factor, rule) in parts.items()
    ]
    claims += [
        beaten(
            f"mean latency stretch, {hosts} hosts, 32 groups: our graph and placement",
            paper=fewer.mean("paper_mean", hosts=hosts, groups=32),
            ours=fewer.mean("ours_mean", hosts=hosts, groups=32),
            factor=TARGET,
            rule=rule,
        )
        for hosts in (32, 64)
    ]
    return claims


FIGURES = tuple(f"003-{part}" for part in (*range(3, 9), "load", "state", "laws"))
FAMILY = Family("atoms", FIGURES, sweeps, judge, plots)
