"""unisono: every subscriber hears the same order, across topics, without a global sequencer."""

from unisono.model.errors import (
    BackPressureError,
    ClosedError,
    ConfigError,
    DeletedError,
    FilterError,
    ForgottenError,
    FrameError,
    GapError,
    HandlerTimeoutError,
    HeldError,
    HistoryError,
    JournalError,
    LateError,
    LeaseError,
    PayloadError,
    PlanError,
    QuotaError,
    ServerError,
    SlowConsumerError,
    StampError,
    TopicError,
    UnconfirmedError,
    UnisonoError,
    VersionError,
)
from unisono.model.event import Event
from unisono.runtime.bus import Bus
from unisono.runtime.connecting import connect
from unisono.runtime.deadline.settings import Deadlines
from unisono.runtime.receipts import Receipt
from unisono.runtime.subscription import Subscription

__version__ = "0.1.0"

__all__ = [
    "BackPressureError",
    "Bus",
    "ClosedError",
    "ConfigError",
    "Deadlines",
    "DeletedError",
    "Event",
    "FilterError",
    "ForgottenError",
    "FrameError",
    "GapError",
    "HandlerTimeoutError",
    "HeldError",
    "HistoryError",
    "JournalError",
    "LateError",
    "LeaseError",
    "PayloadError",
    "PlanError",
    "QuotaError",
    "Receipt",
    "ServerError",
    "SlowConsumerError",
    "StampError",
    "Subscription",
    "TopicError",
    "UnconfirmedError",
    "UnisonoError",
    "VersionError",
    "__version__",
    "connect",
]
