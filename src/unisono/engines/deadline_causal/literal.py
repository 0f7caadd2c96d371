"""What the paper wrote, to the letter: for tests of the paper and planted bugs, never for use.

The matrix of a message has the message's own stamp in it already (line MB2 comes before MB3), times are compared
by `=` where a moment may be missed, and colours are compared as they are, though they repeat.
"""

from __future__ import annotations

from collections.abc import Iterable

from unisono.engines.deadline_causal.stamps import Past


def del_ok(known: Past, matrix: Past, sender: str, me: str) -> bool:
    """Figure 5, Del_ok: leaves out the sender's own stream, so its former message is never waited for."""
    mine = {x: stamp for (x, to), stamp in matrix.items() if to == me}
    own = known.get((sender, me), 0) < mine.get(sender, 0)
    return own and all(stamp <= known.get((x, me), 0) for x, stamp in mine.items() if x != sender)


def del_viol_co(known: Past, matrix: Past, sender: str, me: str) -> bool:
    """Figure 5, Del_viol_CO: of two messages in one tick of the clock it discards the second."""
    return matrix.get((sender, me), 0) <= known.get((sender, me), 0)


def logical_deadline_reached(now: int, deadlines: Iterable[int]) -> bool:
    """Figure 5, logical_deadline: true at one moment only; who was busy then has missed it."""
    return now == min(deadlines)


def too_late_in_the_text(deadline: int, now: int, mark: int, known: int) -> bool:
    """Section 2.2, too_late at subscribers: late *and* overtaken, so what is late alone is delivered."""
    return deadline < now and mark < known


def too_late_in_the_figure(deadline: int, now: int, mark: int, known: int) -> bool:
    """Figure 5, too_late at subscribers: late *or* overtaken; its comparison of colours is wrong all the same."""
    return deadline < now or mark < known


def colours(rounds: int, alpha: int) -> int:
    """Section 2.2: log N + alpha colours, where log N is the number of rounds an event lives."""
    return rounds + alpha
