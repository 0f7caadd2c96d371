"""What two neighbours want from each other, kept alike at both ends though messages are lost.

Each end counts the changes of what it wants in a session of its own, and sends again what is not confirmed. A session
begins with an empty set: when the link is made, when the other end has forgotten the former one, and when changes pile up.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from unisono.engines.epidemic.messages import Interests, Noted, Session
from unisono.engines.epidemic.patterns import Key, Pattern
from unisono.engines.epidemic.settings import DispatcherSettings
from unisono.engines.epidemic.trails import Tracker, Trail

BEGIN = (True, "", 0.0)  # the first change of a session
WANTED_MS_MAX = 60_000  # longer is not told


class Link:
    """This end of a link to a neighbour."""

    def __init__(self, session: Session, trail: int, settings: DispatcherSettings) -> None:
        self.settings = settings
        self.wanted: dict[Key, Pattern] = {}  # by the neighbour: it leads there
        self.since: dict[Key, float] = {}
        self.heard: Session | None = None
        self.heard_up_to = 0
        self.trail = Trail(trail, settings.beacons, settings.trail_steps_max)
        self.tracker = Tracker(settings.trail_steps_max)
        self.ask_at: float | None = None  # for steps that were missed
        self.begin(session, {}, {})

    def begin(self, session: Session, mine: dict[Key, Pattern], since: Mapping[Key, float]) -> None:
        """Tell the neighbour from the beginning what is wanted."""
        self.session = session
        self.told = dict(mine)
        self.confirmed = 0
        self._changes = deque([BEGIN, *((True, pattern.text, since[key]) for key, pattern in mine.items())])
        self.resend_at: float | None = float("-inf")

    @property
    def unconfirmed(self) -> int:
        """Changes that the neighbour may not know of."""
        return len(self._changes)

    def want(self, mine: dict[Key, Pattern], since: Mapping[Key, float]) -> bool:
        """From now on this is wanted of the neighbour; False if too many changes are on their way: begin again."""
        if self.told.keys() == mine.keys():
            return True
        for key in [key for key in self.told if key not in mine]:
            self._changes.append((False, self.told.pop(key).text, 0.0))
        for key, pattern in mine.items():
            if key not in self.told:
                self.told[key] = pattern
                self._changes.append((True, pattern.text, since[key]))
        self.resend_at = float("-inf")
        return self.unconfirmed <= self.settings.unconfirmed_max

    def outgoing(self, now: float) -> Interests | None:
        """What is due to be told, again or for the first time."""
        if self.resend_at is None or self.resend_at > now:
            return None
        if not self._changes:
            self.resend_at = None
            return None
        self.resend_at = now + self.settings.resend_s
        some = zip(self._changes, range(self.settings.changes_max), strict=False)
        few = tuple((is_wanted, text, _age_ms(since, now)) for (is_wanted, text, since), _ in some)
        return Interests(self.session, self.confirmed + 1, few, self.heard)

    def confirm(self, noted: Noted) -> bool:
        """The neighbour knows so much; False if it knows less than it once did: begin again."""
        if noted.session != self.session or (self.heard is not None and noted.by < self.heard):
            return True
        if noted.up_to < self.confirmed:
            return noted.up_to > 0
        news = min(noted.up_to - self.confirmed, len(self._changes))
        for _ in range(news):
            self._changes.popleft()
        self.confirmed += news
        if news and self._changes:
            self.resend_at = float("-inf")
        return True

    def opens(self, interests: Interests) -> bool:
        """Whether this begins a session: then all that was known before it is void."""
        return self.heard is None or interests.session > self.heard

    def hear(self, interests: Interests) -> list[tuple[bool, str, int]]:
        """The changes that are new, in order."""
        session = interests.session
        if self.heard is None or session > self.heard:
            self.heard, self.heard_up_to = session, 0
        if session < self.heard or interests.first > self.heard_up_to + 1:
            return []
        news = list(interests.changes[self.heard_up_to + 1 - interests.first :])
        self.heard_up_to += len(news)
        return [change for change in news if change[1]]

    def is_forgotten(self, interests: Interests) -> bool:
        """Whether the neighbour once confirmed our session and knows nothing of it now."""
        return self.confirmed > 0 and interests.knows != self.session

    def noted(self) -> Noted | None:
        """What to confirm."""
        return None if self.heard is None else Noted(self.heard, self.heard_up_to, self.session)

    def picture(self) -> tuple[object, ...]:
        """Equal for ends that will say the same."""
        return (
            tuple(sorted(self.since.items())),
            tuple(sorted(self.told)),
            self.session,
            self.heard,
            self.heard_up_to,
            self.confirmed,
            tuple(self._changes),
            self.resend_at,
            self.trail.picture(),
            self.tracker.picture(),
            self.ask_at,
        )


def _age_ms(since: float, now: float) -> int:
    return min(WANTED_MS_MAX, max(0, round((now - since) * 1000)))
