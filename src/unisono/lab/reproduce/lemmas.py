"""Paper 001, its lemmas and its theorem: each explored with the paper's rules and with ours, in the same tiny worlds.

Nothing is swept and nothing drawn: the explorer visits every interleaving while the command runs, and what it finds
is the verdict. A statement is reproduced if no interleaving of the paper's own rules breaks it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from unisono.lab.reproduce.claims import Claim, Verdict
from unisono.lab.reproduce.families import EXPLORED, Family, Profile
from unisono.lab.reproduce.lemma_trials import Seen, Tiny, Trial
from unisono.lab.reproduce.lemma_worlds import Rules, described
from unisono.sim.explore import Explorer
from unisono.sim.explore.search import Step

STATES_MAX: dict[Profile, int] = {"quick": 20_000, "full": 60_000}  # of a world that moves


@dataclass(frozen=True)
class Statement:
    """What the paper says, in which worlds and by which rules it is tried, and what we do instead where it is false."""

    figure: str  # "001-lemma-1"
    says: str
    trial: Trial
    worlds: Callable[[Profile], tuple[Tiny, ...]]
    paper: tuple[Rules, ...]
    ours: tuple[Rules, ...]
    repaired: str = ""
    is_promised: bool = True  # by us, as it is written
    profiles: tuple[Profile, ...] = ("quick", "full")


@dataclass(frozen=True)
class Tried:
    """What came of one statement under some rules."""

    seen: Sequence[tuple[Tiny, Seen]]

    @property
    def broken(self) -> list[tuple[Tiny, Seen]]:
        """The worlds that contradict it, the shortest way first."""
        found = [(world, seen) for world, seen in self.seen if seen.broken]
        return sorted(found, key=lambda pair: len(pair[1].trace))

    @property
    def states(self) -> int:
        """Of all worlds; those that several share are counted once."""
        return sum(seen.states for _, seen in self.seen)

    @property
    def extent(self) -> str:
        """How much was explored; a world is left when it has contradicted."""
        cut = sum(not seen.whole for _, seen in self.seen)
        worlds = f"{len(self.seen):,} world{'s' if len(self.seen) > 1 else ''}, {self.states:,} states"
        if cut:
            return f"{worlds}, {cut} of them not to the end"
        return worlds if self.broken else f"{worlds}, every interleaving"


def try_rules(statement: Statement, rules: Sequence[Rules], profile: Profile) -> Tried:
    """Explore the worlds of a statement under each of these rules."""
    worlds, explorer = statement.worlds(profile), Explorer()
    return Tried(
        [
            (world, statement.trial(world.but(**changed), explorer, STATES_MAX[profile]))
            for changed in rules
            for world in worlds
        ]
    )


def as_words(trace: Sequence[Step]) -> str:
    """The steps of a counter-example, one after the other."""
    said: list[str] = []
    for step in trace:
        match step:
            case ("receive", source, to, *_):
                said.append(f"{to} hears {source}")
            case ("notify", name, *_) | (name, "arrive", *_):
                said.append(f"{name} is notified")
            case ("change", name):
                said.append(f"{name} changes its topics")
            case ("store", node, *_):
                said.append(f"{node} stores")
            case ("rest",):
                pass
            case _:
                said.append(" ".join(step))
    return ", ".join(said)


def judge(statement: Statement, paper: Tried, ours: Tried) -> Claim:
    """The verdict is the explorer's: about the paper's rules; `why` has what ours do in the same worlds."""
    broken = paper.broken
    if broken:
        world, seen = broken[0]
        measured = (
            f"broken in {len(broken)} of {paper.extent}; the smallest: {described(world)}: {seen.broken}, "
            f"after {len(seen.trace)} steps ({as_words(seen.trace)})"
        )
    else:
        measured = f"holds in {paper.extent}"
    if ours.broken:
        kept = f"ours break it too: {ours.broken[0][1].broken}"
    else:
        kept = f"ours hold in the same worlds ({ours.extent})"
    known = statement.repaired or "we know no reason"
    why = f"{known}; {kept}" if broken else f"no interleaving of the paper's rules breaks it; {kept}"
    verdict: Verdict = "differs" if broken else "reproduced"
    return Claim(statement.figure, statement.says, "said in the text", measured, verdict, why)


def examine(
    profile: Profile, figures: Collection[str], tell: Callable[[int, int], None] = lambda done, of: None
) -> list[Claim]:
    """Explore these statements now; the last claim says whether ours kept what they promise."""
    from unisono.lab.reproduce.lemma_table import STATEMENTS

    chosen = [one for one in STATEMENTS if one.figure in figures and profile in one.profiles]
    claims: list[Claim] = []
    promised: list[tuple[Tiny, Seen]] = []
    for done, statement in enumerate(chosen):
        tell(done, len(chosen))
        paper = try_rules(statement, statement.paper, profile)
        ours = try_rules(statement, statement.ours, profile)
        claims.append(judge(statement, paper, ours))
        promised += ours.seen if statement.is_promised else []
    tell(len(chosen), len(chosen))
    return [*claims, repaired(Tried(promised))]


def repaired(ours: Tried) -> Claim:
    """Whether our rules keep everything they promise in the worlds of all statements."""
    broken = ours.broken
    measured = f"broken: {broken[0][1].broken}" if broken else f"holds in {ours.extent}"
    return Claim(
        "beaten",
        "001: what its lemmas and its theorem promise, by our rules",
        "",
        measured,
        "differs" if broken else "reproduced",
        "no world may break it; statements that we promise in other words are left out",
    )


FIGURES = (
    *(f"001-lemma-{n}" for n in range(1, 7)),
    "001-theorem-1",
    "001-fig-2",
    "001-fig-3",
    "001-fig-4",
    "001-fig-5",
)

FAMILY = Family("lemmas", FIGURES, lambda _: [], lambda _: [], lambda _: [], examine, EXPLORED)
