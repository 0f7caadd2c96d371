"""Paper 004, figure 6 and what the text says of overhead, memory and mobility: sweeps and claims.

The paper names neither the rate of events, nor the window of the protocol it compares with, nor how long a round is;
ours are those of Bimodal Multicast where it names them. So trends are judged, and the text has no number.
"""

from __future__ import annotations

from statistics import fmean

from unisono.engines.deadline_causal import literal
from unisono.engines.deadline_causal.colours import colours_needed
from unisono.lab.experiments import Value
from unisono.lab.reproduce.claims import Claim, beaten, listed, not_testable, shown, trend
from unisono.lab.reproduce.deadline_plots import PARTS, plots
from unisono.lab.reproduce.families import Family, Profile, Sweep, Tables
from unisono.lab.reproduce.rows import Rows

MEMBERS = (50, 100, 150, 200)
ASLEEP = (0.0, 0.2, 0.3, 0.4, 0.5)
WINDOW = 8
FALL = 0.10  # "not a rapid change"
BYTES_PER_BROKER = 8
TIME_BYTES = 8
MIB = 2**20


def sweeps(profile: Profile) -> list[Sweep]:
    """The paper's group sizes and shares in both profiles; longer runs and ten of each in the full one."""
    is_full = profile == "full"
    seeds = 10 if is_full else 1
    world: dict[str, tuple[Value, ...]] = {
        "protocol": ("paper", "ours", "members"),
        "members": MEMBERS,
        "asleep": ASLEEP,
        "authors": ("brokers",),
        "rate_s": (100.0,),
        "duration_s": (10.0 if is_full else 3.0,),
        "window": (WINDOW,),
    }
    windows = world | {
        "protocol": ("members", "members, kindly"),
        "members": (200,),
        "asleep": (0.0, 0.2, 0.5),
        "window": (8, 16, 32),
    }
    everybody = world | {
        "protocol": ("paper", "members"),
        "asleep": (0.2,),
        "authors": ("members",),
        "window": (64,),
    }
    to_the_letter = world | {"protocol": ("paper", "literal"), "members": (50,), "asleep": (0.0, 0.5)}
    return [
        Sweep("asleep", "004-asleep", world, seeds),
        Sweep("windows", "004-asleep", windows, seeds),
        Sweep("everybody", "004-asleep", everybody, seeds),
        Sweep("literal", "004-asleep", to_the_letter, seeds),
        Sweep("moves", "004-moves", {"brokers": (2, 4, 8, 16)}, seeds, seeds),
    ]


def judge(tables: Tables) -> list[Claim]:
    """What the text says of figure 6, of overhead, memory, acknowledgements and moving, and of its own rules."""
    asleep, everybody = tables["asleep"], tables["everybody"]
    return [
        *_judge_6(asleep, tables["windows"]),
        *_judge_overhead(asleep, everybody, tables["moves"]),
        *_judge_rules(asleep, tables["literal"]),
        *_beaten(asleep),
    ]


def _throughput(rows: Rows, protocol: str, members: int, **where: object) -> list[float]:
    """At healthy members, for each share that sleeps."""
    shares = rows.distinct("asleep")
    return [rows.mean("throughput_s", protocol=protocol, members=members, asleep=s, **where) for s in shares]


def _falls(rows: Rows, protocol: str, **where: object) -> dict[int, list[float]]:
    """By how much it falls below that of nobody asleep, for each group size and share."""
    falls = {}
    for members in rows.distinct("members"):
        calm, *others = _throughput(rows, protocol, members, **where)
        falls[members] = [1 - other / calm for other in others]
    return falls


