"""Measures `unisono pipeline run` over a journal, and again after the journal has grown by one hundredth.

Run as `make pipeline-growth`. Exit code 1 when the second run takes more than 15 % of the first, or when the
lake does not hold every row once afterwards.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from unisono.journal.segments import Label, segment_path, write_segment
from unisono.pipeline.segments import Life, list_journal
from unisono.pipeline.synth import synthesize

SHARE_MAX = 0.15


def main() -> int:
    """Measure both runs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--deliveries", type=int, default=20_000_000)
    parser.add_argument("--growth", type=float, default=0.01)
    parser.add_argument("--out", type=Path, help="Where to work; a temporary folder by default.")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="unisono-growth-", dir=chosen.out) as folder:
        whole, journal, lake = (Path(folder) / name for name in ("whole", "journal", "lake"))
        made = synthesize(whole, chosen.deliveries)
        lives = list_journal(whole).lives
        for life in lives:
            _write(life, whole, journal, chosen.growth, grown=False)
        first = _run(journal, lake)
        for life in lives:
            _write(life, whole, journal, chosen.growth, grown=True)
        second = _run(journal, lake)
    share = second["wall_s"] / first["wall_s"]
    result = {"deliveries": made.deliveries, "first": first, "second": second, "share": round(share, 3)}
    print(json.dumps(result, indent=2))
    whole_once = (
        second["deliveries"] == made.deliveries and first["rows_new"] + second["rows_new"] == made.records
    )
    return 0 if share <= SHARE_MAX and whole_once and second["verdict"] == "held" else 1


def _write(life: Life, whole: Path, journal: Path, growth: float, *, grown: bool) -> None:
    """The segments of a life, the last rows in a segment of their own that comes later."""
    left = max(1, round(life.rows * growth)) if life.rows > 1 else 0
    tables = [pq.read_table(segment.path) for segment in life.segments]
    tail, kept = left, list(tables)
    late = []
    while tail:  # the growth may span segments
        last = kept.pop()
        cut = max(0, len(last) - tail)
        late.append(last.slice(cut))
        tail -= len(last) - cut
        if cut:
            kept.append(last.slice(0, cut))
    process, name = life.name.split("/")
    parts = [*kept, *reversed(late)]
    for number, table in enumerate(parts):
        if (number >= len(kept)) == grown:
            label = Label(process, name, number, number == len(parts) - 1)
            segment_path(journal, label).parent.mkdir(parents=True, exist_ok=True)
            write_segment(journal, label, table)


def _run(journal: Path, lake: Path) -> dict[str, Any]:
    """One run, as anybody would start it, with its whole time."""
    command = [
        sys.executable,
        "-m",
        "unisono",
        "pipeline",
        "run",
        "--journal",
        str(journal),
        "--lake",
        str(lake),
    ]
    started = time.perf_counter()
    done = subprocess.run([*command, "--json"], capture_output=True, text=True)
    seconds = time.perf_counter() - started
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}: {done.stderr}")
    said = json.loads(done.stdout)
    kept = {
        key: said[key] for key in ("rows_new", "segments_new", "deliveries", "verdict", "seconds_by_stage")
    }
    return {"wall_s": round(seconds, 1), **kept}


if __name__ == "__main__":
    sys.exit(main())
