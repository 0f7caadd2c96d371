"""Which extras are installed, as the metadata of the installed package tell it."""

from __future__ import annotations

import re
from importlib import metadata

from unisono.cli.doctor_machine import Finding

EXTRAS = {
    "up": "unisono up, and the second act of the demo",
    "nats": "nats://, with keys and credentials files",
    "redis": "redis://",
    "mqtt": "mqtt://",
    "metrics": "/metrics for Prometheus",
    "otel": "traces for OpenTelemetry",
    "dashboard": "the dashboard",
    "journal": "journals",
    "filters": "matching against very many filters",
    "spark": "audits, plans and reports on Spark",
    "lab": "the papers' evaluations",
    "pydantic": "pydantic models as payloads",
}

_REQUIREMENT = re.compile(
    r"(?P<name>[\w.-]+)(?:\[[^\]]*\])?(?P<bounds>[^;]*);.*extra == ['\"](?P<extra>[\w-]+)['\"]"
)


def check_extra(extra: str) -> Finding:
    """Whether everything that an extra asks for is there, and new enough."""
    name = f"extra {extra}"
    wanted = requirements(extra)
    if not wanted:
        return Finding(name, "note", "this version does not know it", "install unisono again")
    missing = sorted(package for package, least in wanted.items() if not _is_there(package, least))
    if missing:
        found = f"not installed: {', '.join(missing)}"
        return Finding(name, "note", found, f"for {EXTRAS[extra]}: pip install 'unisono[{extra}]'")
    return Finding(name, "good", f"installed, for {EXTRAS[extra]}")


def requirements(extra: str) -> dict[str, tuple[int, ...]]:
    """The packages of an extra, each with the oldest version that will do."""
    found = {}
    for text in metadata.requires("unisono") or ():
        match = _REQUIREMENT.fullmatch(text)
        if match is not None and match["extra"] == extra:
            least = re.search(r">=\s*([\d.]+)", match["bounds"])
            found[match["name"]] = _numbers(least[1]) if least is not None else ()
    return found


def _is_there(package: str, least: tuple[int, ...]) -> bool:
    try:
        return _numbers(metadata.version(package)) >= least
    except metadata.PackageNotFoundError:
        return False


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])
