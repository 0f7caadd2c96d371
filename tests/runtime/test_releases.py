"""Two releases side by side: what travels and is stored only grows at its end, and strangers are refused by name."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest

from unisono.engines.takeover.wire import decode_control
from unisono.model import codec
from unisono.model.errors import FrameError, VersionError
from unisono.model.release import OLDEST, SPEAKS, strange
from unisono.runtime.remote import wire

ROOT = Path(__file__).resolve().parents[2]
RECORDED = [
    pytest.param(json.loads(path.read_text()), id=path.stem)
    for path in sorted((ROOT / "tests" / "data").glob("release_*.json"))
]
DECODERS = {
    "frame": codec.decode_frame,
    "packet": codec.decode_packet,
    "record": codec.decode_record,
    "note": lambda data: wire.decode_notes(data[:1] + b"\x91" + data[1:]),
    "beat": wire.decode_beat,
    "told": wire.decode_told,
    "description": wire.decode_description,
    "wish": wire.decode_replan,
    "control": decode_control,
}


@pytest.fixture(scope="module")
def ours():
    """The structs of this release, described as those before were."""
    spec = importlib.util.spec_from_file_location("record_release", ROOT / "scripts" / "record_release.py")
    recorder = importlib.util.module_from_spec(spec)
    sys.modules["record_release"] = recorder
    spec.loader.exec_module(recorder)
    found = recorder.reached(list(recorder.SHAPES.values()))
    return {name: recorder.described(info) for name, info in found.items()}


def test_the_release_before_is_recorded():
    assert {one.values[0]["speaks"] for one in RECORDED} >= set(range(OLDEST, SPEAKS))


def only_grew(before, now):
    """Why what reads one of two structs does not read the other; None if both do."""
    if (before["tag"], before["array"]) != (now["tag"], now["array"]):
        return "it is written in another way"
    for at, (name, kind, _) in enumerate(before["fields"]):
        if at >= len(now["fields"]) or now["fields"][at][0] != name:
            return f"'{name}' is not where it was"
        if not set(kind.split(" | ")) <= set(now["fields"][at][1].split(" | ")):
            return f"'{name}' was {kind} and is {now['fields'][at][1]}"
    for name, _, has_default in now["fields"][len(before["fields"]) :]:
        if not has_default:
            return f"'{name}' is new and has no default"
    return None


@pytest.mark.parametrize("release", RECORDED)
def test_structs_only_grow_at_their_end_with_defaults(release, ours):
    assert release["version"] == codec.VERSION
    for name, before in release["structs"].items():
        assert name in ours, f"{name} is gone: the release before still sends it"
        assert only_grew(before, ours[name]) is None, f"{name}: {only_grew(before, ours[name])}"


@pytest.mark.parametrize("release", RECORDED)
def test_what_the_release_before_sent_and_stored_is_read(release):
    for kind, examples in release["examples"].items():
        for data in examples:
            DECODERS[kind](bytes.fromhex(data))


@pytest.mark.parametrize("release", RECORDED)
def test_systems_of_the_releases_before_have_topic_managers(release):
    controls = release["examples"]["control"]
    assert {decode_control(bytes.fromhex(data)).sequencer for data in controls} == {"topics"}


def test_the_rule_can_be_broken():
    before = {"tag": "x", "array": True, "fields": [["a", "int", False], ["b", "none | str", True]]}
    assert only_grew(before, before) is None
    assert only_grew(before, {**before, "fields": [*before["fields"], ["c", "int", True]]}) is None
    assert "no default" in only_grew(before, {**before, "fields": [*before["fields"], ["c", "int", False]]})
    assert "not where it was" in only_grew(before, {**before, "fields": before["fields"][1:]})
    assert "was int and is str" in only_grew(
        before, {**before, "fields": [["a", "str", False], before["fields"][1]]}
    )
    assert "another way" in only_grew(before, {**before, "tag": "y"})


@pytest.mark.parametrize("kind", DECODERS)
def test_another_version_is_named_with_what_to_do(kind):
    with pytest.raises(VersionError, match="version 2; this build reads version 1: upgrade this one"):
        DECODERS[kind](b"\x02abc")
    with pytest.raises(VersionError, match="too old; upgrade release by release"):
        DECODERS[kind](b"\x00abc")
    with pytest.raises(FrameError):
        DECODERS[kind](b"\x01\xc1")


def test_who_is_too_old_or_too_new():
    assert strange(SPEAKS, OLDEST) is None
    assert strange(SPEAKS + 1, SPEAKS) is None, "the next release works beside this one"
    assert "upgrade this one first" in strange(SPEAKS + 2, SPEAKS + 1)
    assert "too old" in strange(OLDEST - 1, OLDEST - 1)
