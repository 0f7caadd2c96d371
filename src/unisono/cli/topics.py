"""`unisono topics` and `unisono groups`: who sequences what, and which topics are ordered together."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from unisono.cli.output import Json, people, print_json
from unisono.cli.settings import Url, url_of
from unisono.runtime.remote.admin import Overview, delete_topics, look

Delete = Annotated[
    list[str] | None,
    typer.Option("--delete", help="Delete a topic: it takes no more events; may be repeated."),
]


def topics(url: Url = None, delete: Delete = None, json: Json = False) -> None:
    """Show every topic: its rank, its owner, how far it is, and the topics it is ordered with."""
    if delete:
        control = asyncio.run(delete_topics(url_of(url), tuple(delete)))
        if json:
            print_json({"deleted": sorted(delete), "epoch": control.epoch})
        else:
            people.print(f"{escape(', '.join(delete))}: deleted with epoch {control.epoch}")
        return
    overview = asyncio.run(look(url_of(url)))
    control, known = overview.control, overview.topics
    rows: list[dict[str, Any]] = []
    for rank, topic in enumerate(control.plan.rank, start=1):
        described = known.get(topic)
        rows.append(
            {
                "topic": topic,
                "rank": rank,
                "owner": control.owner[topic],
                "number": None if described is None else described.number,
                "subscribers": None if described is None else described.subscribers,
                "deleted": topic in control.closed,
                "group": sorted(control.plan.group[topic]) if described is None else list(described.group),
            }
        )
    if json:
        facts = {"epoch": control.epoch, "state": control.state, "durability": overview.durability}
        nodes = {"sequencer": control.sequencer, "nodes": _nodes(overview)}
        print_json({**facts, **nodes, "topics": rows})
        return
    live = ", ".join(control.live)
    table = Table(title=f"epoch {control.epoch}, nodes {live}, durability {overview.durability}")
    for column in ("rank", "topic", "owner", "events", "subscribers", "ordered with"):
        table.add_column(column)
    for row in rows:
        others = "deleted" if row["deleted"] else ", ".join(t for t in row["group"] if t != row["topic"])
        cells = (str(row[name]) for name in ("rank", "topic", "owner", "number", "subscribers"))
        table.add_row(*map(escape, cells), escape(others))
    people.print(table)


def groups(url: Url = None, json: Json = False) -> None:
    """Show the sequencing groups: topics that share subscribers, and so are ordered together."""
    overview = asyncio.run(look(url_of(url)))
    control = overview.control
    together = {topic: set(control.plan.group[topic]) for topic in control.plan.rank}
    for topic, described in overview.topics.items():
        together.setdefault(topic, set()).update(described.group)
    found: list[dict[str, Any]] = [
        {
            "topics": sorted(group),
            "owners": sorted({control.owner[topic] for topic in group if topic in control.owner}),
            "overlaps": {topic: sorted(together[topic] - {topic}) for topic in sorted(group)},
        }
        for group in components(together)
    ]
    if json:
        print_json({"epoch": control.epoch, "groups": found})
        return
    for i, group in enumerate(found, start=1):
        people.print(f"[bold]group {i}[/] on {escape(', '.join(group['owners']))}")
        for topic, others in group["overlaps"].items():
            people.print(f"  {escape(topic)}: {escape(', '.join(others)) or 'shares nobody'}")


def components(together: dict[str, set[str]]) -> list[set[str]]:
    """The connected components of who is ordered with whom, in the order of the topics."""
    left = dict.fromkeys(together)
    found = []
    while left:
        component: set[str] = set()
        todo = [next(iter(left))]
        while todo:
            topic = todo.pop()
            if topic not in component:
                component.add(topic)
                left.pop(topic, None)
                todo += together.get(topic, ())
        found.append(component)
    return found


def _nodes(overview: Overview) -> list[dict[str, Any]]:
    control = overview.control
    owned = list(control.owner.values())
    answered = {node.node: node for node in overview.nodes}
    return [
        {
            "node": node,
            "alive": node not in control.dead,
            "answers": node in answered,
            "leader": node == control.leader,
            "topics": owned.count(node),
            "unconfirmed": answered[node].unconfirmed if node in answered else None,
        }
        for node in control.nodes
    ]
