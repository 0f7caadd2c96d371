"""A small share of `make fuzz-filters`, and that it would notice."""

from unisono.engines.filters.strings import Strings
from unisono.lab import filter_fuzz


def test_texts_and_events_find_nothing_wrong():
    found = filter_fuzz.fuzz(1500, seed=11)
    assert found.wrong == []
    assert found.texts >= 1500
    assert found.events >= 1500
    assert 300 < found.refused < 1000
    assert found.matches > 1000
    assert found.covered > 10


def test_what_is_wrong_is_noticed(monkeypatch):
    monkeypatch.setattr(Strings, "is_within", lambda self, other: True)
    assert any("cover" in line or "wrong about" in line for line in filter_fuzz.fuzz(500).wrong)


def test_what_is_run_is_noticed(monkeypatch):
    monkeypatch.setattr(filter_fuzz, "parse", lambda text: exec("1"))
    assert "exec" in filter_fuzz.fuzz(50).wrong[0]
