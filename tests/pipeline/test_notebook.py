"""The example for notebooks runs, and finds what was planted."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "audit_notebook.py"


def test_the_functions_are_usable_from_a_notebook(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLE)],
        capture_output=True,
        text=True,
        timeout=280,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    assert done.returncode == 0, done.stderr
    said = done.stdout
    assert "\nviolated\ntotal_notification_order: subscriber-000 saw " in said
    assert "without subscriber-000: 0 broken promises" in said
    before, after = said.split("upward stamps: ")[1].split("\n")[0].split(" -> ")
    assert float(after) <= float(before)
    page = Path(said.strip().splitlines()[-1])
    assert page.is_relative_to(tmp_path)
    assert "<html" in page.read_text()
