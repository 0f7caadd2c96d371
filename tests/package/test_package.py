"""What is in the wheel and the sdist, and that the command line needs nothing but the plain dependencies.

`make package-check` does the same with pip in an empty environment.
"""

import email
import json
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def wheel(built):
    (path,) = built.glob("*.whl")
    with zipfile.ZipFile(path) as file:
        yield file


def test_the_wheel_holds_the_packages_and_their_data_and_nothing_else(wheel):
    names = set(wheel.namelist())
    assert {name.split("/")[0] for name in names} == {
        "unisono",
        "pyspark_unisono",
        f"unisono-{PROJECT['version']}.dist-info",
    }
    for package in ("unisono", "pyspark_unisono"):
        for path in (ROOT / "src" / package).rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                assert path.relative_to(ROOT / "src").as_posix() in names
    assert "unisono/py.typed" in names
    assert not [name for name in names if "__pycache__" in name or name.endswith(".pyc")]


def test_the_metadata_say_what_it_is(wheel):
    info = f"unisono-{PROJECT['version']}.dist-info"
    told = email.message_from_bytes(wheel.read(f"{info}/METADATA"))
    assert told["Name"] == "unisono"
    assert told["Version"] == PROJECT["version"]
    assert told["License-Expression"] == "Apache-2.0"
    assert told["Requires-Python"] == ">=3.11"
    assert told["Description-Content-Type"] == "text/markdown"
    assert set(told.get_all("Provides-Extra")) == set(PROJECT["optional-dependencies"])
    assert "Apache License" in wheel.read(f"{info}/licenses/LICENSE").decode()
    assert "unisono = unisono.cli.main:run" in wheel.read(f"{info}/entry_points.txt").decode()


def test_the_sdist_holds_what_is_needed_to_build_and_to_test(built):
    (path,) = built.glob("*.tar.gz")
    with tarfile.open(path) as file:
        names = {name.partition("/")[2] for name in file.getnames()}
    wanted = {"pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "Makefile", "requirements.lock"}
    assert wanted | {"src/unisono/__init__.py", "tests/conftest.py", "docs/guarantees.md"} <= names
    assert not [name for name in names if name.startswith((".venv", "out", "unisono-data"))]


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """A folder with the packages that `pip install unisono` brings, and no other."""
    folder = tmp_path_factory.mktemp("plain")
    todo, seen = ["unisono"], set()
    while todo:
        name = todo.pop()
        if name in seen:
            continue
        seen.add(name)
        try:
            distribution = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue  # of another system
        for top in {Path(file).parts[0] for file in distribution.files or ()} - {"..", "__pycache__"}:
            target = folder / top
            if not target.exists() and not top.endswith(".pth"):
                target.symlink_to(distribution.locate_file(top))
        needed = [text for text in distribution.requires or () if "extra ==" not in text]
        todo += [re.match(r"[\w.-]+", text)[0] for text in needed]
    (folder / "unisono").symlink_to(ROOT / "src" / "unisono")
    return folder


def run_plain(plain, *arguments, folder):
    env = {"PYTHONPATH": str(plain), "PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/")}
    command = [sys.executable, "-S", "-m", "unisono", *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=120, check=False, cwd=folder, env=env
    )


def test_without_extras_the_demo_plays_its_first_act_and_says_what_is_missing(plain, tmp_path):
    done = run_plain(plain, "demo", "--seconds", "1", "--json", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["held"] is True
    assert told["processes"] is None
    assert "pip install 'unisono[up]'" in done.stderr
    asked = run_plain(plain, "demo", "--seconds", "1", "--processes", folder=tmp_path)
    assert asked.returncode == 2
    assert "pip install 'unisono[up]'" in asked.stderr


def test_without_extras_the_doctor_lists_them(plain, tmp_path):
    done = run_plain(plain, "doctor", "--json", folder=tmp_path)
    told = {finding["name"]: finding for finding in json.loads(done.stdout)["findings"]}
    assert done.returncode == 0, done.stdout
    for extra in PROJECT["optional-dependencies"]:
        if extra != "pydantic":  # which typer may bring
            assert told[f"extra {extra}"]["state"] == "note"
            assert f"pip install 'unisono[{extra}]'" in told[f"extra {extra}"]["advice"]


@pytest.mark.parametrize(
    "words",
    [
        ("pub", "orders", "1", "--url", "nats://127.0.0.1:1"),
        ("pipeline", "audit", "--journal", "."),
        ("lab", "reproduce", "000"),
        ("bench", "filters"),
        ("bench", "journal"),
    ],
    ids=" ".join,
)
def test_without_its_extra_a_command_says_what_to_install(plain, tmp_path, words):
    done = run_plain(plain, *words, folder=tmp_path)
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    assert re.search(r"pip install 'unisono\[\w+\]'|unisono doctor", done.stderr.replace("\n", " ")), (
        done.stderr
    )
