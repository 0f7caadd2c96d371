"""The key that all peers of an overlay share, and who may do without one."""

from __future__ import annotations

import ipaddress
import os
from hashlib import blake2b
from pathlib import Path

from unisono.engines.datagrams.guard import KEY_BYTES_MIN
from unisono.model.errors import ConfigError

VARIABLE = "UNISONO_KEY"
FILE_BYTES_MAX = 4096
NO_KEY = "an overlay without a key"


def find_key(key_file: str | None = None) -> bytes | None:
    """The key from a file, or from the environment; None if neither says one."""
    if key_file is not None:
        try:
            with Path(key_file).open("rb") as file:
                text = file.read(FILE_BYTES_MAX + 1)
        except OSError as error:
            raise ConfigError(f"the key file '{key_file}' cannot be read: {error.strerror}") from None
        return _key_of(text, f"the key file '{key_file}'")
    said = os.environ.get(VARIABLE)
    return None if said is None else _key_of(said.encode(), f"the environment's {VARIABLE}")


def _key_of(text: bytes, where: str) -> bytes:
    text = text.strip()
    if not KEY_BYTES_MIN <= len(text) <= FILE_BYTES_MAX:
        raise ConfigError(
            f"{where} has {len(text)} bytes, a key has {KEY_BYTES_MIN} to {FILE_BYTES_MAX}; "
            "'openssl rand -hex 32' makes one"
        )
    return blake2b(text, digest_size=32, person=b"unisono key").digest()


def key_for(host: str, key: bytes | None) -> bytes:
    """The key to use at an address: without one only this machine may be talked to."""
    if key is not None:
        return key
    if not _is_this_machine(host):
        raise ConfigError(
            f"'{host}' is not this machine, and whoever can send datagrams there could take part: give all peers a key "
            f"(--key-file PATH, key_file=PATH in the URL, or the environment's {VARIABLE})"
        )
    return blake2b(NO_KEY.encode(), digest_size=32, person=b"unisono key").digest()


def _is_this_machine(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
