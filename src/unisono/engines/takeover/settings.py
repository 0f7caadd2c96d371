"""Every bound and every choice of a node, by name."""

from __future__ import annotations

import msgspec

from unisono.engines.takeover.control import PlanKind


class NodeSettings(msgspec.Struct, frozen=True):
    """How long a node waits for whom."""

    plan: PlanKind = "line"
    append_s: float = 0.5  # without an answer from its lane the writer looks for itself
    prepare_s: float = 0.3  # how long a planned epoch waits for what is under way
    frozen_s: float = 1.0  # a node prepared for an epoch that does not come goes on after this
    finish_s: float = 1.0  # an epoch decided by another is finished by anybody after this
    retry_s: float = 0.5  # what a finisher asked for is asked for again after this
    look_s: float = 1.0  # how often a node that waits for news looks at the control record
    lease_s: float = 10.0  # a subscriber that has not reported for so long is gone
    stale_share: float = 0.25  # an epoch is planned when so many registrations are no longer true
    queue_max: int = 65536  # messages kept while frozen or before their epoch has begun
