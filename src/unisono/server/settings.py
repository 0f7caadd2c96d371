"""What the bundled server is to be like."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from unisono.model.errors import ConfigError

Port = Annotated[int, Meta(ge=0, le=65535)]
Seconds = Annotated[float, Meta(gt=0, le=3600)]

_SYNC = re.compile(r"always|[1-9][0-9]*(ms|s|m)")
_PREFIX = re.compile(r"([A-Za-z0-9_-]+\.)+")


class ClusterPlace(msgspec.Struct, frozen=True, kw_only=True):
    """Which server of a cluster this is, and where it meets the others: on loopback."""

    server: str
    port: Port
    others: tuple[Port, ...]
    password: str  # what servers of one cluster know, and nobody else


class ServerSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where it listens, what it keeps, how long we wait for it."""

    data: Path
    host: str = "127.0.0.1"
    port: Port = 0  # 0: one that is free
    monitor_port: Port | None = None  # its own HTTP pages, on loopback only; None: none, 0: one that is free
    max_payload: Annotated[int, Meta(ge=1024, le=64 * 1024 * 1024)] = 2 * 1024 * 1024
    sync: str = "1s"  # how often what is stored is forced to disk; "always": before it is confirmed
    max_store: int = 0  # bytes that streams may take on disk; 0: what the server finds fit
    prefix: str = "u."  # before every subject of ours
    auth: bool = False
    clients: tuple[str, ...] = ("default",)  # with auth: those who get credentials from the start
    tls_cert: Path | None = None
    tls_key: Path | None = None
    tls_ca: Path | None = None  # whom clients trust; with tls_verify also whom the server trusts
    tls_verify: bool = False  # ask clients for a certificate
    cluster: ClusterPlace | None = None  # None: on its own
    start_timeout: Seconds = 30.0
    stop_timeout: Seconds = 5.0

    def __post_init__(self) -> None:
        """Refuse what contradicts itself."""
        if not _SYNC.fullmatch(self.sync):
            raise ConfigError(f"sync={self.sync!r}: say 'always' or a time such as 500ms, 2s or 1m")
        if not _PREFIX.fullmatch(self.prefix):
            raise ConfigError(f"prefix={self.prefix!r}: it is words with '.' after each, like 'u.'")
        if (self.tls_cert is None) != (self.tls_key is None):
            raise ConfigError("a certificate needs its key and a key its certificate: give both, or neither")
        if self.tls_cert is None and (self.tls_ca is not None or self.tls_verify):
            raise ConfigError("TLS needs the server's certificate and key; give them, or leave the CA out")
        if self.tls_verify and self.tls_ca is None:
            raise ConfigError("to ask clients for certificates, say which CA signs them")
        for path in (self.tls_cert, self.tls_key, self.tls_ca):
            if path is not None and not path.is_file():
                raise ConfigError(f"the TLS file {path} is not there")
