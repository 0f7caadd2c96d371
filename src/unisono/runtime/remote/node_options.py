"""What can be chosen about a node process."""

from __future__ import annotations

import msgspec

from unisono.engines.links import LinkSettings
from unisono.engines.takeover.settings import NodeSettings
from unisono.engines.topic_managers.settings import ManagerSettings
from unisono.runtime.remote.host import LINKS

RETAIN_RECORDS = 1_000_000  # of the past, unless somebody wants more or less
RETAIN_S = 7 * 24 * 3600.0


class NodeOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Every bound and every choice of a node process, by name."""

    beat_s: float = 0.25
    suspect_s: float = 2.0  # a node that gave no sign of life for so long is taken for dead
    node: NodeSettings = NodeSettings(
        plan="forest",
        lane_records_max=20_000,
        lane_records_kept=2_000,
        retain_records=RETAIN_RECORDS,
        retain_s=RETAIN_S,
    )
    managers: ManagerSettings = ManagerSettings(ring_events=16384)
    links: LinkSettings = msgspec.structs.replace(
        LINKS, queue_max=4096, peers_max=32768, family_max=8192, silent_s=60.0, answers_max=16
    )


DEFAULTS = NodeOptions()
