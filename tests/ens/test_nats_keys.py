"""NATS with keys: a seed file (nkey=), and a credentials file (creds=) of a server that trusts an operator."""

import asyncio
import base64
import importlib.util
import json
import logging
import secrets
import time

import nkeys
import pytest
from ens_kit import connected, listen, refusal, until

from unisono.ens.registry import open_service
from unisono.model.errors import ConfigError
from unisono.testing.servers import nats_server


@pytest.fixture(autouse=True)
def _quiet(caplog):
    caplog.set_level(logging.CRITICAL + 1, "unisono")


def new_key(kind):
    """A seed, and the key pair it stands for."""
    seed = nkeys.encode_seed(secrets.token_bytes(32), kind)
    return seed.decode(), nkeys.from_seed(bytearray(seed))


def public(pair):
    return pair.public_key.decode()


def token(issuer, subject, claims):
    """What the issuer says of the subject, signed."""

    def encoded(value):
        raw = value if isinstance(value, bytes) else json.dumps(value).encode()
        return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()

    said = {
        "jti": secrets.token_hex(16),
        "iat": int(time.time()),
        "iss": public(issuer),
        "sub": public(subject),
        "name": "test",
        "nats": {"version": 2, **claims},
    }
    text = f"{encoded({'typ': 'JWT', 'alg': 'ed25519-nkey'})}.{encoded(said)}"
    return f"{text}.{encoded(issuer.sign(text.encode()))}"


async def carries(url):
    async with connected(url) as service:
        heard = await listen(service, "t")
        service.publish(("t",), b"x")
        await until(lambda: heard == [b"x"])


def test_a_seed_file_admits(tmp_path):
    seed, pair = new_key(nkeys.PREFIX_BYTE_USER)
    (tmp_path / "good.nk").write_text(seed + "\n")
    (tmp_path / "other.nk").write_text(new_key(nkeys.PREFIX_BYTE_USER)[0])
    (tmp_path / "bad.nk").write_text("this is no seed")
    with nats_server(config=f"authorization {{ users: [ {{ nkey: {public(pair)} }} ] }}") as server:
        asyncio.run(carries(f"{server.url}?nkey={tmp_path / 'good.nk'}"))
        says, _ = refusal(f"{server.url}?nkey={tmp_path / 'other.nk'}")
        assert "does not admit a client without these credentials" in says
        assert "nkey=" in says
    with pytest.raises(ConfigError, match=r"the seed in .*bad\.nk is none"):
        open_service(f"nats://h?nkey={tmp_path / 'bad.nk'}")


def test_a_credentials_file_admits(tmp_path):
    _, operator = new_key(nkeys.PREFIX_BYTE_OPERATOR)
    _, account = new_key(nkeys.PREFIX_BYTE_ACCOUNT)
    seed, user = new_key(nkeys.PREFIX_BYTE_USER)
    unlimited = dict.fromkeys(("subs", "data", "payload", "imports", "exports", "conn", "leaf"), -1)
    account_token = token(operator, account, {"type": "account", "limits": {**unlimited, "wildcards": True}})
    user_token = token(account, user, {"type": "user", "subs": -1, "data": -1, "payload": -1})
    (tmp_path / "operator.jwt").write_text(token(operator, operator, {"type": "operator"}))
    (tmp_path / "user.creds").write_text(
        f"-----BEGIN NATS USER JWT-----\n{user_token}\n------END NATS USER JWT------\n\n"
        f"-----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"
    )
    (tmp_path / "bad.creds").write_text("nothing in it\n")
    config = (
        f'operator: "{tmp_path / "operator.jwt"}"\nresolver: MEMORY\n'
        f"resolver_preload: {{ {public(account)}: {account_token} }}"
    )
    with nats_server(config=config) as server:
        asyncio.run(carries(f"{server.url}?creds={tmp_path / 'user.creds'}"))
        says, _ = refusal(server.url)
        assert "nkey= or creds=" in says
    with pytest.raises(ConfigError, match=r"bad\.creds has no 'BEGIN NATS USER JWT'"):
        open_service(f"nats://h?creds={tmp_path / 'bad.creds'}")


def test_keys_need_the_library_for_keys(tmp_path, monkeypatch):
    (tmp_path / "seed.nk").write_text("x")
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "nkeys" else found(name))
    with pytest.raises(ConfigError, match=r"option nkey needs nkeys: pip install 'unisono\[nats\]'"):
        open_service(f"nats://h?nkey={tmp_path / 'seed.nk'}")
