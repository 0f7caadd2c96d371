"""Events by content over a tree of dispatchers that loses, and what was lost brought back by gossip (paper 002).

A `Dispatcher` lays routes for subscriptions on an unrooted tree and sends events along them; what the tree loses is
found and fetched by push, by pull towards subscribers or the publisher, or by all of them. A `TreeKeeper` keeps the
tree itself in one piece. Promised: nothing made up, nothing twice, only what matches, memory within named bounds.
Not promised: an order, and anything about what every cache has let go. docs/protocols/epidemic.md has the rest.
"""

from unisono.engines.epidemic.dispatcher import Dispatcher
from unisono.engines.epidemic.settings import DispatcherSettings, TreeSettings
from unisono.engines.epidemic.tree import TreeKeeper

__all__ = ["Dispatcher", "DispatcherSettings", "TreeKeeper", "TreeSettings"]
