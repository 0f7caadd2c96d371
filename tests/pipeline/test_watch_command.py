"""`unisono pipeline watch` as it is typed: what it prints, how it ends, what it refuses before Spark is started."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner

from unisono.cli import pipeline_watch
from unisono.cli.main import app
from unisono.pipeline.watch_ledger import Ledger, LifeSoFar, Notice, Page

RUNNER = CliRunner()


class Judging:
    """In place of Spark: one batch, with what is found in it."""

    def __init__(self, ledger: Ledger, teller: pipeline_watch._Teller, notices: list[Notice]) -> None:
        self.ledger, self.teller, self.notices = ledger, teller, notices

    def run(self, until: object) -> None:
        violations = sum(notice.what == "violation" for notice in self.notices)
        unsure = len(self.notices) - violations
        page = Page(0, len(self.notices), violations, unsure, 7, {"s/1": LifeSoFar(2, 30, 20)})
        if not self.ledger.has(0):
            self.ledger.write(page, self.notices)
        for notice in self.ledger.untold():
            self.teller.tell(notice)
        self.teller.judged(page)

    def there_now(self) -> dict[str, int]:
        return {"s/1": 2}

    def has_judged(self, offset: dict[str, int]) -> bool:
        return offset == {"s/1": 2}


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> list[Notice]:
    notices: list[Notice] = []

    @contextmanager
    def running(ledger: Ledger, teller: pipeline_watch._Teller, master: str) -> Iterator[Judging]:
        yield Judging(ledger, teller, notices)

    monkeypatch.setattr(pipeline_watch, "_running", running)
    monkeypatch.setattr(pipeline_watch.signal, "signal", lambda number, handler: None)
    return notices


def watch(folder: Path, *more: str) -> tuple[int, list[dict[str, object]]]:
    (folder / "journal").mkdir(exist_ok=True)
    words = ["pipeline", "watch", "--journal", str(folder / "journal"), "--seconds", "0", "--json", *more]
    done = RUNNER.invoke(app, words)
    return done.exit_code, [json.loads(line) for line in done.stdout.splitlines()]


SWAP = Notice(what="violation", number=1, promise="tags", explanation="s saw b before a", delay_s=1.5)


def test_nothing_wrong(found: list[Notice], tmp_path: Path) -> None:
    code, lines = watch(tmp_path)
    assert code == 0
    assert [line["what"] for line in lines] == ["ready", "progress", "ended"]
    assert (lines[-1]["verdict"], lines[-1]["deliveries"], lines[-1]["forgotten"]) == ("held", 20, 7)


def test_a_violation_is_a_line_and_an_exit_code_also_of_the_next_watch(
    found: list[Notice], tmp_path: Path
) -> None:
    found.append(SWAP)
    code, lines = watch(tmp_path, "--checkpoint", str(tmp_path / "checkpoint"))
    assert code == 1
    told = {"what": "violation", "number": 1, "promise": "tags", "explanation": "s saw b before a"}
    assert lines[1] == told | {"delay_s": 1.5}
    code, lines = watch(tmp_path, "--checkpoint", str(tmp_path / "checkpoint"))
    assert code == 1
    assert [line["what"] for line in lines] == ["ready", "progress", "ended"]
    assert lines[-1]["verdict"] == "violated"


def test_what_cannot_be_judged_is_no_violation_and_no_proof(found: list[Notice], tmp_path: Path) -> None:
    found.append(Notice(what="refused", number=1, explanation="x.parquet: corrupt"))
    code, lines = watch(tmp_path)
    assert (code, lines[-1]["verdict"]) == (0, "unknown")


def test_people_are_told_in_words(
    found: list[Notice], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    found.append(SWAP)
    (tmp_path / "journal").mkdir()
    done = RUNNER.invoke(app, ["pipeline", "watch", "--journal", str(tmp_path / "journal"), "--seconds", "0"])
    assert done.exit_code == 1
    assert done.stdout == ""
    said = " ".join(done.stderr.split())
    assert "tags: s saw b before a (told 1.5 s after it happened)" in said
    assert "violated over 20 deliveries in 2 segments of 1 lives: 1 violations" in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["pipeline", "watch", "--journal", "nowhere"], "'nowhere' is no folder"),
        (["pipeline", "watch", "--journal", ".", "--checkpoint", "other"], "is of the journal '/elsewhere'"),
        (["sub", "a", "--journal-seconds", "1"], "name one with --journal"),
        (["pub", "a", "1", "--journal", "j", "--journal-seconds", "0"], "a segment needs a limit above 0"),
    ],
)
def test_bad_usage_is_one_sentence(words: list[str], said: str, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "watch.json").write_text('{"version":1,"journal":"/elsewhere"}')
    command = [sys.executable, "-m", "unisono", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert done.returncode == 2
    assert said in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr
