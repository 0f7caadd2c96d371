"""Every error a user can meet, by name. Messages read as a sentence and say what to do."""

from __future__ import annotations


class UnisonoError(Exception):
    """The root of everything unisono raises on purpose."""


class ConfigError(UnisonoError, ValueError):
    """An option is unknown, out of range, or contradicts another."""


class TopicError(UnisonoError, ValueError):
    """A topic name or pattern is not one."""


class PayloadError(UnisonoError, ValueError):
    """A payload cannot be encoded, decoded, or is over the limit."""


class FilterError(UnisonoError, ValueError):
    """A filter is not one, can never match, or is over a bound; the message shows the place."""

    def __init__(self, message: str, text: str = "", at: int | None = None) -> None:
        self.line = self.column = 0
        super().__init__(message if at is None else f"{message}\n{self._shown(text, at)}")

    def _shown(self, text: str, at: int) -> str:
        """The line, and a caret under the place; of a long line, what is around it."""
        before = text[:at]
        begin = before.rfind("\n") + 1
        self.line, self.column = before.count("\n") + 1, at - begin + 1
        line = text[begin:].split("\n", 1)[0]
        first = max(0, at - begin - 60)
        shown = "".join(c if c.isprintable() else " " for c in line[first : first + 100])
        caret = " " * (at - begin - first) + "^"
        return f"  line {self.line}, column {self.column}:\n    {shown}\n    {caret}"


class FrameError(UnisonoError, ValueError):
    """Bytes from the wire are not a frame this version understands."""


class VersionError(FrameError):
    """Somebody is of a release that this one does not work with; upgrade release by release."""


class StampError(UnisonoError, ValueError):
    """A stamp contradicts what its topic's manager could have written."""


class PlanError(UnisonoError, ValueError):
    """A sequencing plan breaks one of its three laws (C1, C2, C3)."""


class ClosedError(UnisonoError, RuntimeError):
    """The bus or the subscription is closed."""


class LeaseError(UnisonoError):
    """A subscription was not heard of for so long that the others went on without it."""

    def __init__(self, subscription: str, epoch: int) -> None:
        super().__init__(
            f"subscription '{subscription}' was silent for too long: epoch {epoch} began without it"
        )


class DeletedError(UnisonoError):
    """An operator has deleted the topic: it takes no more events, and its name is not given again."""


class QuotaError(UnisonoError):
    """A client asked for more than it may have: topics, patterns, new topics in a minute."""


class GapError(UnisonoError):
    """A subscription with on_gap="fail" met a gap it could not close."""


class HeldError(UnisonoError):
    """The place of a durable subscriber is held by another session, or was taken over by one."""


class SlowConsumerError(UnisonoError):
    """A subscription fell too far behind and its `slow` policy ended it."""


class BackPressureError(UnisonoError):
    """Too many events are waiting to be sent; `await bus.flush()` makes room."""


class HandlerTimeoutError(UnisonoError, TimeoutError):
    """A handler ran longer than its `handler_timeout`."""


class LateError(UnisonoError, TimeoutError):
    """The deadline of an event was over before anybody could be told of it."""


class UnconfirmedError(UnisonoError, TimeoutError):
    """A publish was not confirmed in time; retrying with the same id is safe."""


class ForgottenError(UnisonoError):
    """A broker no longer has what it had confirmed to keep, for instance after a restart without a disk."""


class HistoryError(UnisonoError, ValueError):
    """A history or journal is not readable as one."""


class JournalError(UnisonoError, OSError):
    """A journal cannot be written or found: the disk is full, the folder is not there or not ours."""


class ServerError(UnisonoError, RuntimeError):
    """The bundled server, or a process beside it, cannot be started or does not stay up."""
