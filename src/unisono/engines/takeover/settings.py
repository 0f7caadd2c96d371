"""Every bound and every choice of a node, by name."""

from __future__ import annotations

import msgspec

from unisono.engines.takeover.control import PlanKind, Sequencer
from unisono.engines.takeover.volumes import Retention


class NodeSettings(msgspec.Struct, frozen=True):
    """How long a node waits for whom."""

    plan: PlanKind = "line"
    sequencer: Sequencer | None = None  # None: as the system is; one that is begun: "topics"
    tells_first: bool = False  # nobody else sees what is stored: events are told of before they are
    append_s: float = 0.5  # without an answer from its lane the writer looks for itself
    prepare_s: float = 0.3  # how long a planned epoch waits for what is under way
    frozen_s: float = 1.0  # a node prepared for an epoch that does not come goes on after this
    finish_s: float = 1.0  # an epoch decided by another is finished by anybody after this
    retry_s: float = 0.5  # what a finisher asked for is asked for again after this
    look_s: float = 1.0  # how often a node that waits for news looks at the control record
    lease_s: float = 10.0  # a subscriber that has not reported for so long is gone
    stale_share: float = 0.25  # an epoch is planned when so many registrations are no longer true
    queue_max: int = 65536  # messages kept while frozen or before their epoch has begun
    queue_bytes_max: int = 64 * 1024 * 1024  # and roughly how much of them
    event_bytes_max: int = 0  # an event with its stamp; 0: no limit
    # How much there may be, and who may ask for it.
    topics_max: int = 10_000
    component_topics_max: int = 1_000  # topics of one component on one node; beyond it, it is split
    subscriber_topics_max: int = 1_000  # topics one subscriber may hold, those of its patterns too
    patterns_max: int = 64  # patterns one subscriber may hold
    holders_max: int = 10_000  # subscribers that hold patterns
    views_max: int = 10_000
    subscribers_max: int = 100_000  # subscribers whose reports are remembered
    client_topics_per_minute: int = 1_000  # new topics one client may ask for
    client_epochs_per_minute: int = 240  # epochs one client may ask for
    places_max: int = 10_000  # durable subscribers
    place_bytes_max: int = 256 * 1024  # what is kept of one of them
    node_names: str = ""  # how the names of nodes begin; whoever is called otherwise is never counted as one
    # How long lanes may be: what comes beyond is reason for the next epoch, so that reading stays short.
    lane_records_max: int = 50_000  # in one epoch
    lane_events_max: int = 100_000  # the same of events, of which a record may hold many
    lane_bytes_max: int = 64 * 1024 * 1024  # and roughly how many bytes of them; 0: no limit
    lane_records_kept: int = 10_000  # events that are kept for repair when a lane is truncated
    archive_epochs: int = 64  # a lane that was not written for so many epochs is not read any more
    # How much of the past is kept for those who ask for it.
    retain_records: int = (
        0  # events, in all lanes together; 0: the first node makes a system that keeps nothing
    )
    retain_s: float = 0.0  # what is older may go; 0.0: however old it is

    @property
    def retention(self) -> Retention:
        """How much of the past is kept at least."""
        return Retention(self.retain_records, self.retain_s)
