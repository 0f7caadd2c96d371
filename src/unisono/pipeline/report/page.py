"""Facts, verdicts and a plan to one HTML file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from unisono.model.errors import ConfigError, UnisonoError
from unisono.pipeline.plan_cost import Costs
from unisono.pipeline.plan_document import PlanDocument
from unisono.pipeline.report.audit import AuditSummary
from unisono.pipeline.report.charts import (
    LogScale,
    count,
    duration,
    heat_map,
    histogram_bars,
    share,
    top_pairs,
)
from unisono.pipeline.report.facts import Facts

TOPICS_SHOWN = 40
PLAN_ROWS = (
    ("stamp_entries", "Entries in a full stamp"),
    ("stamp_bytes", "Bytes of a full stamp"),
    ("stamp_entries_upward", "Entries in an upward stamp"),
    ("stamp_bytes_upward", "Bytes of an upward stamp"),
    ("path_topics", "Topics on the path"),
    ("hops", "Hosts on the path"),
)
FATES = (
    ("published", "Published"),
    ("delivered", "Delivered"),
    ("tagged", "Tagged"),
    ("held", "Held at the end"),
    ("dropped", "Dropped"),
    ("lost", "Lost"),
)
HEADLINES = {
    "held": "Every promise was kept.",
    "violated": "A promise was broken.",
    "unknown": "Not everything could be judged.",
    "": "Not audited yet.",
}


def render(facts: Facts, audit: AuditSummary | None = None, plan: PlanDocument | None = None) -> str:
    """The page, complete in itself."""
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ImportError:
        raise ConfigError("the report needs jinja2; install it with: pip install 'unisono[spark]'") from None
    environment = Environment(
        loader=PackageLoader("unisono.pipeline.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"duration": duration, "count": count}
    return environment.get_template("page.html").render(**_context(facts, audit, plan))


def save_page(html: str, path: Path) -> None:
    """Write the page aside and rename it."""
    aside = path.with_name(f".{path.name}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        aside.write_text(html, encoding="utf-8")
        aside.replace(path)
    except OSError as error:
        raise UnisonoError(f"{path} cannot be written: {error.strerror}") from None


def _context(facts: Facts, audit: AuditSummary | None, plan: PlanDocument | None) -> dict[str, Any]:
    topics = facts.topics[:TOPICS_SHOWN]
    times = [ms for t in topics for ms in (t.latency_ms_p50, t.latency_ms_p99) if ms is not None]
    scale = LogScale(times)
    totals = facts.totals | {"published": sum(topic.published for topic in facts.topics)}
    verdict = "" if audit is None else audit.verdict
    return {
        "facts": facts,
        "audit": audit,
        "plan": plan,
        "verdict": verdict,
        "headline": HEADLINES[verdict],
        "topics": topics,
        "left_out": len(facts.topics) - len(topics),
        "tiles": [(name, words, totals[name]) for name, words in FATES],
        "scale": scale,
        "timed": [t for t in topics if t.latency_ms_p50 is not None],
        "bars": histogram_bars(facts.histogram),
        "published_max": max((t.published for t in topics), default=0),
        "delivered_max": max((t.delivered for t in topics), default=0),
        "bytes_max": max((t.stamp_bytes for t in topics), default=0),
        "bytes_total": sum(t.stamp_bytes * t.delivered for t in facts.topics),
        "share": share,
        "heat": heat_map(facts.overlaps),
        "pairs": top_pairs(facts.overlaps),
        "plan_rows": [] if plan is None else _plan_rows(plan.before, plan.after),
    }


def _plan_rows(before: Costs, after: Costs) -> list[dict[str, Any]]:
    rows = []
    for name, words in PLAN_ROWS:
        old, new = float(getattr(before, name)), float(getattr(after, name))
        most = max(old, new) or 1.0
        rows.append(
            {
                "words": words,
                "before": old,
                "after": new,
                "before_share": share(old, most),
                "after_share": share(new, most),
                "change": "unchanged" if old == new else f"{100 * (new - old) / (old or 1):+.0f} %",
            }
        )
    return rows
