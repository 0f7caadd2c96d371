"""plan.json: what `unisono pipeline plan` writes, `unisono rank` and the report read.

The plan itself is in it once: ranks, parents and overlaps; groups of stamps follow from the overlaps. Whoever
loads a document gets a plan that keeps the three laws, or a PlanError that says which one is broken.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from unisono.engines.plan import Plan, check_plan
from unisono.model.errors import PlanError
from unisono.pipeline.plan_cost import Costs
from unisono.pipeline.plan_place import Placement
from unisono.pipeline.plan_sequencers import Atoms, Sequencers

VERSION = 1


class PlannedTopic(msgspec.Struct, frozen=True):
    """One topic: what is known of it, its place in the plan, and what its events cost."""

    topic: str
    rate: float  # events per second
    subscribers: int
    rank: int  # 1 is the top
    group: int  # which of `groups` it is sequenced in
    parent: str | None
    host: str
    stamp_entries: int
    stamp_entries_upward: int
    path_topics: int
    hops: int


class PlanDocument(msgspec.Struct, frozen=True):
    """A plan, why it is what it is, and what it changes."""

    version: Annotated[int, msgspec.Meta(ge=1, le=VERSION)]
    epoch: Annotated[int, msgspec.Meta(ge=0)]
    threshold: Annotated[int, msgspec.Meta(ge=1)]
    kind: Literal["line", "forest"]
    subscriptions: int
    distinct: int  # subscriptions left when identical ones are collapsed
    topics: tuple[PlannedTopic, ...]  # in rank order
    ranks: dict[str, int]  # 1 is the top
    groups: tuple[tuple[str, ...], ...]  # topics sequenced together, each group in rank order
    overlaps: tuple[tuple[int, int, int], ...]  # ranks of two topics that conflict, and the weight they share
    placement: Placement
    before: Costs
    after: Costs
    seconds: float = 0.0
    atoms: Atoms | None = None  # None: the document is older than them
    sequencers: Sequencers | None = None

    def plan(self) -> Plan:
        """The plan for the engines; raises PlanError when it is none."""
        names = tuple(row.topic for row in self.topics)
        if self.ranks != {topic: i for i, topic in enumerate(names, start=1)}:
            raise PlanError("'ranks' does not number the topics in the order in which 'topics' lists them")
        near: list[set[str]] = [{topic} for topic in names]
        for low, high, _ in self.overlaps:
            if not (0 < low < high <= len(names)):
                raise PlanError(f"overlap [{low}, {high}] is not a pair of ranks between 1 and {len(names)}")
            near[low - 1].add(names[high - 1])
            near[high - 1].add(names[low - 1])
        parent = {row.topic: row.parent for row in self.topics}
        group = {topic: frozenset(near[i]) for i, topic in enumerate(names)}
        plan = Plan(rank=names, parent=parent, group=group, epoch=self.epoch)
        check_plan(plan)
        return plan


def load_plan(source: Path | str | dict[str, Any]) -> PlanDocument:
    """The document in a file, or given as plain data; raises PlanError when it is none or breaks a law."""
    try:
        if isinstance(source, dict):
            document = msgspec.convert(source, PlanDocument)
        else:
            document = msgspec.json.decode(Path(source).read_bytes(), type=PlanDocument)
    except msgspec.MsgspecError as error:
        raise PlanError(f"{'this' if isinstance(source, dict) else source} is not a plan: {error}") from None
    except OSError as error:
        raise PlanError(f"{source} cannot be read: {error.strerror}") from None
    document.plan()
    return document


def save_plan(document: PlanDocument, path: Path) -> None:
    """Write the document, aside and renamed, so that nobody ever loads half a plan."""
    aside = path.with_name(f".{path.name}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        aside.write_bytes(msgspec.json.encode(document))
        aside.replace(path)
    except OSError as error:
        raise PlanError(f"{path} cannot be written: {error.strerror}") from None
