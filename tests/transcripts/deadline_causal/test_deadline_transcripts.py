"""The transcripts beside this file still tell what happens; UNISONO_WRITE_TRANSCRIPTS=1 writes them anew."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from unisono.testing.deadline_transcripts import replay_deadline_transcript, write_deadline_transcript
from unisono.testing.transcripts import TranscriptError

FILES = sorted(Path(__file__).parent.glob("*.txt"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_deadline_transcript(path: Path):
    if os.environ.get("UNISONO_WRITE_TRANSCRIPTS"):
        write_deadline_transcript(path)
    text = path.read_text()
    assert replay_deadline_transcript(text) == text


def test_figures_1_and_3_are_there():
    assert {"figure_1", "figure_3"} <= {path.stem for path in FILES}


def test_a_line_that_cannot_be_carried_out_is_named():
    with pytest.raises(TranscriptError, match="line 1, 'A dances': this is no command"):
        replay_deadline_transcript("A dances\n")
