"""The audit: both ways of judging a journal, and one document that says what was found.

*certificate*: each delivery against its stamp, and stamps equal everywhere. *independent*: no stamp is trusted, a
common order is looked for and checked. What both can judge, both must agree on.
"""

from __future__ import annotations

import resource
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import msgspec

from unisono.history import PROMISES
from unisono.model.errors import ConfigError, HistoryError
from unisono.pipeline import certify, examine
from unisono.pipeline.digests import disagreement
from unisono.pipeline.explain import Told, Violation, doubt_in_words, put_into_words, together
from unisono.pipeline.findings import Doubt, Found
from unisono.pipeline.segments import Life, Listing, by_life, list_journal
from unisono.pipeline.tasks import Here, Runner

MODES = ("certificate", "independent", "both")
CERTIFICATE = (
    "no_duplication",
    "publisher_fifo",
    "total_notification_order",
    "tags",
    "stamps",
    "nothing_lost",
    "no_endless_wait",
)
INDEPENDENT = tuple(p for p in PROMISES if p != "tags")


class Judged(msgspec.Struct, frozen=True):
    """One promise: held, violated or unknown, why, and how much was looked at."""

    promise: str
    verdict: str
    explanation: str
    checked: int = 0
    matters: bool = True  # False: nobody was promised it, or it is too early to ask


class Report(msgspec.Struct, frozen=True):
    """What `unisono pipeline audit --json` prints."""

    deliveries: int
    verdict: str
    violations: list[Violation]
    seconds: float
    mode: str
    promises: list[Judged]
    refused: list[dict[str, str]]
    memory_mib: dict[str, int]


class Judgement(msgspec.Struct):
    """What one way of judging came to."""

    deliveries: int
    found: list[Found]
    doubts: list[Doubt]
    checked: dict[str, int]
    told: list[Told] = msgspec.field(default_factory=list)  # found in words already
    worker_mib: int = 0
    broken: list[tuple[str, str]] = msgspec.field(default_factory=list)  # (life, why it could not be read on)
    notes: dict[str, str] = msgspec.field(default_factory=dict)  # promise -> what to say if it held


def audit(
    journal: str | Path,
    *,
    mode: str = "both",
    runner: Runner | None = None,
    scratch: str | Path | None = None,
) -> Report:
    """Judge a journal."""
    check_input(journal, mode)
    runner = runner or Here()
    started = time.perf_counter()
    listing = list_journal(journal)
    ways: list[tuple[tuple[str, ...], Judgement]] = []
    if mode != "independent":
        ways.append((CERTIFICATE, by_certificate(listing.lives, runner)))
    if mode != "certificate":
        with tempfile.TemporaryDirectory(prefix="unisono-", dir=scratch) as folder:
            judged = examine.judge_independently(listing.lives, runner, Path(folder), listing.unended)
            ways.append((INDEPENDENT, judged))
    return _report(listing, ways, mode, started)


def check_input(journal: str | Path, mode: str) -> None:
    """Refuse what cannot be judged before Spark is started for it."""
    if mode not in MODES:
        raise ConfigError(f"mode '{mode}' is not one of {', '.join(MODES)}")
    if next(by_life(journal), None) is None:
        raise HistoryError(f"'{journal}' has no segments; name the folder a journal was recorded to")


def by_certificate(lives: Sequence[Life], runner: Runner) -> Judgement:
    """The certificate audit."""
    shown = runner.run("checking stamps", _witness, lives, [life.rows for life in lives])
    return certificate_of(lives, [life for life, _ in shown], runner, max((m for _, m in shown), default=0))


def certificate_of(
    lives: Sequence[Life], shown: Sequence[certify.Witnessed], runner: Runner, worker_mib: int = 0
) -> Judgement:
    """The judgement over what all lives have shown."""
    blocks = certify.suspected_blocks(shown)
    differing = None
    if blocks:
        reach = {life.life: life.reach for life in shown}
        work = partial(certify.copies_in, blocks=blocks)
        things = [(life, reach.get(life.name, [])) for life in lives]
        parts = runner.run("comparing stamps", work, things, [life.rows for life in lives])
        differing = disagreement([part for parts_ in parts for part in parts_])
    whole = {life.name for life in lives if life.is_whole}
    result = certify.certify(shown, whole, differing)
    broken = [(life.life, life.broken) for life in shown if life.broken]
    return Judgement(
        result.deliveries,
        result.found,
        result.doubts,
        dict(result.checked),
        worker_mib=worker_mib,
        broken=broken,
    )


def _witness(life: Life) -> tuple[certify.Witnessed, int]:
    return certify.Witnessed(life.name).feed(life.segments).slim(), memory_mib()


def memory_mib() -> int:
    """The most memory this process has used."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


Ways = list[tuple[tuple[str, ...], Judgement]]


def _report(listing: Listing, ways: Ways, mode: str, started: float) -> Report:
    verdict, promises, violations, refused = summarize(listing, ways)
    return Report(
        deliveries=max((w.deliveries for _, w in ways), default=0),
        verdict=verdict,
        violations=violations,
        seconds=round(time.perf_counter() - started, 3),
        mode=mode,
        promises=promises,
        refused=refused,
        memory_mib={"driver": memory_mib(), "worker": max((w.worker_mib for _, w in ways), default=0)},
    )


def summarize(
    listing: Listing, ways: Ways
) -> tuple[str, list[Judged], list[Violation], list[dict[str, str]]]:
    """The verdict over everything, over each promise, the violations, and what could not be used."""
    told: list[Told] = []
    for _, way in ways:
        told += way.told + put_into_words(listing.lives, way.found)
    refused = [{"path": r.path, "reason": r.reason} for r in listing.refused]
    broken = dict.fromkeys(pair for _, way in ways for pair in way.broken)
    refused += [{"path": life, "reason": why} for life, why in broken]
    promises = _judged(listing, ways, told, bool(refused))
    # What lacks segments may look lost or unpublished without being so.
    sure = {j.promise for j in promises if j.verdict == "violated"}
    violations = together([t for t in told if t.promise in sure])
    matter = [j for j in promises if j.matters]
    if any(j.verdict == "violated" for j in matter):
        verdict = "violated"
    else:
        verdict = "held" if matter and all(j.verdict == "held" for j in matter) else "unknown"
    return verdict, promises, violations, refused


def _judged(
    listing: Listing, ways: list[tuple[tuple[str, ...], Judgement]], told: list[Told], incomplete: bool
) -> list[Judged]:
    judged: list[Judged] = []
    names = [p for p in (*PROMISES, "stamps") if any(p in promises for promises, _ in ways)]
    for name in names:
        mine = [way for promises, way in ways if name in promises]
        words = next((t.words for t in told if t.promise == name), "")
        doubts = [[d for d in way.doubts if d.promise == name] for way in mine]
        sure = [way for way, d in zip(mine, doubts, strict=True) if not d]
        checked = max((way.checked.get(name, 0) for way in mine), default=0)
        if words and not (incomplete and name in ("nothing_lost", "no_creation")):
            judged.append(Judged(name, "violated", words, checked))
        elif incomplete:
            judged.append(Judged(name, "unknown", "segments of the journal could not be read", checked))
        elif sure:
            note = next((way.notes[name] for way in sure if name in way.notes), "")
            judged.append(Judged(name, "held", note or f"{checked} examined, no contradiction", checked))
        else:
            doubt = doubts[0][0]
            judged.append(
                Judged(name, "unknown", doubt_in_words(listing.lives, doubt), checked, doubt.matters)
            )
    return judged
