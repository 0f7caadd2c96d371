"""Datagrams between peers that share a key: who sent them, that they are new, and that nobody is flooded by our answers."""

from unisono.engines.datagrams.guard import Address, Guard, GuardSettings, Met, Opened, Outgoing

__all__ = ["Address", "Guard", "GuardSettings", "Met", "Opened", "Outgoing"]
