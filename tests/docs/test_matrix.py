"""The matrix of orders and transports is the same in the docs and in the code."""

from pathlib import Path
from typing import get_args

from unisono.runtime.matrix import TRANSPORTS, Transport, promise, table
from unisono.runtime.options import Order

DOCS = Path(__file__).parents[2] / "docs" / "transports.md"


def test_the_docs_show_the_matrix():
    assert "\n".join(table()) in DOCS.read_text()


def test_every_order_has_a_promise_on_every_transport():
    assert set(get_args(Transport)) == set(TRANSPORTS)
    for order in get_args(Order):
        for transport in TRANSPORTS:
            assert all(promise(order, transport))


def test_only_where_nodes_share_a_store_is_there_a_takeover():
    crashes = {transport: promise("total", transport).crash for transport in TRANSPORTS}
    assert [t for t, crash in crashes.items() if "takes over" in crash] == [
        "nats",
        "nats jetstream",
        "redis",
        "redis pubsub",
    ]
