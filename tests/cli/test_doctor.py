"""`unisono doctor`: true findings, advice, an end in any case, and no secrets."""

import asyncio
import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
import tomllib
from pathlib import Path

import pytest

from unisono.cli import doctor_machine
from unisono.cli.doctor import checks, examine
from unisono.cli.doctor_extras import EXTRAS, check_extra, requirements
from unisono.cli.doctor_machine import Finding, check_folder, check_java, check_port_free, check_server
from unisono.cli.doctor_reach import check_broker, check_nodes, hide
from unisono.cli.settings import load
from unisono.server import BundledServer, ServerSettings

ROOT = Path(__file__).parents[2]


def doctor(*arguments, folder, **environ):
    command = [sys.executable, "-m", "unisono", "doctor", *arguments]
    env = {**os.environ, **environ}
    return subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=False, cwd=folder, env=env
    )


def test_what_is_there_is_good_and_the_rest_comes_with_advice(tmp_path):
    done = doctor("--json", folder=tmp_path)
    told = json.loads(done.stdout)
    states = {finding["name"]: finding["state"] for finding in told["findings"]}
    assert states["python"] == states["data folder"] == states["NATS server"] == "good"
    assert told["held"] is ("bad" not in states.values())  # no Java, say: that is the machine's affair
    assert done.returncode == (0 if told["held"] else 1)
    assert "broker" not in states
    for finding in told["findings"]:
        assert finding["state"] == "good" or finding["advice"], finding


def test_a_broker_that_is_not_there_is_bad_and_its_password_is_not_shown(tmp_path):
    with socket.socket() as probe:  # a port that answers nobody
        probe.bind(("127.0.0.1", 0))
        url = f"nats://desk:s3cret-word@127.0.0.1:{probe.getsockname()[1]}?token=other-word"
        done = doctor(folder=tmp_path, UNISONO_URL=url)
    assert done.returncode == 1
    assert done.stdout == ""
    assert re.search(r"bad +broker", done.stderr)
    assert "→ start one with: unisono up" in done.stderr
    assert "s3cret" not in done.stderr
    assert "other-word" not in done.stderr


def test_nonsense_is_bad_usage(tmp_path):
    (tmp_path / "unisono.toml").write_text("colour = 'blue'")
    done = doctor(folder=tmp_path)
    assert done.returncode == 2
    assert "there is no setting 'colour'" in done.stderr
    assert doctor("--loud", folder=tmp_path).returncode == 2


def test_what_hangs_is_left_behind():
    never = threading.Event()
    began = time.monotonic()
    found = examine(
        {
            "dead disk": lambda: never.wait() or Finding("", "good", ""),
            "live": lambda: Finding("live", "good", ""),
        },
        limit_s=0.2,
    )
    never.set()
    assert time.monotonic() - began < 5
    assert [(f.name, f.state) for f in found] == [("dead disk", "bad"), ("live", "good")]


def test_a_check_that_fails_does_not_take_the_others_with_it():
    def broken() -> Finding:
        raise RuntimeError("a bug")

    found = examine({"a": broken, "b": lambda: Finding("b", "good", "")}, limit_s=5)
    assert "a bug" in found[0].found
    assert [f.state for f in found] == ["bad", "good"]


def test_every_extra_is_looked_at():
    written = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert EXTRAS.keys() == written.keys()


def test_an_extra_that_is_missing_says_how_to_install_it(monkeypatch):
    assert requirements("redis") == {"redis": (5,)}
    assert check_extra("redis").state == "good"
    monkeypatch.setattr(
        "unisono.cli.doctor_extras.requirements", lambda extra: {"redis": (99,), "nowhere": ()}
    )
    found = check_extra("redis")
    assert found.state == "note"
    assert found.found == "not installed: nowhere, redis"
    assert "pip install 'unisono[redis]'" in found.advice


def test_a_folder_that_cannot_be_written_to(tmp_path):
    (tmp_path / "file").write_text("")
    found = check_folder("data folder", str(tmp_path / "file"), "--data")
    assert found.state == "bad"
    assert "--data" in found.advice
    assert check_folder("data folder", str(tmp_path / "a" / "b"), "--data").state == "good"
    assert list(tmp_path.iterdir()) == [tmp_path / "file"], "nothing is left behind"


