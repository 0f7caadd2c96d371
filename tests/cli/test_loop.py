"""Commands run on uvloop, and without it on asyncio's loop."""

import asyncio
import sys

import pytest

from unisono.cli.loop import run_loop


async def _loop():
    return type(asyncio.get_running_loop()).__module__


@pytest.mark.skipif(sys.platform == "win32", reason="there is no uvloop for Windows")
def test_commands_run_on_uvloop():
    assert run_loop(_loop()).startswith("uvloop")


def test_without_uvloop_they_run_as_well(monkeypatch):
    monkeypatch.setitem(sys.modules, "uvloop", None)
    assert run_loop(_loop()).startswith("asyncio")
