"""Log lines, for people and as JSON."""

import io
import json
import logging

import pytest

from unisono.model.errors import ConfigError
from unisono.observability.logs import configure, fields, read_levels


@pytest.fixture(autouse=True)
def _as_it_was():
    root, ours = logging.getLogger(), logging.getLogger("unisono")
    before = root.handlers[:], root.level, ours.level
    root.handlers = []  # pytest's own would be closed
    yield
    root.handlers, root.level, ours.level = before
    logging.getLogger("unisono.node").setLevel(logging.NOTSET)


def test_json_lines_with_fields_and_errors():
    out = io.StringIO()
    configure("info", json=True, stream=out)
    log = logging.getLogger("unisono.node")
    log.info("took over %s", "orders", extra=fields(epoch=7, level="no", where=object))
    log.debug("not this")
    try:
        raise ValueError("oops")
    except ValueError:
        log.exception("failed")
    first, second = (json.loads(line) for line in out.getvalue().splitlines())
    assert first.pop("time").endswith("Z")
    assert first.pop("where") == "<class 'object'>"
    assert first == {"level": "info", "logger": "unisono.node", "message": "took over orders", "epoch": 7}
    assert "ValueError: oops" in second["error"]


def test_lines_for_people():
    out = io.StringIO()
    configure("warning", stream=out)
    logging.getLogger("unisono.node").warning("took over", extra=fields(topic="orders", epoch=7))
    assert out.getvalue().endswith("WARNING unisono.node: took over topic=orders epoch=7\n")


def test_levels_by_part_and_again():
    out = io.StringIO()
    configure("error,node=debug", stream=out)
    logging.getLogger("unisono.node").debug("said")
    logging.getLogger("unisono.server").warning("not said")
    configure("error", stream=out)
    logging.getLogger("unisono.node").debug("not any more")
    assert [line.split(": ")[1] for line in out.getvalue().splitlines()] == ["said"]


@pytest.mark.parametrize("spec", ["loud", "", "=debug", "node=", "info,,"])
def test_no_levels(spec):
    with pytest.raises(ConfigError, match="is no level; say one of debug, info"):
        read_levels(spec)
