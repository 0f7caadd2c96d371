"""The bundled NATS server: started, watched, restarted, stopped; who may do what on it."""

from unisono.server.auth import Credentials
from unisono.server.bundled import BundledServer
from unisono.server.child import Child, Restarts
from unisono.server.cluster import BundledCluster
from unisono.server.settings import ServerSettings

__all__ = ["BundledCluster", "BundledServer", "Child", "Credentials", "Restarts", "ServerSettings"]
