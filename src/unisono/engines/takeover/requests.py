"""What others ask of the next epoch, gathered until it is decided, and who is told that it may not have it.

Anybody may ask for topics and patterns, within bounds. Nodes, and operators through a node of theirs, may ask for
anything. Whoever asks for more than it may have hears `Refused`; what is asked for beyond the bounds of one epoch
is dropped without a word, and whoever still wants it asks again.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable

import msgspec

from unisono.engines.takeover.control import Control
from unisono.engines.takeover.patterns import matching
from unisono.engines.takeover.settings import NodeSettings
from unisono.engines.takeover.views import view_of
from unisono.model.errors import TopicError
from unisono.model.frames import Refused, Registration, Replan
from unisono.model.ids import check_pattern, check_topic, is_pattern

NAMES_MAX = 20_000  # topics named in the wishes of one epoch
WEIGHT_MAX = 1_000_000
MINUTE_S = 60.0


class Requests:
    """The wishes for one epoch, and what each client has used of its quota in this minute."""

    def __init__(self, settings: NodeSettings) -> None:
        self.settings = settings
        self.wants: dict[tuple[str, ...], None] = {}
        self.topics: dict[str, None] = {}  # new ones
        self.patterns: dict[str, Registration] = {}
        self.views: dict[str, Registration] = {}
        self.drop_views: dict[str, None] = {}
        self.close: dict[str, None] = {}
        self.rank: tuple[str, ...] = ()
        self.alive: dict[str, None] = {}
        self.moves: dict[str, str] = {}
        self.leaving: dict[str, None] = {}
        self.asked: frozenset[str] = frozenset()  # clients that have asked for this epoch
        self.created: dict[str, int] = {}  # client -> new topics in this minute
        self.planned: dict[str, int] = {}  # client -> epochs in this minute
        self.minute_ends = 0.0

    def take(
        self, replan: Replan, control: Control, now: float, *, trusted: bool
    ) -> tuple[bool, Refused | None]:
        """Note what is asked for: whether that is reason for an epoch, and what of it cannot be."""
        if now >= self.minute_ends:
            self.minute_ends = now + MINUTE_S
            self.created.clear()
            self.planned.clear()
        new, refused = self._new_topics(replan, control)
        held = replan.patterns
        if held is not None and (reason := self._fault(held, replan.asks, control, trusted=trusted)):
            refused, replan = Refused(reason), msgspec.structs.replace(replan, patterns=None)
        if replan.view is not None:
            view = view_of(replan.view.subscriber, replan.view.topics)
            if reason := self._view_fault(view, control):
                refused = Refused(reason)
            replan = msgspec.structs.replace(replan, view=None if reason else view)
        due, client = self._note(replan, new, control), client_of(replan.asks)
        if due and not trusted and client not in self.asked:
            if self.planned.get(client, 0) >= self.settings.client_epochs_per_minute:
                return False, Refused(f"'{client}' has asked for too many epochs in this minute", new)
            self.planned[client] = self.planned.get(client, 0) + 1
            self.asked |= {client}
        if replan.alive and (trusted or replan.alive == replan.asks):
            due = self._take_alive(replan.alive, control) or due
        if trusted:
            due = self._take_trusted(replan, control) or due
        return due, refused

    def _note(self, replan: Replan, new: tuple[str, ...], control: Control) -> bool:
        """Keep what subscribers and publishers ask for, while there is room."""
        if sum(map(len, self.wants)) + len(self.topics) + len(replan.wants) + len(new) > NAMES_MAX:
            return True
        self.topics |= dict.fromkeys(new)
        if new:
            client = client_of(replan.asks)
            self.created[client] = self.created.get(client, 0) + len(new)
        named = all(topic in control.owner or topic in self.topics for topic in replan.wants)
        due = bool(self.topics.keys() & {*replan.topics, *replan.wants})
        if replan.wants and named and not control.is_light(replan.wants):
            self.wants[replan.wants] = None
            due = True
        held = replan.patterns
        if held is not None and _is_newer(held, control.patterns.get(held.subscriber)):
            if _is_newer(held, self.patterns.get(held.subscriber)):
                self.patterns[held.subscriber] = held
            due = True
        if replan.view is not None and replan.view.subscriber not in control.views:
            self.views[replan.view.subscriber] = replan.view
            due = True
        return due

    def _new_topics(self, replan: Replan, control: Control) -> tuple[tuple[str, ...], Refused | None]:
        """The topics that have to be made and may be, and why others may not: a subscriber wants all or none."""
        settings, made = self.settings, len(control.owner) + len(self.topics)
        if len(replan.wants) > settings.subscriber_topics_max:
            limit = settings.subscriber_topics_max
            return (), Refused(f"{len(replan.wants)} topics are over the limit of {limit} for one subscriber")
        named = dict.fromkeys((*replan.topics, *replan.wants))
        new = [topic for topic in named if topic not in control.owner and topic not in self.topics]
        for topic in new:
            try:
                check_topic(topic)
            except TopicError as error:
                return (), Refused(str(error), (topic,))
        client = client_of(replan.asks)
        for room, reason in (
            (settings.topics_max - made, f"there are no more than {settings.topics_max} topics"),
            (
                settings.client_topics_per_minute - self.created.get(client, 0),
                f"'{client}' may make {settings.client_topics_per_minute} topics in a minute",
            ),
        ):
            if len(new) > room:
                kept = max(0, room) if not replan.wants else 0
                return tuple(new[:kept]), Refused(reason, tuple(new[kept:]))
        return tuple(new), None

    def _fault(self, held: Registration, asks: str, control: Control, *, trusted: bool) -> str:
        """What is wrong with somebody's patterns, if anything."""
        settings = self.settings
        if held.subscriber != asks and not trusted:
            return f"'{asks}' cannot ask for '{held.subscriber}'"
        if (count := sum(map(is_pattern, held.topics))) > settings.patterns_max:
            return f"{count} patterns are over the limit of {settings.patterns_max}"
        if len(held.topics) - count > settings.subscriber_topics_max:
            limit = settings.subscriber_topics_max
            return f"{len(held.topics) - count} topics are over the limit of {limit} for one subscriber"
        known = control.patterns.keys() | self.patterns.keys()
        if held.subscriber not in known and len(known) >= settings.holders_max:
            return f"there are no more than {settings.holders_max} subscribers with patterns"
        return self._names_fault(held, control)

    def _names_fault(self, held: Registration, control: Control) -> str:
        if not 1 <= held.weight <= WEIGHT_MAX:
            return "that is not a registration of patterns"
        try:
            for pattern in held.topics:
                check_pattern(pattern)
        except TopicError as error:
            return str(error)
        return over(held, control.plan.rank, self.settings)

    def _view_fault(self, view: Registration, control: Control) -> str:
        """Why a view cannot be made, if it cannot; one that is there as it is asked for need not be."""
        settings, name = self.settings, view.subscriber
        try:
            check_topic(name)
        except TopicError as error:
            return str(error)
        known = dict(control.views) | self.views
        if name in known and known[name].topics != view.topics:
            has = ", ".join(known[name].topics)
            return f"there is one of this name, with other topics ({has}); remove it first, or choose another name"
        if name not in known and len(known) >= settings.views_max:
            return f"there are no more than {settings.views_max} views"
        if not 0 < len(view.topics) <= settings.subscriber_topics_max:
            return f"a view has between 1 and {settings.subscriber_topics_max} topics and patterns"
        return self._names_fault(view, control)

    def _take_trusted(self, replan: Replan, control: Control) -> bool:
        if replan.rank:
            self.rank = replan.rank
        close = [topic for topic in replan.close if topic in control.owner and topic not in control.closed]
        self.close |= dict.fromkeys(close)
        is_known = replan.drop_view in control.views
        if is_known:
            self.drop_views[replan.drop_view] = None
        if replan.leaving in control.nodes:
            self.leaving[replan.leaving] = None
        self.moves |= {topic: node for topic, node in replan.moves.items() if topic in control.owner}
        asks_for_topics = replan.wants or replan.topics or replan.patterns or replan.view
        asks_to_come = replan.alive
        is_due = bool(replan.rank or replan.leaving or replan.moves or is_known or close)
        return is_due or not (asks_for_topics or asks_to_come or replan.drop_view or replan.close)

    def _take_alive(self, node: str, control: Control) -> bool:
        """A node is there and not counted: dead, it was thought, or new."""
        if node in control.live or not node.startswith(self.settings.node_names):
            return False
        self.alive[node] = None
        return True

    @property
    def is_due(self) -> bool:
        """Whether somebody waits for the next epoch."""
        named = self.wants or self.topics or self.patterns or self.rank
        return bool(
            named or self.views or self.drop_views or self.close or self.alive or self.moves or self.leaving
        )

    def clear(self) -> None:
        """An epoch has begun: what was asked for is in it, or will be asked for again."""
        self.wants, self.topics, self.patterns, self.alive = {}, {}, {}, {}
        self.moves, self.leaving, self.views, self.drop_views = {}, {}, {}, {}
        self.close = {}
        self.rank, self.asked = (), frozenset()

    def copy(self) -> Requests:
        """An independent twin."""
        twin = object.__new__(type(self))
        for name, value in self.__dict__.items():
            setattr(twin, name, dict(value) if isinstance(value, dict) else value)
        return twin

    def state(self) -> Hashable:
        """Equal exactly when two would behave alike from now on; quotas are far away where this is compared."""
        patterns = tuple(sorted((name, held.version, held.topics) for name, held in self.patterns.items()))
        moves = tuple(sorted(self.moves.items()))
        views = (tuple(self.views.values()), tuple(self.drop_views), tuple(self.close))
        return (
            views, tuple(self.wants), tuple(self.topics), patterns, self.rank, tuple(self.alive), moves, tuple(self.leaving)
        )  # fmt: skip


def client_of(address: str) -> str:
    """Whose quota something counts on: all parts of a client (`anna`, `anna.sub1`) share one."""
    return address.partition(".")[0]


def over(held: Registration, topics: Iterable[str], settings: NodeSettings) -> str:
    """Why somebody's patterns stand for too many topics, if they do."""
    count = len(matching(held.topics, topics))
    if count <= settings.subscriber_topics_max:
        return ""
    return f"its patterns stand for {count} topics; the limit is {settings.subscriber_topics_max}"


def _is_newer(held: Registration, known: Registration | None) -> bool:
    return known is None or known.version < held.version
