"""Whatever is missing, wrong or full: one sentence that says what to do, exit code 2, no trace of Java or Python."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from unisono.cli import main as command_line
from unisono.pipeline import lake as lakes
from unisono.pipeline.synth import synthesize

JOURNAL = {"topics": 6, "subscribers": 8, "each": 3, "publishers": 3}


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("errors") / "journal"
    synthesize(folder, 20_000, **JOURNAL)
    return folder


def say(*arguments: object, **environment: str) -> str:
    """What the command says when it refuses, on one line."""
    command = [sys.executable, "-m", "unisono", "pipeline", *map(str, arguments)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=200, env={**os.environ, **environment}
    )
    assert done.returncode == 2, (done.returncode, done.stdout, done.stderr)
    assert "Traceback" not in done.stderr
    assert "\tat " not in done.stderr
    return " ".join(done.stderr.split())


@pytest.mark.parametrize("command", ["audit", "plan", "report"])
def test_without_java_it_says_what_to_install(command: str, journal: Path) -> None:
    said = say(command, "--journal", journal, PATH="/nowhere", JAVA_HOME="")
    assert "Spark needs Java 17 or newer and none was found; install one" in said


def test_a_run_without_java_says_so_too(journal: Path, tmp_path: Path) -> None:
    said = say("run", "--journal", journal, "--lake", tmp_path / "lake", PATH="/nowhere", JAVA_HOME="")
    assert "install one" in said
    assert "JAVA_HOME" in say("run", "--journal", journal, "--lake", tmp_path / "lake", JAVA_HOME="/nowhere")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--master", "spark:/typo"), "is no Spark master; use local[*], spark://host:7077"),
        (("--master", "spark://127.0.0.1:1"), "check the address, or leave it out to run here"),
        (("--remote", "http://x"), "it looks like sc://host:15002"),
        (("--remote", "sc://127.0.0.1:1"), "check the address, or leave it out to run here"),
    ],
)
def test_a_wrong_master_is_named(options: tuple[str, ...], words: str, journal: Path) -> None:
    assert words in say("audit", "--journal", journal, *options)


def test_run_looks_at_the_master_even_where_it_would_not_need_it(journal: Path, tmp_path: Path) -> None:
    said = say("run", "--journal", journal, "--lake", tmp_path / "lake", "--master", "spark:/typo")
    assert "is no Spark master" in said
    assert not (tmp_path / "lake").exists()
    assert "Spark Connect URL" in say(
        "run", "--journal", journal, "--lake", tmp_path / "lake", "--remote", "x"
    )


def test_a_lake_that_cannot_be_used_is_named(journal: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    said = say("run", "--journal", journal, "--lake", tmp_path / "file" / "lake")
    assert "name a folder you may write to" in said
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd" / "states").touch()
    assert "name a folder you may write to" in say("run", "--journal", journal, "--lake", tmp_path / "odd")
    assert "make one with 'unisono pipeline run'" in say("plan", "--lake", tmp_path / "none")
    assert "make them with 'unisono pipeline run'" in say("report", "--lake", tmp_path / "none")


def test_a_damaged_state_is_judged_again_from_the_journal(journal: Path, tmp_path: Path) -> None:
    from unisono.pipeline.ingest import ingest
    from unisono.pipeline.lake import Lake
    from unisono.pipeline.tasks import Here

    lake = Lake(tmp_path / "lake").open()
    first = ingest(journal, lake, Here())
    (state,) = lake.states.glob("subscriber-003*")
    state.write_bytes(state.read_bytes()[:100])
    second = ingest(journal, lake, Here())
    assert second.rows_new > 0
    assert second.segments_new == 0
    assert second.judgement.deliveries == first.judgement.deliveries
    assert lake.state("subscriber-003/0") is not None


def test_a_journal_that_is_none_is_named(tmp_path: Path) -> None:
    assert "name the folder a journal was recorded to" in say("audit", "--journal", tmp_path)
    lake = tmp_path / "lake"
    assert "is no folder" in say("run", "--journal", tmp_path / "x", "--lake", lake)
    assert not lake.exists()


@pytest.mark.parametrize("where", ["replace_bytes", "replace_table"])
def test_a_disk_that_fills_up_is_explained(
    where: str, journal: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    def full(path: Path, data: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    monkeypatch.setattr(lakes, where, full)
    monkeypatch.setattr(f"unisono.pipeline.run.{where}", full)
    arguments = ["pipeline", "run", "--journal", str(journal), "--lake", str(tmp_path / "lake")]
    monkeypatch.setattr(sys, "argv", ["unisono", *arguments])
    with pytest.raises(SystemExit) as ended:
        command_line.run()
    assert ended.value.code == 2
    assert "the disk is full; make room" in " ".join(capsys.readouterr().err.split())


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of one MiB, where this machine lets us have one."""
    place = tmp_path / "small"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)]
    try:
        mounted = subprocess.run(command, capture_output=True).returncode == 0
    except OSError:
        mounted = False
    if not mounted:
        pytest.skip("only root may mount a small disk")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def test_a_small_disk_is_explained_wherever_it_fills_up(small_disk: Path, tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    made = synthesize(journal, 200_000, **JOURNAL)
    assert "the disk is full; make room" in say(
        "synth", "--deliveries", 300_000, "--out", small_disk / "journal"
    )
    subprocess.run(["rm", "-rf", str(small_disk / "journal")], check=True)
    said = say("run", "--journal", journal, "--lake", small_disk / "lake")
    assert "the disk is full; make room, or set TMPDIR and --lake to a disk that has some" in said
    subprocess.run(["rm", "-rf", str(small_disk / "lake")], check=True)
    assert made.events > 5000
    said = say("audit", "--journal", journal, "--mode", "independent", TMPDIR=str(small_disk))
    assert "the disk is full; make room" in said