def test_a_disk_that_is_nearly_full(tmp_path, monkeypatch):
    usage = doctor_machine.shutil.disk_usage(tmp_path)
    for free, state in ((1 << 20, "bad"), (500 << 20, "note"), (5 << 30, "good")):
        monkeypatch.setattr(
            doctor_machine.shutil, "disk_usage", lambda _, free=free: usage._replace(free=free)
        )
        assert check_folder("data folder", str(tmp_path), "--data").state == state


@pytest.mark.parametrize(
    ("told", "state"),
    [('openjdk version "17.0.15" 2025-04-15', "good"), ('java version "1.8.0_392"', "bad"), ("?", "bad")],
)
def test_java_is_asked_for_its_version(tmp_path, monkeypatch, told, state):
    program = tmp_path / "bin" / "java"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\necho '{told}' >&2\n")
    program.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert check_java().state == state
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    assert "point it to Java 17" in check_java().advice


def test_a_server_that_does_not_run(tmp_path, monkeypatch):
    broken = tmp_path / "nats-server"
    broken.write_text("#!/bin/sh\nexit 3\n")
    broken.chmod(0o755)
    monkeypatch.setattr(doctor_machine, "find_program", lambda: str(broken))
    assert check_server().state == "bad"


def test_a_limit_of_open_files_that_is_too_low(monkeypatch):
    for limit, state in ((64, "bad"), (512, "note"), (4096, "good")):
        monkeypatch.setattr(doctor_machine.resource, "getrlimit", lambda _, limit=limit: (limit, 4096))
        found = doctor_machine.check_files()
        assert found.state == state
        assert ("ulimit -n" in found.advice) == (state != "good")


def test_a_clock_that_cannot_be_right(monkeypatch):
    monkeypatch.setattr(doctor_machine.time, "time", lambda: 1_000_000_000.0)
    assert doctor_machine.check_clock().state == "bad"


def test_a_port_that_is_taken():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        threading.Thread(target=lambda: taken.accept()[0].close(), daemon=True).start()
        found = check_port_free("127.0.0.1", port, "up --port")
    assert found.state == "note"
    assert "up --port" in found.advice


def test_a_server_without_nodes(tmp_path):
    async def look():
        async with BundledServer(ServerSettings(data=tmp_path, port=0)) as server:
            return server.port, *await asyncio.gather(
                asyncio.to_thread(check_broker, server.url),
                asyncio.to_thread(check_nodes, server.url),
                asyncio.to_thread(check_port_free, "127.0.0.1", server.port, "up --port"),
            )

    port, broker, nodes, taken = asyncio.run(look())
    assert broker == Finding("broker", "good", f"nats://127.0.0.1:{port} answers")
    assert nodes.state == "bad"
    assert "unisono node" in nodes.advice
    assert "a NATS server" in taken.found


def test_memory_needs_nobody():
    assert check_broker("memory://").state == check_nodes("memory://").state == "good"


def test_a_host_that_nobody_knows():
    found = check_broker("redis://no-such-host.invalid:6379")
    assert found.state == "bad"
    assert "no-such-host.invalid" in found.found


def test_secrets_are_hidden_however_they_are_spelt():
    url = "nats://user:p%40ss-word@h?token=abcdef&name=desk-7"
    told = hide(Finding("broker", "bad", "p%40ss-word p@ss-word abcdef desk-7", "abcdef"), url)
    assert told.found == "••• ••• ••• desk-7"
    assert told.advice == "•••"
    assert "tokenword" not in hide(Finding("b", "bad", "at tokenword@h"), "nats://tokenword@h").found


def test_ports_that_are_configured_are_looked_at(tmp_path):
    settings = load({"metrics_port": 9099, "up.monitor_port": 8222}, environ={}, folder=tmp_path)
    names = set(checks(settings, reach=False))
    assert {"port 4222", "port 8222", "port 9099"} <= names
    assert "broker" not in names
    assert {"broker", "nodes"} <= set(checks(settings, reach=True))
