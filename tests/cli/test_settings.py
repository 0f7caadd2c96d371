"""Where settings come from, and which wins."""

import subprocess
import sys

import pytest

from unisono.cli.settings import Settings, load, storing, url_of
from unisono.cli.up import durability_of
from unisono.model.errors import ConfigError


def test_defaults(tmp_path):
    assert load(environ={}, folder=tmp_path) == Settings()


def test_flag_over_environment_over_file_over_default(tmp_path):
    (tmp_path / "unisono.toml").write_text('url = "nats://file"\nlog = "info"\n[up]\nport = 1\nnodes = 3\n')
    environ = {"UNISONO_URL": "nats://environment", "UNISONO_UP_PORT": "2", "HOME": "/"}
    found = load({"up.port": 3, "url": None}, environ=environ, folder=tmp_path)
    assert found.url == "nats://environment"
    assert found.log == "info"
    assert (found.up.port, found.up.nodes) == (3, 3)
    assert load({"url": "nats://flag"}, environ=environ, folder=tmp_path).url == "nats://flag"
    assert load(environ={}, folder=tmp_path).up.port == 1


def test_values_in_the_environment(tmp_path):
    environ = {
        "UNISONO_LOG_JSON": "yes",
        "UNISONO_UP_AUTH": "true",
        "UNISONO_UP_TLS_VERIFY": "0",
        "UNISONO_UP_CLIENTS": "desk, ui",
        "UNISONO_METRICS_PORT": "0",
        "UNISONO_TRACE_RATIO": "0.25",
        "UNISONO_NAME": "",  # as if it were not there
    }
    found = load(environ=environ, folder=tmp_path)
    assert found.log_json
    assert found.up.auth
    assert not found.up.tls_verify
    assert found.up.clients == ("desk", "ui")
    assert found.metrics_port == 0
    assert found.trace_ratio == 0.25
    assert found.name is None


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("colour = 1", r"unisono.toml: colour = 1: there is no setting 'colour'; there are url, name, "),
        ("[up]\nprot = 1", r"\[up\] prot = 1: there is no setting 'up.prot'; there are host, port, "),
        ("[up]\nport = 'x'", r"\[up\] port = 'x' will not do: expected `int"),
        ("[up]\nport = 70000", r"will not do: expected `int` <= 65535"),
        ("up = 3", r"there is no setting 'up'"),
        ("url = [", r"unisono.toml is no TOML"),
        ("trace_ratio = 2", r"trace_ratio = 2 will not do"),
    ],
)
def test_a_file_that_will_not_do(tmp_path, text, why):
    (tmp_path / "unisono.toml").write_text(text)
    with pytest.raises(ConfigError, match=why):
        load(environ={}, folder=tmp_path)


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("UNISONO_ULR", "x", "there is no setting UNISONO_ULR; there are .*UNISONO_URL"),
        ("UNISONO_UP_NODES", "many", r"UNISONO_UP_NODES='many' will not do: expected `int"),
        ("UNISONO_CONFIG", "nowhere.toml", "UNISONO_CONFIG=nowhere.toml: there is no such file"),
    ],
)
def test_an_environment_that_will_not_do(tmp_path, name, value, why):
    with pytest.raises(ConfigError, match=why):
        load(environ={name: value}, folder=tmp_path)


def test_a_flag_that_will_not_do(tmp_path):
    with pytest.raises(ConfigError, match="--port -1 will not do: expected `int` >= 0"):
        load({"up.port": -1}, environ={}, folder=tmp_path)


def test_what_kubernetes_puts_there_is_left_alone(tmp_path):
    environ = {
        "UNISONO_SERVICE_HOST": "10.0.0.1",
        "UNISONO_SERVICE_PORT": "4222",
        "UNISONO_SERVICE_PORT_NATS": "4222",
        "UNISONO_PORT": "tcp://10.0.0.1:4222",
        "UNISONO_PORT_4222_TCP": "tcp://10.0.0.1:4222",
        "UNISONO_PORT_4222_TCP_ADDR": "10.0.0.1",
        "UNISONO_NATS_PORT": "tcp://10.0.0.1:4222",
    }
    assert load(environ=environ, folder=tmp_path) == Settings()


def test_another_file(tmp_path):
    (tmp_path / "unisono.toml").write_text("nonsense")
    (tmp_path / "desk.toml").write_text('url = "nats://desk:secret@host?inbox=_INBOX.desk"')
    found = load(environ={"UNISONO_CONFIG": str(tmp_path / "desk.toml")}, folder=tmp_path)
    assert found.url.startswith("nats://desk:")


def test_the_url_of_a_command(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("UNISONO_URL", raising=False)
    monkeypatch.delenv("UNISONO_CONFIG", raising=False)
    assert url_of(None) == "nats://127.0.0.1:4222"
    monkeypatch.setenv("UNISONO_URL", "redis://there")
    assert url_of(None) == "redis://there"
    assert url_of("memory://") == "memory://"


def test_a_command_says_it_in_one_line(tmp_path):
    (tmp_path / "unisono.toml").write_text("colour = 1")
    command = [sys.executable, "-m", "unisono", "lab", "replay", "5"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("ConfigError: unisono.toml: colour = 1: there is no setting 'colour'")
    assert "Traceback" not in done.stderr


def test_durability_goes_into_the_url_of_a_node(tmp_path):
    def url(level, given):
        return storing(load({"url": given, "durability": level}, environ={}, folder=tmp_path))

    assert url(None, "nats://there?name=x") == "nats://there?name=x"
    assert url("disk", "nats://there") == "nats://there?durability=disk"
    assert url("disk", "nats://a,b?name=x") == "nats://a,b?name=x&durability=disk"
    assert url("disk", "nats://there?durability=disk") == "nats://there?durability=disk"
    with pytest.raises(ConfigError, match="the URL says durability=memory and the settings say disk"):
        url("disk", "nats://there?durability=memory")
    with pytest.raises(ConfigError, match="--durability tape will not do"):
        url("tape", "nats://there")


def test_several_servers_replicate_and_one_cannot(tmp_path):
    def level(**flags):
        return durability_of(load(flags, environ={}, folder=tmp_path))

    assert level() is None
    assert level(durability="memory") == "memory"
    assert level(**{"up.servers": 3}) == "replicated"
    assert level(**{"up.servers": 3, "durability": "disk"}) == "disk"
    with pytest.raises(ConfigError, match="start with --servers 3"):
        level(durability="replicated")
    with pytest.raises(ConfigError, match="--servers 2 will not do"):
        level(**{"up.servers": 2})