def _judge_6(rows: Rows, windows: Rows) -> list[Claim]:
    shares = ", ".join(f"{100 * s:.0f}" for s in PARTS)
    gossip, acknowledged = _falls(rows, "paper"), _falls(rows, "members")
    worst = max(max(falls) for falls in gossip.values())
    most = int(max(rows.distinct("members")))
    by_window = {w: max(_falls(windows, "members", window=w)[most]) for w in windows.distinct("window")}
    kindly = {w: max(_falls(windows, "members, kindly", window=w)[most]) for w in windows.distinct("window")}
    slow = [rows.mean("latency_ms", protocol="members", members=most, asleep=s) for s in (0.0, 0.5)]
    claims = [
        trend(
            f"004-6{part}",
            f"with {share:.0%} asleep, throughput changes less with brokers and gossip than among all members",
            holds=all(gossip[n][i] <= acknowledged[n][i] + 0.005 for n in gossip)
            and max(gossip[n][i] for n in gossip) < FALL,
            measured=f"{listed(MEMBERS)} members: falls by "
            + ", ".join(f"{100 * gossip[n][i]:.1f}" for n in gossip)
            + " % with gossip, by "
            + ", ".join(f"{100 * acknowledged[n][i]:.1f}" for n in gossip)
            + " % among all members",
            rule=f"less than {FALL:.0%} with gossip, and no more than among all members",
        )
        for i, (share, part) in enumerate(PARTS.items())
    ]
    return [
        *claims,
        trend(
            "004-asleep",
            "the average throughput of the gossip protocol is not a rapid change",
            holds=worst < FALL,
            measured=f"falls by at most {worst:.1%} for {shares} % asleep and {listed(MEMBERS)} members",
            rule=f"less than {FALL:.0%} below that of nobody asleep",
        ),
        trend(
            "004-asleep",
            "that of traditional reliable group communication among all members is",
            holds=max(acknowledged[most]) > 0.25,
            measured=f"{most} members, {shares} % asleep: falls by "
            + ", ".join(f"{100 * fall:.0f}" for fall in acknowledged[most])
            + f" %; events take {shown(slow[0])} ms with nobody asleep, {shown(slow[1])} ms with half of them",
            rule="falls by more than a quarter with half of the members asleep",
        ),
        trend(
            "004-windows",
            "it falls because sending and receiving is governed by all members",
            holds=max(by_window.values()) > 0.25 and min(by_window.values()) >= 0,
            measured=f"half of {most} asleep: with {listed(list(by_window))} unacknowledged events of a publisher it falls by "
            + ", ".join(f"{100 * fall:.0f}" for fall in by_window.values())
            + " %; if publishers give up what is past its deadline, by "
            + ", ".join(f"{100 * fall:.0f}" for fall in kindly.values())
            + " %",
            rule="falls by more than a quarter where the window is small; a window as large as what is sent while somebody "
            "sleeps, or giving up at deadlines, takes the fall away, and the paper names neither",
        ),
    ]


def _judge_overhead(rows: Rows, everybody: Rows, moves: Rows) -> list[Claim]:
    sizes = [int(n) for n in rows.distinct("members")]
    vectors = [rows.mean("vector", protocol="paper", members=n, asleep=0.2) for n in sizes]
    all_vectors = [everybody.mean("vector", protocol="members", members=n) for n in sizes]
    of_brokers = [everybody.mean("order_bytes", protocol="paper", members=n) for n in sizes]
    of_members = [everybody.mean("order_bytes", protocol="members", members=n) for n in sizes]
    kept = [everybody.mean("entries_kept", protocol="paper", members=n) for n in sizes]
    kept_by_all = [everybody.mean("entries_kept", protocol="members", members=n) for n in sizes]
    held = [rows.mean("events_held", protocol="paper", members=n, asleep=0.5) for n in sizes]
    acks = [rows.mean("acknowledgements", protocol=p, members=200, asleep=0.2) for p in ("paper", "members")]
    sent = [rows.mean("messages", protocol=p, members=200, asleep=0.2) for p in ("paper", "members")]
    cost = {b: moves.mean("messages_of_a_move", brokers=b) for b in moves.distinct("brokers")}
    vector_of_move = {b: moves.mean("vector", brokers=b) for b in moves.distinct("brokers")}
    missed = max(moves.values("missed_by_mover"))
    matrix = TIME_BYTES * sizes[-1] ** 2
    return [
        trend(
            "004-overhead",
            "to subscribers travels a vector whose size is the number of brokers",
            holds=max(vectors) <= 4.01,
            measured=f"{listed(vectors)} entries an event with 4 brokers and {listed(sizes)} subscribers, in one group",
            rule="at most one entry for each broker, whatever the number of subscribers; with several groups it is one for "
            "each broker and group",
        ),
        trend(
            "004-overhead",
            "communication overhead from brokers to subscribers is very low",
            holds=all(4 * b < m for b, m in zip(of_brokers, of_members, strict=True)),
            measured=f"a quarter of {listed(sizes)} members publish: {listed(of_brokers)} bytes of order an event through 4 "
            f"brokers, {listed(of_members)} among all members, whose vectors have {listed(all_vectors)} entries",
            rule="less than a quarter of what travels among all members",
        ),
        trend(
            "004-memory",
            "no big memory is needed at subscribers: they receive aggregated information",
            holds=max(kept) <= 4.01 and kept_by_all[-1] > 4 * kept[-1],
            measured=f"{listed(kept)} entries at a subscriber, {listed(kept_by_all)} at a member; the matrix of {sizes[-1]} "
            f"members has {sizes[-1] ** 2:,} ({matrix / MIB:.2f} MiB). Events held back at once, half asleep: {listed(held)}",
            rule="as many entries as brokers, and fewer than a quarter of a member's",
        ),
        trend(
            "004-overhead",
            "there is no ACK mechanism; periodic gossip is enough",
            holds=acks[0] == 0 and sent[0] < sent[1],
            measured=f"200 members, 20 % asleep: {listed(acks)} acknowledgements and {listed(sent)} messages for each "
            "delivery, with gossip and among all members",
            rule="no acknowledgement of an event, and fewer messages",
        ),
        trend(
            "004-moves",
            "the message overhead of mobility depends on the number of brokers",
            holds=max(vector_of_move.values()) > 2 * min(vector_of_move.values()) and max(cost.values()) <= 2,
            measured=f"with {listed(list(cost))} brokers a move takes {listed(list(cost.values()))} messages and the vectors "
            f"have {listed(list(vector_of_move.values()))} entries; the mover misses {missed:.1%}",
            rule="messages of a move are the same for any number of brokers (one to the old, one to the new), what grows with "
            "it is the vector",
        ),
        not_testable(
            "004-moves",
            "where subscribers join and leave, the traditional protocol is very expensive",
            "the paper says neither how groups change their views nor what it measures; a join is one message to one broker here, "
            "and a new view in every member there",
        ),
    ]


