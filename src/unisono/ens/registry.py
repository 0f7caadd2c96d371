"""From a URL to the service behind it. Other packages add schemes by the entry point group `unisono.ens`."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.metadata import entry_points
from typing import TypeAlias, cast
from urllib.parse import parse_qsl, urlsplit

from unisono.ens.memory import open_memory
from unisono.ens.port import EventNotificationService
from unisono.model.errors import ConfigError

Opener: TypeAlias = Callable[[str, dict[str, str]], EventNotificationService]
"""Called with the part of the URL between `//` and `?`, and its options; opens nothing yet."""

_BUILT_IN: dict[str, Opener] = {"memory": open_memory}

# scheme -> the module whose `open_<scheme>` serves it, and the client it imports, which is an extra
_BROKERS: dict[str, tuple[str, str]] = {
    "mqtt": ("unisono.ens.mqtt", "aiomqtt"),
    "nats": ("unisono.ens.nats", "nats"),
    "redis": ("unisono.ens.redis", "redis"),
}


def open_service(url: str) -> EventNotificationService:
    """The service of a URL, not connected yet; raises ConfigError when nothing serves the scheme."""
    if not isinstance(url, str):
        raise ConfigError(f"a URL is a string, not {type(url).__name__}; try 'memory://'")
    try:
        parts = urlsplit(url)
        pairs = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
    except ValueError as error:
        raise ConfigError(f"'{url}' is not a URL: {error}") from None
    options = dict(pairs)
    if len(options) < len(pairs):
        raise ConfigError(f"'{url}' gives an option twice; leave one of them")
    if parts.fragment:
        raise ConfigError(
            f"'{url}' has a fragment, '#{parts.fragment}', which means nothing here; leave it out"
        )
    if not parts.scheme:
        raise ConfigError(f"'{url}' has no scheme; try 'memory://'")
    opener = _BUILT_IN.get(parts.scheme) or _broker(parts.scheme) or _plugged_in(parts.scheme)
    if opener is None:
        if parts.scheme == "udp":
            raise ConfigError(
                "udp:// has no nodes, and nobody there knows all topics: start 'unisono dispatcher', and use it with "
                "'unisono pub', 'unisono sub' or unisono.connect"
            )
        raise ConfigError(f"no transport for '{parts.scheme}://'; this version serves {_schemes()}")
    return opener((parts.netloc + parts.path).strip("/"), options)


def _broker(scheme: str) -> Opener | None:
    """The opener of a broker's scheme; its client is imported now, and not before."""
    if scheme not in _BROKERS:
        return None
    module, client = _BROKERS[scheme]
    try:
        return cast(Opener, getattr(import_module(module), f"open_{scheme}"))
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] != client:
            raise
        raise ConfigError(f"{scheme}:// needs the extra: pip install 'unisono[{scheme}]'") from error


def _plugged_in(scheme: str) -> Opener | None:
    for entry in entry_points(group="unisono.ens", name=scheme):
        try:
            return cast(Opener, entry.load())
        except ImportError as error:
            raise ConfigError(f"the transport for '{scheme}://' cannot be loaded: {error}") from error
    return None


def _schemes() -> str:
    names = sorted({*_BUILT_IN, *_BROKERS, *(entry.name for entry in entry_points(group="unisono.ens"))})
    return ", ".join(f"{name}://" for name in names)
