"""What a paper says, what we measure, and the verdict.

A number of the text is reproduced within a quarter of it. A trend is reproduced if the measured values have it by
the margin that its claim names. Where a claim differs, `why` says what we know of the reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

import msgspec

Verdict: TypeAlias = Literal["reproduced", "differs", "not testable"]

TOLERANCE = 0.25


class Claim(msgspec.Struct, frozen=True):
    """One number or one trend of a paper's text."""

    figure: str  # "000-9"; "beaten" for what we do better
    claim: str
    paper: float | str
    measured: float | str
    verdict: Verdict
    why: str  # how it was judged; where it differs, the reason as far as we know it


def number(
    figure: str, claim: str, paper: float, measured: float, *, within: float = TOLERANCE, differs: str = ""
) -> Claim:
    """A number of the text: reproduced within this share of it."""
    is_near = abs(measured - paper) <= within * abs(paper) + 1e-9  # the edge belongs to it
    rule = f"within {within:.0%} of the paper's number"
    why = rule if is_near else f"not {rule}" + (f": {differs}" if differs else "")
    return Claim(figure, claim, paper, round(measured, 3), "reproduced" if is_near else "differs", why)


def trend(
    figure: str, claim: str, *, holds: bool, measured: str, rule: str, paper: str = "", differs: str = ""
) -> Claim:
    """A trend of the text: reproduced if the rule holds."""
    why = rule if holds else f"this does not hold: {rule}" + (f"; {differs}" if differs else "")
    return Claim(
        figure, claim, paper or "said in the text", measured, "reproduced" if holds else "differs", why
    )


def not_testable(figure: str, claim: str, why: str) -> Claim:
    """A claim that nothing here can judge."""
    return Claim(figure, claim, "said in the text", "", "not testable", why)


def beaten(claim: str, *, paper: float, ours: float, factor: float | None = None, rule: str) -> Claim:
    """What we do better: the paper's protocol in our simulation, ours on the same network, and the target."""
    holds = ours < paper if factor is None else factor * ours <= paper
    measured = f"{shown(ours)} instead of {shown(paper)}"
    if ours:
        measured += f": {paper / ours:.1f} times less"
    return Claim("beaten", claim, "", measured, "reproduced" if holds else "differs", rule)


def shown(value: float) -> str:
    """A number with three digits that count."""
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"


def listed(values: Sequence[float]) -> str:
    """Numbers one after the other."""
    return ", ".join(shown(value) for value in values)


def as_markdown(claims: Sequence[Claim], profile: str) -> str:
    """The table for people: paper says, we measure, verdict."""
    rows = [
        f"| {claim.figure} | {claim.claim} | {claim.paper} | {claim.measured} | {claim.verdict} | {claim.why} |"
        for claim in claims
    ]
    head = [
        "| figure | the paper says | its number | we measure | verdict | why |",
        "|---|---|---|---|---|---|",
    ]
    return "\n".join([f"{profile}.", "", *head, *rows, ""])
