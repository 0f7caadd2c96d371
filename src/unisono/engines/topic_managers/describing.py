"""What a node tells people who ask: its topics, how far they are, and who holds them."""

from __future__ import annotations

import msgspec

from unisono.engines.topic_managers.node import ManagerNode


class TopicDescription(msgspec.Struct, frozen=True):
    """One topic, as its manager knows it."""

    topic: str
    number: int  # of its newest event
    group: tuple[str, ...]  # the topics it is ordered with, itself among them
    path: tuple[str, ...]  # the managers its events pass
    subscribers: int
    under_way: int


class NodeDescription(msgspec.Struct, frozen=True):
    """One node."""

    node: str
    epoch: int
    serves: bool
    unconfirmed: int  # records that its lane has not confirmed
    topics: tuple[TopicDescription, ...]


def describe(node: ManagerNode) -> NodeDescription:
    """A node as it is now."""
    return NodeDescription(
        node.name,
        node.epoch,
        node.writer is not None,
        0 if node.writer is None else len(node.writer.unconfirmed),
        tuple(
            TopicDescription(
                topic,
                manager.number,
                tuple(sorted(manager.group | {topic})),
                manager.path,
                len(manager.registry),
                len(manager.under_way),
            )
            for topic, manager in sorted(node.managers.items())
        ),
    )
