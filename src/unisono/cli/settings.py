"""Settings of the commands: a flag wins over the environment, that over a file, that over the default.

    flag                 environment          file (unisono.toml, or what UNISONO_CONFIG names)
    --url nats://...     UNISONO_URL          url = "nats://..."
    up --port 4300       UNISONO_UP_PORT      [up]
                                              port = 4300

A key that does not exist is refused by name, wherever it stands.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import parse_qsl, urlsplit

import msgspec
import typer
from msgspec import Meta

from unisono.engines.takeover.control import Sequencer as Spread
from unisono.model.durability import Wanted
from unisono.model.errors import ConfigError
from unisono.runtime.remote.node_options import RETAIN_RECORDS, RETAIN_S

FILE = "unisono.toml"
PREFIX = "UNISONO_"
NOT_OURS = {"UNISONO_CONFIG", "UNISONO_KEY", "UNISONO_WRITE_TRANSCRIPTS"}  # the key is no setting to be shown
# What Kubernetes puts into the environment of every pod when a service is named unisono-something.
KUBERNETES = re.compile(r"UNISONO\w*_(SERVICE_HOST|SERVICE_PORT\w*|PORT(_[0-9]+_(TCP|UDP|SCTP)\w*)?)")

Port = Annotated[int, Meta(ge=0, le=65535)]

Url = Annotated[
    str | None,
    typer.Option("--url", help="Where the system is (else UNISONO_URL, else `url` in unisono.toml)."),
]
"""The `--url` of a command; give it to `url_of`."""


Durability = Annotated[
    str | None,
    typer.Option(
        "--durability", help="What stored must mean: memory, disk or replicated (docs/durability.md)."
    ),
]
"""The `--durability` of a command: a key of the settings."""

Nodes = Annotated[
    bool,
    typer.Option(
        "--nodes/--no-nodes", help="Without nodes there is order causal with a deadline, and no other."
    ),
]
"""The `--no-nodes` of a command."""

Sequencer = Annotated[
    str | None,
    typer.Option(
        "--sequencer",
        help="How nodes share the work of a new system: topics, or atoms (docs/protocols/atoms.md). [default: topics]",
    ),
]
"""The `--sequencer` of a command: a key of the settings."""


class UpSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What `unisono up` may be told; see `unisono.server.ServerSettings` for what the server makes of it."""

    host: str = "127.0.0.1"
    port: Port = 4222
    data: str = "unisono-data"
    nodes: Annotated[int, Meta(ge=0, le=256)] = 1
    servers: Literal[1, 3, 5] = 1
    auth: bool = False
    clients: tuple[str, ...] = ("default",)
    monitor_port: Port | None = None
    max_payload: int = 2 * 1024 * 1024
    sync: str = "1s"
    max_store: Annotated[int, Meta(ge=0)] = 0
    tls_cert: str | None = None
    tls_key: str | None = None
    tls_ca: str | None = None
    tls_verify: bool = False


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What every command may be told."""

    url: str = "nats://127.0.0.1:4222"
    name: str | None = None  # who we are
    durability: Wanted | None = None  # what stored means: memory, disk or replicated
    sequencer: Spread | None = None  # None: as the system is; a new one: topics
    retain_records: Annotated[int, Meta(ge=0)] = RETAIN_RECORDS  # of the past; 0: a new system keeps nothing
    retain_s: Annotated[float, Meta(ge=0)] = RETAIN_S  # what is older may go; 0: however old it is
    log: str = "warning"  # or debug, info, error; parts: "warning,node=debug"
    log_json: bool = False
    metrics_host: str = "127.0.0.1"
    metrics_port: Port | None = None  # None: no metrics; 0: a port that is free
    dashboard_host: str = "127.0.0.1"
    dashboard_port: Port = 8765
    dashboard_token: str | None = None  # None: where one is needed, it is made up
    trace_ratio: Annotated[float, Meta(ge=0, le=1)] = 0.0  # the share of events that is traced
    up: UpSettings = UpSettings()


def load(
    flags: Mapping[str, Any] | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> Settings:
    """The settings that are valid here. `flags` are by key (`url`, `up.port`); None is a flag that was not given."""
    environ = os.environ if environ is None else environ
    values = _from_file(environ, folder or Path())
    for name, key in _variables().items():
        if environ.get(name):
            _put(values, key, _checked(key, _value(key, environ[name]), f"{name}={environ[name]!r}"))
    for name in environ:
        known = name in _variables() or name in NOT_OURS or KUBERNETES.fullmatch(name)
        if name.startswith(PREFIX) and not known:
            raise ConfigError(f"there is no setting {name}; there are {', '.join(sorted(_variables()))}")
    for key, value in (flags or {}).items():
        if value is not None:
            _put(values, key, _checked(key, value, f"{_flag(key)} {value}"))
    return msgspec.convert(values, Settings)


def url_of(flag: str | None) -> str:
    """The URL of the system: of the flag, the environment, the file, or where `unisono up` is by default."""
    return load({"url": flag}).url


def storing(settings: Settings) -> str:
    """The URL by which a node stores what it sequences as the settings say."""
    if settings.durability is None:
        return settings.url
    parts = urlsplit(settings.url)
    said = dict(parse_qsl(parts.query)).get("durability", settings.durability)
    if said != settings.durability:
        raise ConfigError(
            f"the URL says durability={said} and the settings say {settings.durability}; leave one of them out"
        )
    if "durability=" in parts.query:
        return settings.url
    query = "&".join(part for part in (parts.query, f"durability={settings.durability}") if part)
    return parts._replace(query=query).geturl()


def _from_file(environ: Mapping[str, str], folder: Path) -> dict[str, Any]:
    named = environ.get("UNISONO_CONFIG")
    path = Path(named) if named else folder / FILE
    try:
        text = path.read_text()
    except FileNotFoundError:
        if named:
            raise ConfigError(f"UNISONO_CONFIG={named}: there is no such file") from None
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from None
    try:
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is no TOML: {error}") from None
    values: dict[str, Any] = {}
    for key, value in found.items():
        if key == "up" and isinstance(value, dict):
            for inner, more in value.items():
                _put(values, f"up.{inner}", _checked(f"up.{inner}", more, f"{path}: [up] {inner} = {more!r}"))
        else:
            _put(values, key, _checked(key, value, f"{path}: {key} = {value!r}"))
    return values


def _variables() -> dict[str, str]:
    """Names in the environment, and their keys."""
    plain = [key for key in Settings.__struct_fields__ if key != "up"]
    keys = [*plain, *(f"up.{key}" for key in UpSettings.__struct_fields__)]
    return {PREFIX + key.replace(".", "_").upper(): key for key in keys}


def _value(key: str, text: str) -> Any:
    """A value in the environment: words between commas are a list, and flags have several spellings."""
    if key == "up.clients":
        return [word.strip() for word in text.split(",") if word.strip()]
    return {"yes": True, "on": True, "no": False, "off": False}.get(text.lower(), text)


def _checked(key: str, value: Any, where: str) -> Any:
    """The value, if the key exists and may have it."""
    shape: type[UpSettings | Settings] = UpSettings if key.startswith("up.") else Settings
    name = key.removeprefix("up.")
    if name not in shape.__struct_fields__ or key == "up":
        known = ", ".join(field for field in shape.__struct_fields__ if field != "up")
        raise ConfigError(f"{where}: there is no setting '{key}'; there are {known}")
    try:
        msgspec.convert({name: value}, shape, strict=False)
    except msgspec.ValidationError as error:
        reason = str(error).split(" - at ")[0]
        raise ConfigError(f"{where} will not do: {reason[:1].lower()}{reason[1:]}") from None
    return getattr(msgspec.convert({name: value}, shape, strict=False), name)


def _put(values: dict[str, Any], key: str, value: Any) -> None:
    room, _, name = key.rpartition(".")
    place = values.setdefault(room, {}) if room else values
    place[name] = value


def _flag(key: str) -> str:
    return "--" + key.removeprefix("up.").replace("_", "-")
