"""Every transcript beside this file still tells what happens; UNISONO_WRITE_TRANSCRIPTS=1 writes them anew."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from unisono.testing.transcripts import TranscriptError, replay_transcript, write_transcript

FILES = sorted(Path(__file__).parent.glob("*.txt"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_transcript(path: Path):
    if os.environ.get("UNISONO_WRITE_TRANSCRIPTS"):
        write_transcript(path)
    text = path.read_text()
    assert replay_transcript(text) == text


def test_all_important_exchanges_are_written_down():
    assert len(FILES) >= 10


def test_a_line_that_cannot_be_carried_out_is_named():
    with pytest.raises(TranscriptError, match="line 2, 'p dances': this is no command"):
        replay_transcript("publisher p\np dances\n")
    with pytest.raises(TranscriptError, match="nothing is on its way from q to p"):
        replay_transcript("publisher p\np hears q\n")
