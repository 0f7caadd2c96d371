"""Who may do what on the bundled server, and the credentials that say who is who.

Subjects, each after the prefix (`u.`):

    e.<topic>                      stamped events              nodes publish, clients listen
    ctl                            each new control record     nodes publish, clients listen
    p.<client>.<topic>             what nodes have no more     that client publishes, clients listen
    beat                           signs of life of nodes      nodes publish, clients listen
    in.<node>.<client>.<part>      what a client asks          that client publishes, nodes listen
    out.<client>.<part>.<node>     what a node answers         nodes publish, that client listens
    u-lane.>  $KV.>                lanes, records (no prefix)  nodes only

The third word of a request is the name its sender has proved, so a node believes it and nothing else in the frame.

Clients have no right to any subject of JetStream, not even to read. The server sends its answer to whatever subject
a request names for it, with its own rights and not the asker's: who may ask can have the answer *written* over the
control record, or into a lane. So a client asks a node (see docs/security.md).
"""

from __future__ import annotations

import json
import os
import re
import secrets
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from unisono.model.errors import ConfigError, ServerError
from unisono.server.configuration import USERS
from unisono.server.directory import PRIVATE_FOLDER, write_private

NODE = "node"
FOLDER = "credentials"

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


@dataclass(frozen=True, slots=True)
class Permissions:
    """Subjects that somebody may publish on and subscribe to; everything else is refused by the server."""

    publish: tuple[str, ...]
    subscribe: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class User:
    """Somebody the server admits."""

    name: str
    password: str
    permissions: Permissions


def node_permissions(prefix: str) -> Permissions:
    """A node may do everything under the prefix, write lanes and records, and use JetStream."""
    ours = (f"{prefix}>", f"{prefix.removesuffix('.')}-lane.>", "$KV.>")
    return Permissions((*ours, "$JS.API.>", "$JS.ACK.>", "$JS.FC.>"), (*ours, f"_INBOX.{NODE}.>"))


def client_permissions(prefix: str, client: str) -> Permissions:
    """A client may ask nodes and tell others in its own name, hear events, and hear the answers meant for it."""
    return Permissions(
        (f"{prefix}in.*.{client}.*", f"{prefix}d.{client}.>", f"{prefix}p.{client}.>"),
        (
            f"{prefix}e.>",
            f"{prefix}d.>",
            f"{prefix}p.>",
            f"{prefix}ctl",
            f"{prefix}beat",
            f"{prefix}out.{client}.>",
            f"_INBOX.{client}.>",
        ),
    )


def check_client(name: str) -> str:
    """Return the name if a client may have it; else raise ConfigError."""
    if not _NAME.fullmatch(name) or name == NODE:
        raise ConfigError(
            f"'{name}' is no name for a client: it is up to 64 letters, digits, '-' or '_', and not '{NODE}'"
        )
    return name


class Credentials:
    """Credentials in a data directory: a file each, readable by us alone, that is also a `unisono.toml`.

    `credentials/node.toml` for the nodes and `credentials/client-<name>.toml` for each client; a password is made
    once and stays. `users.conf` is what the server reads.
    """

    def __init__(self, data: Path, prefix: str = "u.") -> None:
        self.folder = data.absolute() / FOLDER
        self.users_file = data.absolute() / USERS
        self._prefix = prefix

    def path(self, name: str) -> Path:
        """The file of a client, or of the nodes."""
        return self.folder / (f"{NODE}.toml" if name == NODE else f"client-{check_client(name)}.toml")

    def clients(self) -> list[str]:
        """The names of the clients that have credentials."""
        return sorted(file.stem.removeprefix("client-") for file in self.folder.glob("client-*.toml"))

    def url(self, name: str) -> str:
        """The URL, password included, that this client or the nodes connect with."""
        return _read(self.path(name))

    def prepare(self, address: str, options: dict[str, str], clients: Iterable[str]) -> None:
        """Make credentials for those who have none, and tell everybody the address, which may be a new one."""
        self.folder.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
        self.folder.chmod(PRIVATE_FOLDER)
        for name in sorted({NODE, *(check_client(client) for client in clients), *self.clients()}):
            self._write(name, address, options)
        self.write_users()

    def add(self, name: str) -> Path:
        """Credentials for one more client; the server must read its configuration again."""
        path = self.path(name)
        if not path.exists():
            parts = urlsplit(self.url(NODE))
            options = {key: value for key, value in parse_qsl(parts.query) if key not in ("name", "inbox")}
            self._write(name, parts.netloc.rpartition("@")[2], options)
        self.write_users()
        return path

    def remove(self, name: str) -> None:
        """Take a client's credentials away; the server must read its configuration again."""
        self.path(name).unlink(missing_ok=True)
        self.write_users()

    def write_users(self) -> None:
        """Write what the server reads: everybody, and what they may do."""
        users = [self._user(NODE), *(self._user(name) for name in self.clients())]
        write_private(self.users_file, users_configuration(users))

    def _user(self, name: str) -> User:
        user = urlsplit(self.url(name))
        if user.username is None or user.password is None:
            raise ServerError(
                f"{self.path(name)} has a URL without user and password; remove it to have it made anew"
            )
        allowed = node_permissions(self._prefix) if name == NODE else client_permissions(self._prefix, name)
        return User(unquote(user.username), unquote(user.password), allowed)

    def _write(self, name: str, address: str, options: dict[str, str]) -> None:
        path = self.path(name)
        password = urlsplit(_read(path)).password if path.exists() else None
        query = url_query({**options, "name": name, "inbox": f"_INBOX.{name}"})
        url = f"nats://{name}:{password or secrets.token_urlsafe(24)}@{address}{query}"
        who = "the nodes" if name == NODE else f"the client '{name}'"
        text = f"# Credentials of {who}: keep them secret. Use: UNISONO_CONFIG={path.name} unisono ...\nurl = {json.dumps(url)}\n"
        write_private(path, text)


def users_configuration(users: Iterable[User]) -> str:
    """The part of the server's configuration that says who is admitted and may do what."""
    lines = [
        "# Written by unisono from the files in credentials/: changes are lost.",
        "authorization {",
        "  users: [",
    ]
    for user in users:
        may = (
            f"publish: {{ allow: {json.dumps(user.permissions.publish)} }}, "
            f"subscribe: {{ allow: {json.dumps(user.permissions.subscribe)} }}"
        )
        lines.append(
            f"    {{ user: {json.dumps(user.name)}, password: {json.dumps(user.password)}, permissions: {{ {may} }} }}"
        )
    return "\n".join([*lines, "  ]", "}", ""])


def url_query(options: dict[str, str]) -> str:
    """Options as they stand in a URL; paths stay readable."""
    return f"?{urlencode(options, safe='/', quote_via=quote)}" if options else ""


def _read(path: Path) -> str:
    try:
        if os.stat(path).st_mode & 0o077:
            raise ServerError(
                f"{path} can be read by others; 'chmod 600' it, or remove it to have it made anew"
            )
        url = tomllib.loads(path.read_text())["url"]
        if not isinstance(url, str):
            raise KeyError("url")
        return url
    except FileNotFoundError:
        raise ServerError(
            f"there are no credentials at {path}; add them, or start 'unisono up --auth'"
        ) from None
    except (OSError, tomllib.TOMLDecodeError, KeyError) as error:
        raise ServerError(
            f"{path} is not readable as credentials ({error}); remove it to have it made anew"
        ) from None
