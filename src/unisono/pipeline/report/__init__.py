"""One HTML page about a journal: what was promised and kept, how long it took, what it cost, what would be cheaper.

The page is a single file without scripts or anything from elsewhere. Facts are counted by Spark, charts are plain
HTML and SVG, and every chart has its numbers beside it in a table.
"""

from unisono.pipeline.report.audit import AuditSummary, load_audit
from unisono.pipeline.report.facts import Facts, check_lake, gather_facts, gather_lake_facts
from unisono.pipeline.report.page import render, save_page

__all__ = [
    "AuditSummary",
    "Facts",
    "check_lake",
    "gather_facts",
    "gather_lake_facts",
    "load_audit",
    "render",
    "save_page",
]
