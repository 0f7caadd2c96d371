"""A real browser, real systems to look at, and what is measured of a page."""

import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
HERE = Path(__file__).parent
UNISONO = [sys.executable, "-m", "unisono"]


def chromium():
    return shutil.which("chromium") or shutil.which("chromium-browser")


def why_no_browser():
    """Why there is no browser to test with; None if there is one."""
    if importlib.util.find_spec("playwright") is None:
        return "Playwright is not installed: make setup"
    if chromium() is None:
        return "Chromium is not installed: make browser"
    return None


@contextmanager
def command(*arguments, cwd=None):
    """A command of ours that prints one line of JSON when it is ready; yields it and the process."""
    env = {key: value for key, value in os.environ.items() if not key.startswith("UNISONO_")}
    process = subprocess.Popen(
        arguments, cwd=cwd, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    try:
        line = process.stdout.readline()
        assert line, f"{' '.join(map(str, arguments))} said nothing"
        yield json.loads(line), process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(15)
        process.stdout.close()


def opened(page, url, view):
    """Open a view, and wait until it is there."""
    page.goto(f"{url}#{view}")
    page.wait_for_selector(f"main[data-view={view}]")
    return page


def wait(page, expression, within_s=30.0):
    """Until something is true of a page. (Playwright's own way wants `eval`, which our pages forbid.)"""
    deadline = time.monotonic() + within_s
    while not page.evaluate(expression):
        assert time.monotonic() < deadline, f"not in time: {expression}"
        page.wait_for_timeout(25)


def overflow(page):
    """How many pixels the page is wider than its window."""
    return page.evaluate("document.documentElement.scrollWidth - innerWidth")


def hard_to_read(page):
    """Texts whose contrast is below WCAG AA, and those that are cut off without a way to see the rest."""
    return page.evaluate((HERE / "legible.js").read_text())


def unnamed(page):
    """Controls that a screen reader cannot name."""
    return page.evaluate(
        """() => [...document.querySelectorAll("button, input, select, a, iframe, img, [role=img], [tabindex='0']")]
        .filter((e) => e.checkVisibility())
        .filter((e) => !(e.getAttribute("aria-label") || e.textContent.trim() || e.title || e.alt || e.labels?.length))
        .map((e) => e.outerHTML.slice(0, 120))"""
    )
