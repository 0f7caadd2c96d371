"""The newcomer's script, without cloning and set-up; `make newcomer` walks all of it."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_a_newcomer_sees_a_live_ordered_system():
    script = [
        sys.executable,
        str(ROOT / "scripts" / "newcomer.py"),
        "--with",
        str(Path(sys.executable).parent),
    ]
    done = subprocess.run(script, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["seen"] == {"events": 100, "subscriptions": 2, "nodes": ["n1", "n2"]}
    assert told["total_s"] < 100


def test_the_readme_shows_the_way():
    readme = (ROOT / "README.md").read_text()
    assert "unisono up --nodes 2 --dashboard" in readme
