"""The server's configuration file."""

from __future__ import annotations

import json

from unisono.server.settings import ClusterPlace, ServerSettings

LOG, ERRORS, USERS, PID = "nats.log", "nats.err", "users.conf", "nats.pid"
LOG_BYTES, LOG_FILES = 16 * 1024 * 1024, 4


CLUSTER = "unisono"


def configuration(
    settings: ServerSettings, *, name: str, port: int, monitor_port: int | None, users: str = f"./{USERS}"
) -> str:
    """The text of nats.conf. Who may do what is in a file of its own, which a reload reads again."""
    data = settings.data.absolute()
    store = [f"store_dir: {_text(data)}", f"sync_interval: {_text(settings.sync)}"]
    if settings.max_store:
        store.append(f"max_file_store: {settings.max_store}")
    lines = [
        "# Written by unisono at every start: changes are lost. See docs/operations.md.",
        f"server_name: {_text(name)}",
        f"host: {_text(settings.host)}",
        f"port: {port}",
        f"max_payload: {settings.max_payload}",
        f"max_pending: {max(64 * 1024 * 1024, 4 * settings.max_payload)}",
        f"pid_file: {_text(data / PID)}",
        f"log_file: {_text(data / LOG)}",
        f"logfile_size_limit: {LOG_BYTES}",
        f"logfile_max_num: {LOG_FILES}",
        f"jetstream {{ {', '.join(store)} }}",
    ]
    if monitor_port is not None:
        lines.append(f"http: {_text(f'127.0.0.1:{monitor_port}')}")
    if settings.cluster is not None:
        lines.append(_cluster(settings.cluster))
    if settings.tls_cert is not None:
        lines.append(_tls(settings))
    if settings.auth:
        lines.append(f"include {_text(users)}")
    return "\n".join([*lines, ""])


def _cluster(place: ClusterPlace) -> str:
    routes = ", ".join(
        _text(f"nats-route://{CLUSTER}:{place.password}@127.0.0.1:{port}") for port in place.others
    )
    admitted = f"user: {_text(CLUSTER)}, password: {_text(place.password)}, timeout: 5"
    return (
        f"cluster {{ name: {_text(CLUSTER)}, listen: {_text(f'127.0.0.1:{place.port}')}, "
        f"authorization {{ {admitted} }}, routes: [{routes}] }}"
    )


def _tls(settings: ServerSettings) -> str:
    assert settings.tls_cert is not None
    assert settings.tls_key is not None
    parts = [
        f"cert_file: {_text(settings.tls_cert.absolute())}",
        f"key_file: {_text(settings.tls_key.absolute())}",
        "timeout: 5",
    ]
    if settings.tls_verify:
        assert settings.tls_ca is not None
        parts += [f"ca_file: {_text(settings.tls_ca.absolute())}", "verify: true"]
    return f"tls {{ {', '.join(parts)} }}"


def _text(value: object) -> str:
    return json.dumps(str(value))
