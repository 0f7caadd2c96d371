"""Planted bugs: the real engines with one rule broken, and the tiny world in which that must show.

Whoever judges orders can be judged by them: a checker, an explorer or a fuzzer that misses one is itself
broken. The engines carry no bug flags; the bugs live here.
"""

from unisono.testing.planted_bugs.bug import PlantedBug
from unisono.testing.planted_bugs.table import BUGS

__all__ = ["BUGS", "PlantedBug"]
