"""What a broker's URL says: where it is, who we are, and the options after the `?`, each checked by name."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from typing import Annotated, TypeVar
from urllib.parse import unquote, urlsplit

import msgspec
from msgspec import Meta

from unisono.model.errors import ConfigError

Seconds = Annotated[float, Meta(gt=0, le=86400)]
Count = Annotated[int, Meta(ge=1, le=2**31)]

O = TypeVar("O", bound=msgspec.Struct)  # noqa: E741


class BrokerOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What every broker's URL may say."""

    name: str | None = None  # who we are, to people who look at the broker
    prefix: str = ""  # before every topic; each adapter has its own
    connect_timeout: Seconds = 2.0
    flush_timeout: Seconds = 30.0
    close_timeout: Seconds = 2.0
    reconnect_wait: Seconds = 0.2  # between two attempts
    max_reconnect: Annotated[int, Meta(ge=-1)] = -1  # attempts in a row before giving up; -1 is never
    outbox: Count = 65536  # frames that may wait to be sent
    outbox_bytes: Count = 64 * 1024 * 1024
    frame_max: Annotated[int, Meta(ge=1024, le=64 * 1024 * 1024)] = 1024 * 1024
    tls: bool = False
    tls_ca: str | None = None
    tls_cert: str | None = None
    tls_key: str | None = None
    tls_hostname: str | None = None


@dataclass(frozen=True, slots=True)
class Address:
    """Where a broker is, and as whom we go there."""

    host: str
    port: int
    user: str | None = None
    password: str | None = None
    path: str = ""

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def read_address(scheme: str, where: str, port: int) -> Address:
    """Take `user:password@host:port/path` apart; raises ConfigError when it is not that."""
    try:
        parts = urlsplit(f"{scheme}://{where}")
        user, password = parts.username, parts.password
        return Address(
            parts.hostname or "127.0.0.1",
            port if parts.port is None else parts.port,
            None if user is None else unquote(user),
            None if password is None else unquote(password),
            parts.path.strip("/"),
        )
    except ValueError as error:
        raise ConfigError(f"'{scheme}://{where}' is not an address: {error}") from None


def read_options(scheme: str, given: dict[str, str], shape: type[O]) -> O:
    """The options of a URL as the adapter wants them; raises ConfigError for one that it does not know."""
    known = shape.__struct_fields__
    for key, text in given.items():
        if key not in known:
            raise ConfigError(f"{scheme}:// has no option '{key}'; it has {', '.join(sorted(known))}")
        try:
            msgspec.convert({key: text}, shape, strict=False)
        except msgspec.ValidationError as error:
            reason = str(error).split(" - at ")[0]
            raise ConfigError(f"{scheme}:// option {key}={text!r} will not do: {_small(reason)}") from None
    options = msgspec.convert(given, shape, strict=False)
    if isinstance(options, BrokerOptions) and options.tls_key and not options.tls_cert:
        raise ConfigError(f"{scheme}:// option tls_key needs tls_cert, the certificate it belongs to")
    return options


def tls_context(scheme: str, options: BrokerOptions) -> ssl.SSLContext | None:
    """The TLS settings that the options ask for; None for a connection in the clear."""
    if not (options.tls or options.tls_ca or options.tls_cert):
        return None
    try:
        context = ssl.create_default_context(cafile=options.tls_ca)
        if options.tls_cert:
            context.load_cert_chain(options.tls_cert, options.tls_key)
    except OSError as error:
        files = ", ".join(f for f in (options.tls_ca, options.tls_cert, options.tls_key) if f)
        raise ConfigError(f"{scheme}:// cannot use the TLS files {files}: {error}") from None
    return context


def _small(text: str) -> str:
    return text[:1].lower() + text[1:]
