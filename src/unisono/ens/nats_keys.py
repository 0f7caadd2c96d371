"""Files with keys, looked at before the client does: it would search one without keys for ever."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from unisono.model.errors import ConfigError


def check_keys(creds: str | None, nkey: str | None) -> None:
    """Raise ConfigError unless what is given are files with keys in them."""
    for option, path in (("creds", creds), ("nkey", nkey)):
        if path is None:
            continue
        try:
            lines = Path(path).read_text().splitlines()
        except FileNotFoundError:
            raise ConfigError(f"nats:// option {option}={path!r}: there is no such file") from None
        except (OSError, ValueError) as error:
            raise ConfigError(f"nats:// option {option}={path!r} cannot be read: {error}") from None
        if importlib.util.find_spec("nkeys") is None:
            raise ConfigError(f"nats:// option {option} needs nkeys: pip install 'unisono[nats]'")
        if option == "nkey":
            _check_seed(path, "\n".join(lines))
        else:
            _below(path, lines, "BEGIN NATS USER JWT")
            _check_seed(path, _below(path, lines, "BEGIN USER NKEY SEED"))


def _below(path: str, lines: list[str], title: str) -> str:
    for n, line in enumerate(lines[:-1]):
        if title in line:
            return lines[n + 1]
    raise ConfigError(f"the file {path} has no '{title}'; see the URL option creds=")


def _check_seed(path: str, text: str) -> None:
    import nkeys  # type: ignore[import-untyped]  # an extra, asked for just now

    try:
        nkeys.from_seed(bytearray(text.strip().encode())).wipe()
    except Exception as error:  # whatever it stumbles over
        raise ConfigError(f"the seed in {path} is none: {error or type(error).__name__}") from None
