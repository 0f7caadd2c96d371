"""The arrows between the rooms, and the laws of the house, as a test."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "unisono"

# room -> the rooms it may look into; everything may look into itself
ARROWS: dict[str, set[str]] = {
    "model": set(),
    "engines": {"model"},
    "ens": {"model"},
    "server": {"model"},
    "observability": {"model"},
    "history": {"model"},
    "journal": {"history", "model"},
    "runtime": {"engines", "ens", "history", "journal", "model", "observability"},
    "sim": {"engines", "history", "journal", "model"},
    # pipeline/stream reads lanes as nodes do, and publishes as anybody does
    "pipeline": {"journal", "history", "model", "lab", "engines", "ens", "runtime", "unisono"},
    # lab/faults and lab/wan start servers, and talk to the public face; lab/wan tells nodes who sequences what
    "lab": {"sim", "testing", "engines", "history", "model", "runtime", "server", "unisono"},
    "testing": {"sim", "engines", "ens", "history", "model", "runtime", "server"},
    "web": {"observability", "history", "journal", "lab", "model", "runtime", "unisono"},
    "cli": {
        "web",
        "pipeline",
        "journal",
        "lab",
        "sim",
        "testing",
        "runtime",
        "server",
        "observability",
        "engines",
        "ens",
        "history",
        "model",
        "unisono",
    },
    "unisono": {"model", "runtime", "cli"},  # __init__.py and __main__.py
}
IMPURE = {"asyncio", "socket", "time", "random", "uuid", "os", "threading", "secrets", "datetime", "logging"}
LINES_MAX = 500


def modules() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


def room_of(path: Path) -> str:
    parts = path.relative_to(SOURCE).parts
    return parts[0] if len(parts) > 1 else "unisono"


def imports(path: Path) -> set[str]:
    """Dotted names of everything a module imports at run time; imports for type checkers only do not count."""
    found: set[str] = set()
    todo: list[ast.AST] = [ast.parse(path.read_text())]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} has a relative import; name the room"
            found.add(node.module or "")
        todo.extend(ast.iter_child_nodes(node))
    return found


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(SOURCE)))
def test_every_import_follows_an_arrow(path: Path) -> None:
    room = room_of(path)
    assert room in ARROWS, f"{room} is a new room: say what it may look into"
    for name in imports(path):
        if name == "unisono" or name.startswith("unisono."):
            other = name.split(".")[1] if "." in name else "unisono"
            assert other == room or other in ARROWS[room], f"{path.name} ({room}) looks into {other}"


@pytest.mark.parametrize("room", ["engines", "model"])
def test_protocols_and_words_are_pure(room: str) -> None:
    for path in (SOURCE / room).rglob("*.py"):
        impure = {name.split(".")[0] for name in imports(path)} & IMPURE
        assert not impure, f"{path.relative_to(SOURCE)} imports {impure}"


def test_the_simulator_knows_no_event_loop() -> None:
    for path in (SOURCE / "sim").rglob("*.py"):
        assert not {"asyncio", "socket", "threading"} & {n.split(".")[0] for n in imports(path)}, path


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(SOURCE)))
def test_a_module_can_be_read_in_one_sitting(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= LINES_MAX


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(SOURCE)))
def test_a_module_says_what_it_is_for(path: Path) -> None:
    text = path.read_text()
    assert not text.strip() or ast.get_docstring(ast.parse(text)), f"{path} has no docstring"


def test_tests_have_names_of_their_own() -> None:
    names = [path.name for path in (ROOT / "tests").rglob("test_*.py")]
    twice = sorted({name for name in names if names.count(name) > 1})
    assert not twice, f"{twice}: pytest takes modules of one name for one module"


def test_the_project_stands_alone() -> None:
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    names = [n for n in tracked.stdout.decode().split("\0") if n]
    if not names:
        pytest.skip("not a git checkout: nothing is tracked")
    foreign = re.compile(r"/w[o]rk/|\.\./sh[a]red|/opt/p[y]pi|p[y]pi\.org|p[y]thonhosted")
    for name in names:
        path = ROOT / name
        if path.is_file() and path.suffix not in {".png", ".lock"}:
            found = foreign.search(path.read_text(errors="replace"))
            assert not found, f"{name} names '{found[0] if found else ''}', a path or host of one machine"
