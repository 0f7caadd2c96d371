"""Transports between processes are refused by name until nodes can order events there."""

import pytest

import unisono


@pytest.mark.parametrize(
    "url", ["nats://127.0.0.1:4222", "redis://127.0.0.1:6379/0", "mqtt://127.0.0.1:1883"]
)
def test_a_transport_between_processes_is_refused_by_name(url):
    with pytest.raises(unisono.ConfigError, match=r"within one process only; use memory://"):
        unisono.connect(url)
