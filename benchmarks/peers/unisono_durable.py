"""unisono on NATS with JetStream: an event is acknowledged when it is in its lane on the server's disk."""

from __future__ import annotations

from benchmarks.peers.kit import main
from benchmarks.peers.unisono import Unisono


class DurableUnisono(Unisono):
    """The same, but stored as `unisono up` stores."""

    options = "?durability=disk"


if __name__ == "__main__":
    main(DurableUnisono())
