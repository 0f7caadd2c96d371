"""What `.option(...)` may say to the source and the sink, each checked by name; what is unknown is refused."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

import msgspec

from unisono.model.errors import ConfigError, TopicError
from unisono.model.frames import Entries
from unisono.model.ids import check_pattern, check_topic
from unisono.pipeline.stream.offsets import read_stamp
from unisono.runtime.starts import parse_start

EARLIEST, LATEST = "earliest", "latest"
MAX_OFFSETS = 1_000_000  # a trigger, unless somebody says otherwise: what a query holds in memory has a bound

# What a URL may say as well; here it need not be spelled for URLs.
CREDENTIALS = ("user", "password", "token", "creds", "nkey", "tls_ca", "tls_cert", "tls_key", "tls_hostname")
SHARED = ("url", "credentials", *CREDENTIALS)

Where: TypeAlias = Literal["earliest", "latest"] | float | dict[str, int]


class SourceOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a query reads."""

    url: str
    names: tuple[str, ...]  # topics, or patterns
    start: Where
    end: Where = "latest"
    max_offsets: int = MAX_OFFSETS
    fail_on_data_loss: bool = True
    include_headers: bool = False
    include_stamp: bool = True
    value_format: str = "json"
    tasks: int = 0  # slices of a batch, at least; 0: as many as the driver has cores


class SinkOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a query writes."""

    url: str
    topic: str | None = None  # of all rows; None: of each row its own
    value_format: str = "bytes"
    id_column: str | None = None  # None: ids are query, batch, partition and row
    query_id: str | None = None
    batch_id: int = 0
    fail_on_data_loss: bool = True


SOURCE = (
    "subscribe",
    "subscribePattern",
    "startingOffsets",
    "startingTimestamp",
    "endingOffsets",
    "maxOffsetsPerTrigger",
    "failOnDataLoss",
    "includeHeaders",
    "includeStamp",
    "valueFormat",
    "minPartitions",
)
SINK = ("topic", "valueFormat", "idColumn", "queryId", "batchId", "failOnDataLoss", "checkpointLocation")


def source_options(given: Mapping[str, str], *, streaming: bool | None) -> SourceOptions:
    """The options of `readStream` or `read` (None: of either); ConfigError names the first that will not do."""
    said = _known(given, SOURCE, "source")
    if streaming and "endingOffsets" in said:
        raise ConfigError("endingOffsets is for batches (spark.read): a stream has no end; leave it out")
    if streaming is False and "maxOffsetsPerTrigger" in said:
        raise ConfigError(
            "maxOffsetsPerTrigger is for streams (spark.readStream): a batch reads everything; leave it out"
        )
    if "startingTimestamp" in said and "startingOffsets" in said:
        raise ConfigError(
            "startingTimestamp and startingOffsets both say where to begin; leave one of them out"
        )
    return SourceOptions(
        url=_url(said),
        names=_names(said),
        start=_start(said, LATEST if streaming else EARLIEST),
        end=_where("endingOffsets", said.get("endingOffsets", LATEST)),
        max_offsets=_number(said, "maxOffsetsPerTrigger", MAX_OFFSETS, 1),
        fail_on_data_loss=_yes(said, "failOnDataLoss", True),
        include_headers=_yes(said, "includeHeaders", False),
        include_stamp=_yes(said, "includeStamp", True),
        value_format=_choice(said, "valueFormat", ("json", "stored")),
        tasks=_number(said, "minPartitions", os.cpu_count() or 1, 1),
    )


def sink_options(given: Mapping[str, str], *, streaming: bool) -> SinkOptions:
    """The options of `writeStream` or `write`; ConfigError names the first that will not do."""
    said = _known(given, SINK, "sink")
    if streaming and "batchId" in said:
        raise ConfigError("batchId is for batches (df.write): a stream has its own; leave it out")
    if not streaming and ("batchId" in said) > ("queryId" in said):
        raise ConfigError("batchId counts the batches of a query; say which one with queryId=")
    topic = said.get("topic")
    if topic is not None:
        _checked("topic", check_topic, topic)
    return SinkOptions(
        url=_url(said),
        topic=topic,
        value_format=_choice(said, "valueFormat", ("bytes", "json")),
        id_column=said.get("idColumn"),
        query_id=said.get("queryId"),
        batch_id=_number(said, "batchId", 0, 0),
        fail_on_data_loss=_yes(said, "failOnDataLoss", True),
    )


def _known(given: Mapping[str, str], own: tuple[str, ...], what: str) -> dict[str, str]:
    """The options by the names that we know them by; Spark's own ones do not count."""
    names = {name.lower(): name for name in (*SHARED, *own)}
    said: dict[str, str] = {}
    for option, value in given.items():
        if option.lower() not in names:
            raise ConfigError(
                f"the {what} has no option '{option}'; it has {', '.join(sorted(names.values()))}"
            )
        said[names[option.lower()]] = value
    return said


