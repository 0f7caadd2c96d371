"""`unisono up` as a real process; the nodes are stubs that say they are ready."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import pytest

from unisono.cli.settings import load
from unisono.cli.up import System
from unisono.cli.up_nodes import NodeProcess
from unisono.model.errors import ServerError
from unisono.server import Restarts

STUB = """
import json, os, signal, sys, time
name = sys.argv[sys.argv.index("--name") + 1]
url = sys.argv[sys.argv.index("--url") + 1] if "--url" in sys.argv else None
os.makedirs("seen", exist_ok=True)
with open(f"seen/{name}", "a") as out:
    out.write(json.dumps({"pid": os.getpid(), "argv": sys.argv, "url": url, "env": os.environ["UNISONO_URL"]}) + "\\n")
behave = os.environ.get("STUB", "")
if behave == "refuse":
    sys.exit(2)
if behave == "stubborn":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
else:
    signal.signal(signal.SIGTERM, lambda *_: (open(f"seen/{name}.stopped", "w").close(), sys.exit(0)))
print("not this line", flush=True)
if behave != "silent":
    print(json.dumps({"ready": True, "name": name, "metrics": None}), flush=True)
while True:
    time.sleep(0.05)
"""

RUN = """
import sys
from unisono.cli import up, up_nodes
from unisono.cli.main import run
up.NODE_COMMAND = [sys.executable, {stub!r}, "node"]
up.READY_S = {ready_s}
up.NODES_STOP_S = {stop_s}
run()
"""


def is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False


def until(condition, within_s=30.0):
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


def start(folder, *arguments, ready_s=60, stop_s=5, **env):
    """An `up` in this folder, with stubs for nodes."""
    stub = folder / "stub.py"
    stub.write_text(STUB)
    code = RUN.format(stub=str(stub), ready_s=ready_s, stop_s=stop_s)
    env = {key: value for key, value in os.environ.items() if not key.startswith("UNISONO_")} | env
    command = [sys.executable, "-c", code, "up", "--data", "data", *arguments]
    return subprocess.Popen(
        command, cwd=folder, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def pids_of(said):
    return [said["pid"], said["server"]["pid"], *(node["pid"] for node in said["nodes"])]


@contextmanager
def running(folder, *arguments, **more):
    """One that is up, and what it said."""
    with start(folder, "--port", "0", "--json", *arguments, **more) as process:
        try:
            line = process.stdout.readline()
            assert line, process.stderr.read()
            yield process, json.loads(line)
        finally:
            process.kill()


def seen(folder, name):
    """What the stubs of this name were told, each life a line."""
    path = folder / "seen" / name
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    return [json.loads(line) for line in lines if line.endswith("\n")]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_it_says_where_everything_is_and_stops_cleanly(tmp_path, number):
    with running(tmp_path, "--nodes", "2") as (process, said):
        assert said["url"].startswith("nats://127.0.0.1:")
        assert said["dashboard"] is None
        assert said["pid"] == process.pid
        assert Path(said["data"]) == tmp_path / "data"
        assert [node["name"] for node in said["nodes"]] == ["n1", "n2"]
        assert said["metrics"] is None
        assert said["credentials"] is None
        assert [seen(tmp_path, name)[0]["url"] for name in ("n1", "n2")] == [said["url"]] * 2
        assert all(is_alive(pid) for pid in pids_of(said))
        began = time.monotonic()
        process.send_signal(number)
        assert process.wait(20) == 0
        assert time.monotonic() - began < 10
        assert not any(is_alive(pid) for pid in pids_of(said))
        assert (tmp_path / "seen" / "n1.stopped").exists()
        assert process.stdout.read() == ""
        assert process.stderr.read() == ""


def test_nothing_is_left_after_kill_9(tmp_path):
    with running(tmp_path, "--nodes", "2") as (process, said):
        process.kill()
        process.wait()
        until(lambda: not any(is_alive(pid) for pid in pids_of(said)))
    with running(tmp_path) as (_, said):  # and the directory is free
        assert said["nodes"]


def test_nodes_that_do_not_stop_are_killed(tmp_path):
    with running(tmp_path, "--nodes", "2", stop_s=0.5, STUB="stubborn") as (process, said):
        began = time.monotonic()
        process.terminate()
        assert process.wait(20) == 0
        assert time.monotonic() - began < 10
        assert not any(is_alive(pid) for pid in pids_of(said))
        assert "did not stop in 0.5 s and was killed" in process.stderr.read()


def test_what_dies_is_started_again_and_told(tmp_path):
    with running(tmp_path, "--metrics-port", "0") as (process, said):
        os.kill(said["nodes"][0]["pid"], signal.SIGKILL)
        until(lambda: len(seen(tmp_path, "n1")) == 2)
        os.kill(said["server"]["pid"], signal.SIGKILL)

        def page(name):
            try:
                with urllib.request.urlopen(said["metrics"].replace("metrics", name), timeout=5) as found:
                    return found.read().decode()
            except OSError:  # it says 503, for instance
                return ""

        until(lambda: 'unisono_process_restarts_total{name="up",role="up"} 2.0' in page("metrics"))
        until(lambda: '"ok": true' in page("healthz"))
        assert 'unisono_nodes{name="up",role="up"} 1.0' in page("metrics")
        process.terminate()
        assert process.wait(20) == 0
        told = process.stderr.read()
        assert "node n1 was ended by SIGKILL; it is started again" in told
        assert "the NATS server was ended by SIGKILL; it is started again" in told


def test_with_credentials_no_password_is_printed_or_on_a_command_line(tmp_path):
    with running(tmp_path, "--auth", "--client", "desk", "--client", "ui") as (process, said):
        assert "@" not in said["url"]
        assert set(said["credentials"]) == {"desk", "ui"}
        stub = seen(tmp_path, "n1")[0]
        assert stub["url"] is None
        assert stub["env"].startswith("nats://node:")
        assert not any("node:" in argument for argument in stub["argv"])
        assert Path(said["credentials"]["desk"]).stat().st_mode & 0o777 == 0o600
        process.terminate()
        assert process.wait(20) == 0
        assert process.stderr.read() == ""


def finished(folder, *arguments, **more):
    """Exit code and stderr of one that does not come up."""
    with start(folder, *arguments, **more) as process:
        out, told = process.communicate(timeout=60)
        assert out == ""
        return process.returncode, told


def test_what_cannot_be_is_said_in_one_line(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = str(listener.getsockname()[1])
        code, told = finished(tmp_path, "--port", port)
        assert (code, told.startswith(f"ServerError: port {port} of 127.0.0.1 is taken")) == (2, True), told
        code, told = finished(tmp_path, "--port", "0", "--metrics-port", port)
        assert (code, "give another port with --metrics-port" in told.replace("\n", " ")) == (2, True), told
    code, told = finished(tmp_path, "--port", "0", "--nodes", "-1")
    assert (code, "--nodes -1 will not do" in told) == (2, True), told
    code, told = finished(tmp_path, "--port", "0", STUB="refuse")
    assert (code, "node n1 ended with exit code 2, and is given up" in told) == (2, True), told
    code, told = finished(tmp_path, "--port", "0", ready_s=0.5, STUB="silent")
    assert (code, "n1 did not become ready in 0.5 s" in told) == (2, True), told
    with running(tmp_path) as (process, _):
        code, told = finished(tmp_path, "--port", "0")
        assert (code, f"is in use by process {process.pid}" in told.replace("\n", " ")) == (2, True), told


def test_stopped_while_it_starts(tmp_path):
    with start(tmp_path, "--port", "0", "--nodes", "2", STUB="silent") as process:
        until(lambda: all(seen(tmp_path, name) for name in ("n1", "n2")))
        stubs = [seen(tmp_path, name)[0]["pid"] for name in ("n1", "n2")]
        process.terminate()
        assert process.wait(20) == 0
        assert not any(is_alive(pid) for pid in stubs)


def test_for_people(tmp_path):
    with start(tmp_path, "--port", "0", "--auth") as process:
        assert process.stderr.readline().startswith("up: nats://127.0.0.1:")
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
        told = process.stderr.read()
        assert process.stdout.read() == ""
        assert "client 'default': UNISONO_CONFIG=" in told


def test_a_node_that_does_not_stay_up_is_given_up():
    troubles = []

    async def main():
        command = ["sh", "-c", "echo '{\"ready\": true}'; exit 7"]
        pauses = Restarts(first_s=0.01, most_s=0.01, limit=3)
        node = NodeProcess("n1", command, {}, on_trouble=troubles.append, restarts=pauses)
        node.start()
        with pytest.raises(ServerError, match="node n1 ended with exit code 7, and is given up"):
            await asyncio.wait_for(node.life, 30)
        await node.stop(1)
        return node

    node = asyncio.run(main())
    assert node.restarts == len(troubles) == 3
    assert not node.ready.is_set()


def test_the_pages_of_nodes_are_right_behind_ours():
    def port(n, flag):
        return System(load({"metrics_port": flag}, environ={}))._metrics_of(n).get("UNISONO_METRICS_PORT")

    assert [port(n, 9100) for n in (1, 2)] == ["9101", "9102"]
    assert port(1, 0) == "0"
    assert port(1, None) is None


@pytest.mark.durability
def test_three_servers_and_one_that_is_killed_comes_back(tmp_path):
    with running(tmp_path, "--servers", "3", "--nodes", "2") as (process, said):
        assert [server["name"] for server in said["servers"]] == ["s1", "s2", "s3"]
        assert said["url"].count(",") == 2
        os.kill(said["servers"][1]["pid"], signal.SIGKILL)
        port = int(said["servers"][1]["url"].rpartition(":")[2])

        def answers():
            with socket.socket() as probe:
                return probe.connect_ex(("127.0.0.1", port)) == 0

        until(answers)
        assert seen(tmp_path, "n1")[0]["url"] == said["url"]
        process.send_signal(signal.SIGTERM)
        assert process.wait(15) == 0
        assert not any(is_alive(server["pid"]) for server in said["servers"])
