"""Whether a broker and its nodes answer; passwords and tokens of the URL are never shown."""

from __future__ import annotations

import asyncio
import socket
from dataclasses import replace
from urllib.parse import parse_qsl, unquote, urlsplit

from unisono import connect
from unisono.cli.doctor_machine import Finding
from unisono.ens.registry import open_service
from unisono.model.errors import UnisonoError
from unisono.runtime.remote.admin import look

REACH_S = 12.0
OPEN_KEYS = frozenset({"jetstream", "mode", "name", "qos", "tls", "durability", "prefix", "client_id"})


def check_broker(url: str) -> Finding:
    """Whether something answers at the URL."""
    parts = urlsplit(url)
    if parts.scheme == "memory":
        return Finding("broker", "good", "none is needed: memory:// lives in your process")
    if parts.hostname is not None and "," not in parts.netloc:
        try:  # here and not in asyncio, whose threads nobody can leave behind
            socket.getaddrinfo(parts.hostname, None)
        except OSError as error:
            return Finding(
                "broker", "bad", f"nobody knows the host '{parts.hostname}': {error}", "check --url"
            )
    try:
        asyncio.run(asyncio.wait_for(_reach(url), REACH_S))
    except (UnisonoError, OSError, TimeoutError) as error:
        return Finding(
            "broker", "bad", str(error) or f"no answer within {REACH_S:g} s", _advice(parts.scheme)
        )
    return Finding("broker", "good", f"{parts.scheme}://{parts.netloc.rpartition('@')[2]} answers")


def check_nodes(url: str) -> Finding:
    """Whether nodes sequence there, and which."""
    scheme = urlsplit(url).scheme
    if scheme in ("memory", "udp"):
        return Finding("nodes", "good", f"none are needed: {scheme}:// has none")
    try:
        overview = asyncio.run(asyncio.wait_for(look(url), REACH_S))
    except (UnisonoError, OSError, TimeoutError) as error:
        advice = "start one with: unisono node --url URL, or everything at once with: unisono up"
        return Finding("nodes", "bad", str(error) or f"no answer within {REACH_S:g} s", advice)
    control = overview.control
    names = ", ".join(node.node for node in overview.nodes)
    found = (
        f"{names} in epoch {control.epoch}, {len(overview.topics)} topics, durability {overview.durability}"
    )
    silent = sorted(set(control.live) - {node.node for node in overview.nodes})
    if silent:
        return Finding("nodes", "bad", f"{found}; {', '.join(silent)} did not answer", "look into its log")
    return Finding("nodes", "good", found)


def hide(finding: Finding, url: str) -> Finding:
    """The finding without what only the owner of the URL should know."""
    found, advice = finding.found, finding.advice
    for secret in _secrets(url):
        found, advice = found.replace(secret, "•••"), advice.replace(secret, "•••")
    return replace(finding, found=found, advice=advice)


async def _reach(url: str) -> None:
    if urlsplit(url).scheme == "udp":
        async with connect(url):
            return
    service = open_service(url)
    await service.connect()
    await service.close()


def _advice(scheme: str) -> str:
    if scheme == "nats":
        return "start one with: unisono up, or check --url"
    if scheme == "udp":
        return "start one with: unisono dispatcher --listen URL, or check --url"
    return "start the broker, or check --url"


def _secrets(url: str) -> list[str]:
    """The password, and the values of options that are nobody else's business; longest first."""
    parts = urlsplit(url)
    login = parts.netloc.rpartition("@")[0]
    _, colon, password = login.partition(":")
    found = {password if colon else login}  # nats://token@host: the whole login is the secret
    found |= {value for key, value in parse_qsl(parts.query) if key not in OPEN_KEYS}
    found |= {unquote(secret) for secret in found}
    return sorted((secret for secret in found if len(secret) > 2), key=len, reverse=True)