def _url(said: Mapping[str, str]) -> str:
    if ("url" in said) == ("credentials" in said):
        raise ConfigError(
            "say where the system is: url=nats://host:4222, or credentials= with a file that has its URL"
        )
    if "credentials" in said:
        try:
            url = str(tomllib.loads(Path(said["credentials"]).read_text())["url"])
        except (OSError, KeyError, tomllib.TOMLDecodeError) as error:
            raise ConfigError(
                f"credentials={said['credentials']!r} is no file with a URL in it: {error!r}"
            ) from None
    else:
        url = said["url"]
    parts = urlsplit(url)
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    for option in CREDENTIALS[2:]:
        if option in said:
            query[option] = said[option]
    where = parts.netloc
    if "user" in said or "password" in said:
        if not ("user" in said and "password" in said):
            raise ConfigError("user and password belong together; say both")
        where = (
            f"{quote(said['user'], safe='')}:{quote(said['password'], safe='')}@{where.rpartition('@')[2]}"
        )
    return urlunsplit(parts._replace(netloc=where, query=urlencode(query)))


def _names(said: Mapping[str, str]) -> tuple[str, ...]:
    chosen = [option for option in ("subscribe", "subscribePattern") if option in said]
    if len(chosen) != 1:
        raise ConfigError(
            "say exactly one of subscribe= (topics) and subscribePattern= (patterns), with commas between"
        )
    option = chosen[0]
    check = check_topic if option == "subscribe" else check_pattern
    names = [name.strip() for name in said[option].split(",")]
    return tuple(sorted({str(_checked(option, check, name)) for name in names}))


def _checked(option: str, check: Callable[[str], str], name: str) -> str:
    try:
        return check(name)
    except TopicError as error:
        raise ConfigError(f"{option}={name!r:.100}: {error}") from None


def _start(said: Mapping[str, str], default: str) -> Where:
    if "startingTimestamp" in said:
        text = said["startingTimestamp"]
        start: Any = None if text in ("new", EARLIEST) or text.startswith("{") else parse_start(text)
        if start is None:
            raise ConfigError(
                f"startingTimestamp={text!r:.80} is no time; use 2026-11-16T10:00:00 or seconds since 1970"
            )
        at = start if isinstance(start, float) else start.timestamp()
        if not 0 <= at < 2**40:
            raise ConfigError(f"startingTimestamp={text!r:.80} is no time; it is in seconds since 1970")
        return float(at)
    return _where("startingOffsets", said.get("startingOffsets", default))


def _where(option: str, text: str) -> Where:
    if text.lower() == EARLIEST:
        return "earliest"
    if text.lower() == LATEST:
        return "latest"
    stamp: Entries = read_stamp(option, text)
    return stamp


def _number(said: Mapping[str, str], option: str, default: int, least: int) -> int:
    text = said.get(option, str(default))
    if not text.isdecimal() or not least <= int(text) < 2**31:
        raise ConfigError(f"{option}={text!r} will not do: it is a whole number, {least} or more")
    return int(text)


def _yes(said: Mapping[str, str], option: str, default: bool) -> bool:
    text = said.get(option, str(default)).lower()
    if text not in ("true", "false"):
        raise ConfigError(f"{option}={text!r} will not do: it is true or false")
    return text == "true"


def _choice(said: Mapping[str, str], option: str, choices: tuple[str, ...]) -> str:
    text = said.get(option, choices[0]).lower()
    if text not in choices:
        raise ConfigError(f"{option}={text!r} will not do: it is {' or '.join(choices)}")
    return text
