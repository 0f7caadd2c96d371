# %% [markdown]
# # Was the order kept, and what would make it cheaper?
#
# The functions behind `unisono pipeline`, cell by cell. Open this file as a notebook (VS Code and Jupytext take
# `# %%` as cells), or run it:
#
#     .venv/bin/python examples/audit_notebook.py

# %% A journal: here a made-up one with two deliveries swapped; yours comes from `connect(…, journal=DIR)`.
import tempfile
from pathlib import Path

from unisono.pipeline.audit import audit
from unisono.pipeline.frames import certify_frame
from unisono.pipeline.plan import make_plan
from unisono.pipeline.plan_inputs import journal_rates, journal_subscriptions
from unisono.pipeline.plan_journal import read_journal
from unisono.pipeline.plan_overlaps import count_overlaps
from unisono.pipeline.report import gather_facts, render, save_page
from unisono.pipeline.session import open_session
from unisono.pipeline.synth import synthesize
from unisono.pipeline.tasks import OnSpark

folder = Path(tempfile.mkdtemp(prefix="unisono-notebook-"))
journal = folder / "journal"
made = synthesize(journal, 40_000, plant="swap")
print(f"{made.deliveries:,} deliveries; {made.planted}")

# %% The session you have already, or one that starts fast.
spark = open_session()

# %% Every promise, both ways of judging.
report = audit(journal, runner=OnSpark(spark))
print(report.verdict)
for violation in report.violations:
    print(f"{violation.promise}: {violation.explanation}")

# %% The records are an ordinary frame.
records = read_journal(spark, journal)
records.groupBy("kind").count().show()

# %% The same kernel on any frame of records, wherever they came from.
certified = certify_frame(records.where("process <> 'subscriber-000'"))
print(
    f"without subscriber-000: {len(certified.found)} broken promises in {certified.deliveries:,} deliveries"
)

# %% A plan, and what it saves.
plan = make_plan(count_overlaps(journal_subscriptions(spark, journal, 2)), journal_rates(spark, journal))
print(
    f"entries in upward stamps: {plan.before.stamp_entries_upward:.2f} -> {plan.after.stamp_entries_upward:.2f}"
)

# %% A page to show around.
save_page(render(gather_facts(spark, journal), None, plan), folder / "report.html")
print(folder / "report.html")

# %%
spark.stop()
