"""Who is who for a node: which names are nodes, who sends packets on a topic, and where somebody hears us."""

from __future__ import annotations

from collections.abc import Iterable

from unisono.runtime.remote.wire import between_nodes, source_of, to_client

NODES_MAX = 4096  # names of nodes that are remembered
NAMES_MAX = 4096  # others that are remembered, each way; they can be found out again


class AddressBook:
    """The names that one node has met; asked for every packet."""

    def __init__(self, node: str) -> None:
        self.nodes = {node}
        self.senders: dict[str, tuple[str, bool]] = {}  # topic -> who sends packets on it, and whether a node
        self._node = node
        self._ways: dict[str, str] = {}  # name -> the topic on which it hears us

    def sender(self, topic: str) -> tuple[str, bool]:
        """Who sends packets on a topic, and whether that is a node; ValueError if it is no such topic."""
        if len(self.senders) >= NAMES_MAX:
            self.senders.clear()
        found = self.senders[topic] = source_of(topic)
        return found

    def way(self, to: str) -> str:
        """The topic on which somebody hears us."""
        known = self._ways.get(to)
        if known is None:
            if len(self._ways) >= NAMES_MAX:
                self._ways.clear()
            is_node = to in self.nodes
            known = self._ways[to] = between_nodes(self._node, to) if is_node else to_client(to, self._node)
        return known

    def add_nodes(self, names: Iterable[str]) -> None:
        """These are nodes."""
        fresh = [name for name in names if name not in self.nodes]
        if fresh and len(self.nodes) < NODES_MAX:
            self.nodes.update(fresh)
            self._ways.clear()
