"""Paper 004, one run of each kind: members asleep (figure 6), and subscribers that move."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from unisono.lab.experiments import Figures, Value
from unisono.lab.reproduce.deadline_members import run_members
from unisono.lab.reproduce.deadline_worlds import WARM_S, Counts, Perturbed, Setting, perturbed_world
from unisono.lab.reproduce.deadline_worlds import run_brokers as run_with
from unisono.sim.deadline.simulation import Makers
from unisono.sim.deadline.world import Go
from unisono.testing.planted_bugs.deadline_engines import LiteralDelOk, reading_with, with_hold

OURS = {"round_s": 0.05, "rounds": 40}  # our defaults: shorter rounds, and events live for two seconds
LITERAL = Makers(with_hold(LiteralDelOk), reading_with(LiteralDelOk))
MOVES = 40


def run(parameters: Mapping[str, Value], seed: int) -> Figures:
    """Some members sleep in every round; the protocol is the paper's with our rules, ours, or a baseline."""
    protocol = str(parameters["protocol"])
    setting = Setting(
        members=int(parameters["members"]),
        asleep=float(parameters["asleep"]),
        authors=str(parameters["authors"]),
        rate_s=float(parameters["rate_s"]),
        duration_s=float(parameters["duration_s"]),
        window=int(parameters["window"]),
        gives_up=protocol == "members, kindly",
    )
    if protocol.startswith("members"):
        return run_members(setting, seed)
    if protocol == "ours":
        setting = msgspec.structs.replace(setting, **OURS)
    return run_with(setting, seed, LITERAL) if protocol == "literal" else run_with(setting, seed)


def run_moves(parameters: Mapping[str, Value], seed: int) -> Figures:
    """A subscriber goes from broker to broker: what that costs, and what it misses meanwhile."""
    setting = Setting(members=8, asleep=0.0, brokers=int(parameters["brokers"]), duration_s=10.0, rate_s=20.0)
    world, names, healthy = perturbed_world(setting, seed)
    moves = [
        Go(WARM_S + i * setting.duration_s / MOVES, names[0], f"broker-{1 + (i + 1) % setting.brokers}")
        for i in range(MOVES)
    ]
    moving = msgspec.structs.replace(
        world, happenings=tuple(sorted([*world.happenings, *moves], key=lambda h: h.at))
    )
    still, moved = Counts(setting, healthy), Counts(setting, healthy)
    Perturbed(world, still).run()
    Perturbed(moving, moved).run()
    return {
        "messages_of_a_move": (moved.attaching - still.attaching) / MOVES,
        "missed_by_mover": 1 - moved.delivered[names[0]] / max(1, len(moved.sent_at)),
        "vector": sum(moved.entries) / max(1, len(moved.entries)),
    }
