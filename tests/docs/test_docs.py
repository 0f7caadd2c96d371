"""Documents and examples are run. Links, names and commands: test_reference.py."""

import asyncio
import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").glob("*.md")])
SNIPPETS = [
    pytest.param(code, id=f"{page.name}-{i}")
    for page in PAGES
    for i, code in enumerate(re.findall(r"^```python\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE))
]


@pytest.mark.parametrize("code", SNIPPETS)
def test_a_snippet_runs(code, tmp_path):
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=30, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr


def test_code_paths_named_in_the_docs_exist():
    for page in PAGES:
        for name in re.findall(r"`((?:src|tests|examples|docs)/[\w/.-]+\.\w+)`", page.read_text()):
            assert (ROOT / name).exists(), f"{page.name} names {name}"


def example(name, monkeypatch):
    spec = importlib.util.spec_from_file_location(name, ROOT / "examples" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, module)
    spec.loader.exec_module(module)
    return module


def test_the_ticker_desk_agrees(monkeypatch):
    module = example("ticker_desk", monkeypatch)
    first, second = asyncio.run(module.main(seed=3, count=300))
    assert first == second
    assert first


def test_the_regions_agree_while_players_walk(monkeypatch):
    module = example("game_regions", monkeypatch)
    first, second, walked = asyncio.run(module.main(seed=3, count=300))
    assert first == second
    assert len(first) == 300
    assert walked
    assert module.agrees(walked, first)


def test_two_desks_in_processes_of_their_own_agree():
    command = [sys.executable, str(ROOT / "examples" / "two_desks.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout == "two desks heard 600 events, in one order\n", done.stderr


def test_topics_spread_over_three_nodes_are_heard_in_one_order():
    command = [sys.executable, str(ROOT / "examples" / "atoms.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    together, without, told = done.stdout.splitlines()
    assert all(f"n{i} 0" not in together for i in (1, 2, 3)), "every node has a share"
    assert without.startswith("topics, without n1: n2 "), done.stderr
    assert told == "two listeners heard 360 events, in one order"


def test_a_desk_that_is_killed_books_everything_once():
    command = [sys.executable, str(ROOT / "examples" / "durable_desk.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    killed, told = done.stdout.splitlines()
    assert killed.startswith("killed with "), done.stderr
    assert told == "300 events booked, which add up to 300"


def test_readings_come_over_an_overlay_that_loses():
    command = [sys.executable, str(ROOT / "examples" / "edge.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    came = re.match(r"(\d+) of 135 alarms came, 0 of them twice\n", done.stdout)
    assert came, done.stderr
    assert int(came[1]) >= 134


def test_a_busy_feed_is_heard_in_one_order():
    command = [sys.executable, str(ROOT / "examples" / "busy_feed.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout.startswith("20,000 events, two listeners, one order, "), done.stderr


def test_five_viewers_are_shown_nothing_after_a_reply_to_it():
    command = [sys.executable, str(ROOT / "examples" / "shared_video.py"), "--seconds", "3"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    told = re.match(
        r"(\d+) shown to 5 viewers in time, \d+ dropped, 0 shown after a reply to it\n", done.stdout
    )
    assert told, done.stdout + done.stderr
    assert int(told[1]) > 10
