"""Logs: one line per event, for people or as JSON, with fields that can be searched.

log = logging.getLogger("unisono.node")
log.info("took over", extra=fields(topic="orders", epoch=7))

UNISONO_LOG=info             everything of ours from INFO on
UNISONO_LOG=warning,node=debug   and all that `unisono.node` says
"""

from __future__ import annotations

import logging
import sys
import time
from typing import Any, TextIO

import msgspec

from unisono.model.errors import ConfigError

LEVELS = ("debug", "info", "warning", "error", "critical")


def fields(**values: Any) -> dict[str, Any]:
    """Fields of a log line: `log.info("message", extra=fields(key=value))`."""
    return {"fields": values}


class JsonFormatter(logging.Formatter):
    """A JSON object per line: time, level, logger, message, the fields, and the error if there is one."""

    def format(self, record: logging.LogRecord) -> str:
        """The line of a record; fields never overwrite what every line has."""
        line: dict[str, Any] = {
            "time": f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(record.created))}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line = {**_fields(record), **line}
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return msgspec.json.encode(line, enc_hook=str).decode()


class TextFormatter(logging.Formatter):
    """A line for people: time, level, logger, message, then the fields as key=value."""

    def format(self, record: logging.LogRecord) -> str:
        """The line of a record."""
        head = f"{time.strftime('%H:%M:%S', time.localtime(record.created))} {record.levelname:<7} {record.name}: "
        tail = "".join(f" {key}={value}" for key, value in _fields(record).items())
        error = "\n" + self.formatException(record.exc_info) if record.exc_info else ""
        return head + record.getMessage() + tail + error


def configure(spec: str = "warning", *, json: bool = False, stream: TextIO | None = None) -> None:
    """Log to stderr; `spec` is a level, and levels of parts of ours after commas. May be called again."""
    levels = read_levels(spec)
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter() if json else TextFormatter())
    ours = logging.getLogger("unisono")
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    for name, logger in list(logging.root.manager.loggerDict.items()):
        if name.startswith("unisono.") and isinstance(logger, logging.Logger):
            logger.setLevel(logging.NOTSET)  # what an earlier call said
    ours.setLevel(levels.pop(""))
    for part, level in levels.items():
        ours.getChild(part).setLevel(level)


def read_levels(spec: str) -> dict[str, int]:
    """The levels of 'warning,node=debug' by part; '' is everything of ours."""
    levels = {"": logging.WARNING}
    for item in spec.split(","):
        part, equals, level = item.strip().rpartition("=")
        if level.lower() not in LEVELS or (equals and not part):
            raise ConfigError(
                f"log={spec!r}: '{item.strip()}' is no level; say one of {', '.join(LEVELS)}, or PART=LEVEL"
            )
        levels[part.removeprefix("unisono.")] = logging.getLevelNamesMapping()[level.upper()]
    return levels


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    found = getattr(record, "fields", None)
    return found if isinstance(found, dict) else {}