def _judge_rules(rows: Rows, to_the_letter: Rows) -> list[Claim]:
    late = sum(rows.values("late"))
    patient = {
        p: max(rows.mean("missed", protocol=p, members=n, asleep=s) for n in MEMBERS for s in ASLEEP)
        for p in ("paper", "ours")
    }
    wrong = [to_the_letter.mean("overtaken", protocol="literal", asleep=s) for s in (0.0, 0.5)]
    right = [to_the_letter.mean("overtaken", protocol="paper", asleep=s) for s in (0.0, 0.5)]
    lifetime, needed = 2, colours_needed(2, 1, 0)
    return [
        trend(
            "004-rules",
            "no message is delivered after its deadline",
            holds=late == 0,
            measured=f"{late:.0f} late deliveries in {len(rows.rows)} runs",
            rule="none",
        ),
        trend(
            "004-rules",
            "timeliness: all who do not fail are notified before the deadline",
            holds=max(patient.values()) < 0.001,
            measured=f"healthy members miss at most {patient['paper']:.3%} with events that live log N + 1 rounds, "
            f"{patient['ours']:.3%} with ours",
            rule="less than 0.1 % of what was published; gossip promises no more than a probability",
        ),
        trend(
            "004-rules",
            "a message is discarded if it has bypassed its deadline and its delivery violates causal order",
            holds=max(wrong) <= max(right) + 1e-9,
            measured=f"by the letter of Figure 5, healthy subscribers discard {wrong[0]:.2%} of all events with nobody asleep and "
            f"{wrong[1]:.2%} with half of them, in time and with nobody's deadline near; by our rules {right[0]:.2%} and "
            f"{right[1]:.2%}",
            rule="no more is discarded than by rules that wait for the sender's own former event",
            differs="Del_ok leaves out the sender's own row (docs/protocols/deadline_causal.md, 1)",
        ),
        trend(
            "004-rules",
            "log N + 1 colours tell a lifetime of log N rounds",
            holds=literal.colours(lifetime, 1) >= needed,
            measured=f"{literal.colours(lifetime, 1)} colours for a lifetime of {lifetime} rounds; {needed} are needed if copies "
            "may linger for one round more, and one more for each round by which clocks differ",
            rule="no colour is read for that of another round (tests/papers/test_deadline_papers.py)",
            differs="its own red_B1, one cycle late, has the colour of red_B3",
        ),
    ]


def _beaten(rows: Rows) -> list[Claim]:
    calm, half = (rows.mean("throughput_s", protocol="ours", members=200, asleep=s) for s in (0.0, 0.5))
    fall = 1 - half / calm
    theirs = 1 - (
        rows.mean("throughput_s", protocol="members", members=200, asleep=0.5)
        / rows.mean("throughput_s", protocol="members", members=200, asleep=0.0)
    )
    per_broker = max(
        rows.mean("order_bytes_per_broker", protocol=p, members=200, asleep=s)
        for p in ("paper", "ours")
        for s in ASLEEP
    )
    latency = [
        fmean(rows.mean("latency_ms", protocol=p, members=200, asleep=s) for s in ASLEEP[1:])
        for p in ("paper", "ours")
    ]
    return [
        Claim(
            "beaten",
            "4 brokers, 200 subscribers, half of them asleep: throughput at healthy members",
            "",
            f"{shown(half)} events/s instead of {shown(calm)}: {fall:.1%} less; the baseline falls by {theirs:.0%}",
            "reproduced" if fall <= FALL else "differs",
            "within 10 % of the run with nobody asleep",
        ),
        Claim(
            "beaten",
            "order to subscribers, bytes for each broker and event, 4 brokers",
            "",
            f"{per_broker:.1f}",
            "reproduced" if per_broker <= BYTES_PER_BROKER else "differs",
            f"at most {BYTES_PER_BROKER}: stamp, deadline and past; in one group",
        ),
        beaten(
            "how long events take to healthy members (ms), 200 members, 20 to 50 % asleep: our settings",
            paper=latency[0],
            ours=latency[1],
            rule="less is better",
        ),
    ]


FIGURES = (
    *(f"004-6{part}" for part in "abcd"),
    *(f"004-{part}" for part in ("asleep", "windows", "overhead", "memory", "moves", "rules")),
)
FAMILY = Family("deadlines", FIGURES, sweeps, judge, plots)
