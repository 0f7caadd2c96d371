"""Scenario files that are wrong: one line, with file, line and key; whatever is done to a file, nobody sees a traceback."""

from __future__ import annotations

import random
import re
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unisono.cli import main
from unisono.lab.scenarios.load import load_scenario, read_scenario
from unisono.lab.scenarios.reading import Text
from unisono.lab.scenarios.worlds import make_world
from unisono.model.errors import ConfigError

EXAMPLES = sorted((Path(__file__).parents[2] / "examples" / "scenarios").glob("*.toml"))
SHORT = [file for file in EXAMPLES if file.stem != "ring"]
FILE = Path("world.toml")

SMALL = """\
seed = 5
duration = 2.0

[topics]
count = 4

[[subscribers]]
count = 6
pick = 2

[publications]
rate = 20.0
publishers = 2
popularity = "zipf"

[network]
latency_ms = 10.0
"""


def refusal(text: str) -> str:
    with pytest.raises(ConfigError) as error:
        make_world(read_scenario(Text(str(FILE), text), FILE))
    return str(error.value)


def call(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["unisono", "lab", "run", *arguments])
    with pytest.raises(SystemExit) as ended:
        main.run()
    return int(ended.value.code or 0)


def replaced(before: str, after: str) -> str:
    assert before in SMALL
    return SMALL.replace(before, after, 1)


WRONG = {
    "an unknown key": (
        replaced("rate", "rat"),
        "line 12: 'publications.rat' is not a key of [publications]; did you mean 'rate'?",
    ),
    "an unknown key at the top": (
        "sed = 1\n" + SMALL,
        "line 1: 'sed' is not a key of a scenario; did you mean 'seed'?",
    ),
    "an unknown table": (SMALL + "[topology]\nx = 1\n", "line 18: 'topology' is not a key of a scenario"),
    "an unknown key in an inline table": (
        replaced('"zipf"', '{ kind = "zipf", shap = 2 }'),
        "line 14: 'publications.popularity.shap'",
    ),
    "a negative rate": (replaced("20.0", "-20.0"), "line 12: 'publications.rate' is above 0, not -20.0"),
    "a rate of zero": (replaced("20.0", "0"), "line 12: 'publications.rate' is above 0, not 0"),
    "no number": (replaced("20.0", '"fast"'), "line 12: 'publications.rate' is a number, not \"fast\""),
    "not a number": (replaced("20.0", "nan"), "line 12: 'publications.rate' is a number, not nan"),
    "a boolean for a number": (
        replaced("20.0", "true"),
        "line 12: 'publications.rate' is a number, not true",
    ),
    "half a topic": (
        replaced("count = 4", "count = 0.5"),
        "line 5: 'topics.count' is a whole number, not 0.5",
    ),
    "no topics": (replaced("count = 4", "count = 0"), "line 5: 'topics.count' is at least 1, not 0"),
    "too many": (
        replaced("count = 4", "count = 999999"),
        "line 5: 'topics.count' is at most 10,000, not 999999",
    ),
    "a missing topic": (
        replaced("pick = 2", 'topics = ["t1",\n "t9"]'),
        "line 10: 'subscribers.topics' has \"t9\", which is no topic of this scenario",
    ),
    "a pattern for nothing": (
        replaced("pick = 2", 'topics = ["x.*"]'),
        "line 9: 'subscribers.topics' has \"x.*\", which is no topic",
    ),
    "a topic with a space": (
        replaced("count = 4", 'names = ["a b"]'),
        "line 5: 'topics.names' is no good: topic 'a b' has a space",
    ),
    "a topic twice": (
        replaced("count = 4", 'names = ["a", "b", "a"]'),
        "line 5: 'topics.names' has \"a\" twice",
    ),
    "count and names": (
        replaced("count = 4", 'names = ["a"]\ncount = 4'),
        "line 6: 'topics.count' contradicts 'topics.names'",
    ),
    "more picked than there are": (
        replaced("pick = 2", "pick = 5"),
        "line 9: 'subscribers.pick' is 5, and there are 4 topics to pick from",
    ),
    "popularity of nothing": (
        replaced("pick = 2", 'popularity = "zipf"'),
        "line 9: 'subscribers.popularity' says how topics are picked",
    ),
    "a wrong word": (
        replaced('"zipf"', '"zpif"'),
        "line 14: 'publications.popularity' is one of uniform, power-law, zipf, worst-case, not \"zpif\"; did you mean 'zipf'?",
    ),
    "a table for a word": ("name = { a = 1 }\n" + SMALL, "line 1: 'name' is a word, not a table"),
    "a word for a table": (
        "network = 3\n" + SMALL.partition("[network]")[0],
        "line 1: 'network' is a table, not 3",
    ),
    "a number among tables": ("faults = [1]\n" + SMALL, "line 1: 'faults' is made of tables"),
    "loss without end": (SMALL + "loss = 1.0\n", "line 18: 'network.loss' is at most 0.9, not 1.0"),
    "no subscribers": (
        SMALL.replace("[[subscribers]]\ncount = 6\npick = 2\n", ""),
        "'subscribers' is missing",
    ),
    "no publications": (SMALL.partition("[publications]")[0], "'publications' is missing"),
    "no rate": (replaced("rate = 20.0\n", ""), "line 11: 'publications.rate' is missing"),
    "no topics at all": (replaced("[topics]\ncount = 4\n", ""), "'topics' is missing"),
    "wait with a buffer": (
        "buffer = 3\n" + SMALL,
        "line 1: 'buffer' contradicts the rest: on_gap='wait' holds as long as it takes",
    ),
    "wait with a bound": (
        replaced("pick = 2", "pick = 2\nmax_hold = 1.0"),
        "line 10: 'subscribers.max_hold' contradicts the rest",
    ),
    "upward stamps that wait": (
        'stamps = "upward"\n' + SMALL,
        "'on_gap' contradicts the rest: stamps='upward'",
    ),
    "a guarantee that is not simulated": (
        'guarantee = "causal"\n' + SMALL,
        "line 1: 'guarantee' is \"total_causal\" in a simulation",
    ),
    "no guarantee": ('guarantee = "none"\n' + SMALL, "line 1: 'guarantee' is not simulated"),
    "an order": (
        'order = "total"\n' + SMALL,
        "line 1: 'order' is not a key of a scenario; did you mean 'guarantee'?",
    ),
    "another sequencer": ('sequencer = "raft"\n' + SMALL, "line 1: 'sequencer' is one of topics, atoms"),
    "atoms without nodes": (
        'sequencer = "atoms"\n' + SMALL,
        'line 1: \'sequencer\' says how nodes share topics: "atoms" goes with shape = "nodes"',
    ),
    "nodes in a chain": (
        'shape = "chain"\n' + SMALL + "[nodes]\ncount = 2\n",
        'line 19: \'nodes\' go with shape = "nodes", not with "chain"',
    ),
    "return mode with nodes": (
        'mode = "return"\n' + SMALL + "[nodes]\ncount = 2\n",
        "line 1: 'mode' is always \"forward\"",
    ),
    "a crash without nodes": (
        SMALL + '[[faults]]\nat = 1.0\nkind = "crash"\nprocess = "s1"\n',
        'line 20: \'faults.kind\' is not simulated as "crash" with shape = "colocated"',
    ),
    "joining late without nodes": (
        replaced("pick = 2", "pick = 2\njoins_at = 1.0"),
        "line 10: 'subscribers.joins_at' is not simulated with shape = \"colocated\" yet",
    ),
    "a fault of nobody": (
        SMALL + '[nodes]\n[[faults]]\nat = 1.0\nkind = "crash"\nprocess = "node9"\n',
        "line 22: 'faults.process' names \"node9\", and there is no such process; did you mean 'node2'?",
    ),
    "every node gone": (
        SMALL + '[nodes]\ncount = 1\n[[faults]]\nat = 1.0\nkind = "crash"\nprocess = "node1"\n',
        "line 20: 'faults' leave no node",
    ),
    "an end before the start": (
        SMALL + '[[faults]]\nat = 1.0\nuntil = 0.5\nkind = "loss"\nloss = 0.1\n',
        "line 20: 'faults.until' is after 'at', 1, not 0.5",
    ),
    "a fault too late": (
        SMALL + '[[faults]]\nat = 2.5\nkind = "shuffle"\n',
        "line 19: 'faults.at' is 2.5, and 'duration' is 2",
    ),
    "a fault of no kind": (SMALL + "[[faults]]\nat = 1.0\n", "line 18: 'faults.kind' is missing"),
    "a key of another kind": (
        SMALL + '[[faults]]\nat = 1.0\nkind = "shuffle"\nloss = 0.1\n',
        "line 21: 'faults.loss' does not go with kind = \"shuffle\"",
    ),
    "a shuffle of nothing": (
        replaced('"zipf"', '"uniform"') + '[[faults]]\nat = 1.0\nkind = "shuffle"\n',
        "line 20: 'faults.kind' is \"shuffle\", and no publications have a popularity",
    ),
    "a name twice": (
        replaced("pick = 2", 'pick = 2\nname = "p"').replace("publishers = 2", 'publishers = 2\nname = "p"'),
        "'subscribers.name' makes a second process called 'p1'",
    ),
    "a bad name": (replaced("pick = 2", 'pick = 2\nname = "a.b"'), "line 10: 'subscribers.name' is letters"),
    "a start after the end": (
        replaced("rate = 20.0", "rate = 20.0\nstart = 3.0"),
        "line 13: 'publications.start' leaves no time",
    ),
    "a trace with a rate": (
        replaced("rate = 20.0", 'rate = 20.0\ntrace = "none.csv"'),
        "line 13: 'publications.trace' cannot be read",
    ),
    "too many events": (replaced("20.0", "999999"), "line 12: 'publications.rate' makes 1,999,998 events"),
    "too many deliveries": (
        SMALL.replace("20.0", "20000").replace("count = 6\npick = 2", "count = 90"),
        "line 11: 'publications.rate' makes about 3,",
    ),
    "a burst of too many events": (
        replaced("publishers = 2", "publishers = 2\nburst = 1000").replace("20.0", "999999"),
        "line 12: 'publications.rate' makes 1,999,998 events",
    ),
    "too many topics together": (
        SMALL.replace("count = 4", "count = 10000").replace("pick = 2\n", "") + "[[subscribers]]\npick = 2\n",
        "line 7: 'subscribers.topics' may have more than 5,000,000 pairs of topics ordered together",
    ),
    "a name of two lines": ('name = "a\\nb"\n' + SMALL, "line 1: 'name' is a word, not \"a\\nb\""),
    "a record of nothing": (
        'record = ["video"]\n' + SMALL,
        "line 1: 'record' has \"video\"; there are journal, history, trace",
    ),
    "the same key twice": (
        "seed = 1\n" + SMALL,
        'line 2: "seed = 5" is not TOML: Cannot overwrite a value',
    ),
    "the same table twice": (
        SMALL + "[topics]\ncount = 3\n",
        "line 18: \"[topics]\" is not TOML: Cannot declare ('topics',) twice",
    ),
    "no value": (replaced("rate = 20.0", "rate ="), 'line 12: "rate =" is not TOML: Invalid value'),
    "no TOML": ("this is not TOML\n", 'line 1: "this is not TOML" is not TOML: '),
    "depth": ("a = " + "[" * 10_000, "world.toml is not TOML: "),
    "a huge number": ("seed = " + "9" * 10_000, "world.toml is not TOML: "),
    "a seed of many digits": (
        replaced("seed = 5", "seed = 99999999999999999999"),
        "line 1: 'seed' is at most 9,007,199,254,740,992, not 99999999999999999999",
    ),
    "an odd seed": ("seed = -1\n" + SMALL.replace("seed = 5\n", ""), "line 1: 'seed' is at least 0, not -1"),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_wrong_is_one_line_with_key_and_line(what):
    text, expected = WRONG[what]
    said = refusal(text)
    assert expected in said
    assert "\n" not in said
    assert said.startswith("world.toml")


def test_keys_in_the_wrong_table_are_told_where_they_belong(tmp_path):
    for text, expected in (
        (
            SMALL + "guarantee = 'total'\n",
            "line 18: 'network.guarantee' is not a key of [network]; it belongs at the top",
        ),
        ("rate = 3\n" + SMALL, "line 1: 'rate' is not a key of a scenario; it belongs in [publications]"),
        (
            SMALL + "[publishers]\ncount = 3\n",
            "'publishers' is not a key of a scenario; it belongs in [publications]",
        ),
        (SMALL + "latencyms = 3\n", "is not a key of [network]; did you mean 'latency_ms'?"),
    ):
        (tmp_path / "w.toml").write_text(text)
        with pytest.raises(ConfigError) as error:
            load_scenario(tmp_path / "w.toml")
        assert expected in str(error.value)


def test_a_byte_order_mark_is_no_text(tmp_path):
    (tmp_path / "w.toml").write_bytes(b"\xef\xbb\xbf" + SMALL.encode())
    assert load_scenario(tmp_path / "w.toml").seed == 5


def test_the_line_is_right_with_other_line_endings():
    text, expected = WRONG["a missing topic"]
    assert expected in refusal(text.replace("\n", "\r\n"))


def test_files_that_are_none_give_one_line(tmp_path, monkeypatch, capsys):
    empty, binary, deep = tmp_path / "empty.toml", tmp_path / "binary.toml", tmp_path / ("long" * 100)
    empty.write_text("\n  \n")
    binary.write_bytes(bytes(range(256)))
    for path, why in (
        (tmp_path, "is a folder; name a scenario file in it"),
        (tmp_path / "none.toml", "cannot be read: No such file or directory"),
        (empty, "is empty"),
        (binary, "is not a text file"),
        (deep, "cannot be read"),
    ):
        assert call(monkeypatch, str(path)) == 2
        said = capsys.readouterr()
        assert why in said.err
        assert said.err.count("\n") == 1
        assert said.out == ""
    large = tmp_path / "large.toml"
    large.write_text(SMALL.replace("20.0", "20000").replace("count = 6\npick = 2", "count = 90"))
    assert call(monkeypatch, str(large)) == 2
    assert re.fullmatch(
        r"ConfigError: .*large.toml, line 11: 'publications.rate' .*\n", capsys.readouterr().err
    )
    good = tmp_path / "good.toml"
    good.write_text(SMALL)
    assert call(monkeypatch, str(good), "--out", str(empty)) == 2
    assert "name a new folder" in capsys.readouterr().err
    assert call(monkeypatch, str(good), "--out", str(empty / "below")) == 2
    assert "cannot be made" in capsys.readouterr().err


# Whatever is done to a file, the answer is a world or a line.

_TOKENS = (
    *(
        "-1",
        "0",
        "1e400",
        "nan",
        "-inf",
        "true",
        '""',
        '"x"',
        "[]",
        "{}",
        "[[1]]",
        "{ kind = 1 }",
        "99999999999999999999",
    ),
    *(
        "1979-05-27",
        '"""',
        "=",
        "#",
        "[",
        "]]",
        '"wait"',
        '"tag"',
        '"all"',
        '["t1", "t1"]',
        '"\\u0000"',
        "\x00",
        "\r",
        "é",
    ),
)
_KEYS = sorted(set(re.findall(r"^(\w+) =", "\n".join(f.read_text() for f in SHORT), re.MULTILINE)))


def mutated(seed: int) -> str:
    """A file with some things wrong."""
    dice = random.Random(seed)
    lines = dice.choice([SMALL, *(f.read_text() for f in SHORT)]).splitlines()
    for _ in range(dice.randint(1, 4)):
        at = dice.randrange(len(lines))
        key, sign, value = lines[at].partition(" = ")
        match dice.randrange(7):
            case 0:
                del lines[at]
            case 1:
                lines.insert(at, dice.choice(lines))
            case 2 if sign:
                lines[at] = key + sign + dice.choice(_TOKENS)
            case 3 if sign:
                lines[at] = dice.choice(_KEYS) + sign + value
            case 4:
                lines[at] = f"{dice.choice(_KEYS)} = {dice.choice(_TOKENS)}"
            case 5:
                cut = dice.randrange(len(lines[at]) + 1)
                lines[at] = lines[at][:cut] + dice.choice(_TOKENS) + lines[at][cut:]
            case _:
                dice.shuffle(lines)
        if not lines:
            break
    return "\n".join(lines)


@settings(max_examples=400, deadline=None)
@given(st.integers(0, 2**40))
def test_mutated_files_never_give_a_traceback(seed: int) -> None:
    text = mutated(seed)
    try:
        make_world(read_scenario(Text("mutated.toml", text), FILE))
    except ConfigError as error:
        said = str(error)
        assert "\n" not in said
        assert "\r" not in said
        assert said.startswith("mutated.toml"), said


@given(st.text())
def test_any_text_at_all_gives_a_world_or_a_line(text: str) -> None:
    with pytest.raises(ConfigError):
        read_scenario(Text("any.toml", text), FILE)
