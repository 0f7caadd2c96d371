"""Simulated worlds in which a leaf loses its dispatcher, one event is published meanwhile, and nothing after it.

Prints how long after the crash the event was delivered as JSON; exit 1 if in some world it took over 3 s longer than the
leaf is away. `--bug` plants the one that new neighbours are not told of what a dispatcher was only told of.
"""

from __future__ import annotations

import argparse
import json
import sys

import msgspec

from unisono.engines.epidemic.dispatcher import Dispatcher
from unisono.sim.epidemic.draw import MOVED_S, draw_quiet
from unisono.sim.epidemic.simulation import Simulation
from unisono.sim.epidemic.world import Crashes
from unisono.testing.planted_bugs.epidemic_engines import KeepsHearsayToItself

SOON_S = 3.0
END_S = 30.0


def delivered_after(seed: int, loss: float, make: type[Dispatcher]) -> float:
    """Seconds from the crash until everybody has the event; infinite if somebody never has."""
    world = draw_quiet(seed)
    conditions = msgspec.structs.replace(world.conditions, loss=loss)
    simulation = Simulation(msgspec.structs.replace(world, conditions=conditions), make)
    simulation.start()
    crash = next(act.at for act in world.script if isinstance(act, Crashes))
    simulation.kernel.run(simulation.occur, until=crash + END_S)
    if simulation.witness.owed():
        return float("inf")
    return max(at for mine in simulation.witness.delivered.values() for at in mine.values()) - crash


def main() -> None:
    """From the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worlds", type=int, default=2000, help="about two minutes")
    parser.add_argument("--loss", type=float, default=0.0)
    parser.add_argument("--bug", action="store_true")
    args = parser.parse_args()
    make = KeepsHearsayToItself if args.bug else Dispatcher
    times: list[float] = []
    for seed in range(args.worlds):
        times.append(delivered_after(seed, args.loss, make))
        if seed % 100 == 99:
            print(f"{seed + 1:,} worlds", end="\r", file=sys.stderr)
    late = sum(at > MOVED_S + SOON_S for at in times)
    came = sorted(at for at in times if at < END_S)
    print(
        json.dumps(
            {
                "worlds": args.worlds,
                "loss": args.loss,
                "late": late,
                "never": args.worlds - len(came),
                "seconds_median": round(came[len(came) // 2], 2),
                "seconds_max": round(came[-1], 2),
            }
        )
    )
    sys.exit(1 if late else 0)


if __name__ == "__main__":
    main()
