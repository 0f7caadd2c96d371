"""How far a query is: a number for each topic, and the epoch from which to read on. As JSON it is a checkpoint's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from unisono.model.errors import ConfigError, TopicError
from unisono.model.frames import Entries
from unisono.model.ids import check_topic


class Offset(msgspec.Struct, frozen=True):
    """Behind these numbers; nothing before this epoch is needed any more."""

    world: int  # of which system they are
    epoch: int
    clock: Entries
    tasks: int = 1  # into which what lies before it is cut; a batch is cut alike whenever it is read

    def as_json(self) -> dict[str, Any]:
        """What Spark keeps; equal offsets look alike."""
        clock = dict(sorted(self.clock.items()))
        return {"world": f"{self.world:012x}", "epoch": self.epoch, "clock": clock, "tasks": self.tasks}

    @classmethod
    def of(cls, kept: Mapping[str, Any]) -> Offset:
        """An offset that Spark has kept."""
        try:
            clock = msgspec.convert(kept["clock"], dict[str, int])
            return cls(int(str(kept["world"]), 16), int(kept["epoch"]), clock, max(1, int(kept["tasks"])))
        except (KeyError, TypeError, ValueError, msgspec.ValidationError) as error:
            raise ConfigError(f"{kept!r:.200} is no offset of this source: {error!r}") from None


def read_stamp(option: str, text: str) -> Entries:
    """Numbers of topics that somebody wrote as JSON, such as {"orders": 7}."""
    try:
        stamp = msgspec.json.decode(text, type=dict[str, int])
        for topic, number in stamp.items():
            check_topic(topic)
            if number < 0:
                raise ConfigError(f"{option}={text!r:.200}: {number} is no number of '{topic}'")
    except (msgspec.MsgspecError, TopicError) as error:
        raise ConfigError(
            f'{option}={text!r:.200} is none: {error}; use earliest, latest, or numbers such as {{"orders": 7}}'
        ) from None
    return stamp
