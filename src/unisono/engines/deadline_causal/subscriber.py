"""A subscriber: takes events from its broker and from other subscribers, in causal order, none too late.

What it publishes goes through its broker, after everything it has delivered. It sends one bundle at a time and the
next when that is answered, or when what was in it can no longer be of use to anybody: so nothing of its own is
overtaken, also when it has gone to another broker meanwhile.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from unisono.engines.deadline_causal.choosing import choose
from unisono.engines.deadline_causal.effects import (
    NO_ANSWER,
    NO_ROOM,
    NO_TIME,
    Accept,
    Effect,
    Heard,
    Input,
    Move,
    Publish,
    Refuse,
    Send,
)
from unisono.engines.deadline_causal.events import Event, Key, trim
from unisono.engines.deadline_causal.frames import (
    Attach,
    Detach,
    Frame,
    Have,
    News,
    Submission,
    Submit,
    Submitted,
)
from unisono.engines.deadline_causal.gossip import compact, unpack
from unisono.engines.deadline_causal.holdback import HoldBack
from unisono.engines.deadline_causal.seats import NEWS_MAX
from unisono.engines.deadline_causal.settings import CausalSettings
from unisono.engines.deadline_causal.stamps import Past, forget, merge
from unisono.engines.deadline_causal.wire import read_news, write_news
from unisono.engines.inputs import Change
from unisono.model.frames import Publication

BUNDLE_MAX = 64  # events submitted in one frame
ASK_BROKER_ROUNDS = 4  # in every so many rounds the broker is asked and nobody else


class Subscriber:
    """One subscriber."""

    def __init__(self, name: str, broker: str, settings: CausalSettings, topics: Iterable[str] = ()) -> None:
        self.name = name
        self.broker = broker
        self.settings = settings
        self.round = -1
        self.attached = -settings.absent  # the round in which its broker was last told
        self.hold = HoldBack(settings, topics)
        self.own: Past = {}  # what we published last
        self.peers: tuple[str, ...] = ()
        self.cache: dict[Key, Event] = {}
        self.fresh: dict[Key, Event] = {}  # came since the last round; handed on in the next
        self.queue: list[tuple[Publication, int, Past]] = []  # each with what was behind us then
        self.under_way: tuple[str, Submit] | None = None
        self.number = 0

    def handle(self, input: Input, now: float) -> list[Effect]:
        """Take one input at time `now`."""
        effects: list[Effect] = []
        if self.settings.round_at(now) > self.round:
            self.round = self.settings.round_at(now)
            effects += self._turn()
        match input:
            case Heard(source, frame):
                effects += self._hear(source, frame)
            case Publish(publication, deadline):
                effects += self._publish(publication, self.settings.last_round(deadline))
            case Change(add, remove):
                self.hold.join(add)
                effects += self.hold.leave(remove, self.round)
                effects.append(self._attach())
            case Move(broker):
                effects += [Send(self.broker, Detach())]
                self.broker = broker
                effects.append(self._attach())
        return effects

    def next_timer(self) -> float | None:
        """When the next round begins."""
        return (self.round + 1) * self.settings.round_s

    # Hearing.

    def _hear(self, source: str, frame: Frame) -> list[Effect]:
        match frame:
            case News():
                if source == self.broker:
                    self.peers = frame.peers or self.peers
                return self._take(self.read(frame))
            case Have(topics, have):
                known = set(unpack(have))
                more = [e for key, e in self.cache.items() if key not in known and e.topic in topics]
                return [self._news(source, more[:NEWS_MAX])] if more else []
            case Submitted(number, stamps):
                return self._hear_submitted(source, number, stamps)
        return []

    def read(self, news: News) -> Iterable[Event]:
        """The events of a frame."""
        return read_news(news, self.settings.palette)

    def _take(self, events: Iterable[Event]) -> list[Effect]:
        new = [e for e in events if e.topic in self.hold.mine and e.key not in self.hold.seen]
        effects: list[Effect] = [*self.hold.take(new, self.round)]
        fresh = {event.key: event for event in new if event.last >= self.round}
        self.cache |= fresh
        trim(self.cache, self.settings.cache_max)
        self.fresh |= fresh
        return effects

    # Publishing.

    def _publish(self, publication: Publication, last: int) -> list[Effect]:
        if last < self.round:
            return [Refuse(publication.id, NO_TIME)]
        if len(self.queue) >= self.settings.pending_max:
            return [Refuse(publication.id, NO_ROOM)]
        last = min(last, self.round + self.settings.lifetime)
        self.queue.append((publication, last, dict(self.hold.known)))
        return self._submit()

    def _submit(self) -> list[Effect]:
        if self.under_way is not None or not self.queue:
            return []
        self.number += 1
        told: Past = {}
        bundle: list[Submission] = []
        for publication, last, known in self.queue[:BUNDLE_MAX]:
            merge(known, self.own)
            new = {stream: stamp for stream, stamp in known.items() if stamp > told.get(stream, 0)}
            told |= new
            bundle.append(
                Submission(publication, last, tuple((*s, stamp) for s, stamp in sorted(new.items())))
            )
        submit = Submit(self.number, tuple(bundle))
        self.queue = self.queue[BUNDLE_MAX:]
        self.under_way = (self.broker, submit)
        return [Send(self.broker, submit)]

    def _hear_submitted(self, source: str, number: int, stamps: tuple[int, ...]) -> list[Effect]:
        if self.under_way is None or (source, number) != (self.under_way[0], self.under_way[1].number):
            return []
        effects: list[Effect] = []
        for submission, stamp in zip(self.under_way[1].bundle, stamps, strict=False):
            publication = submission.publication
            if stamp:
                merge(self.own, {(source, publication.topic): stamp})
            effects.append(Accept(publication.id) if stamp else Refuse(publication.id, NO_TIME))
        self.under_way = None
        return effects + self._submit()

    # Rounds.

    def _turn(self) -> list[Effect]:
        effects: list[Effect] = [*self.hold.pump(self.round)]
        self.cache = {key: event for key, event in self.cache.items() if event.last >= self.round}
        forget(self.own, self.settings.oldest_told(self.round))
        effects += self._hand_on()
        if self.round - self.attached >= self.settings.absent // 4:
            effects.append(self._attach())
        return effects + self._ask() + self._retry()

    def _ask(self) -> list[Effect]:
        """Ask somebody what there is: anybody, but our broker often enough."""
        have = Have(tuple(sorted(self.hold.mine)), compact(self.cache))
        others = () if self.round % ASK_BROKER_ROUNDS == 0 else self.peers
        return [Send(who, have) for who in choose(self.name, self.round, (self.broker, *others), 1)]

    def _hand_on(self) -> list[Effect]:
        events = [event for event in self.fresh.values() if event.last >= self.round]
        self.fresh = {}
        if not events:
            return []
        return [
            self._news(peer, events)
            for peer in choose(self.name, self.round, self.peers, self.settings.fanout)
        ]

    def _retry(self) -> list[Effect]:
        """Send again what has no answer, or give it up: what is of no use to anybody cannot be overtaken."""
        if self.under_way is None:
            return self._submit()
        broker, submit = self.under_way
        if all(submission.last + self.settings.skew < self.round for submission in submit.bundle):
            self.under_way = None
            given_up: list[Effect] = [Refuse(s.publication.id, NO_ANSWER) for s in submit.bundle]
            return given_up + self._submit()
        return [Send(broker, submit)]

    def _attach(self) -> Effect:
        self.attached = self.round
        return Send(self.broker, Attach(tuple(sorted(self.hold.mine))))

    def _news(self, to: str, events: list[Event]) -> Effect:
        palette, oldest = self.settings.palette, self.settings.oldest_told(self.round)
        return Send(to, write_news(events, palette, self.round, oldest))

    def check(self) -> None:
        """Assert its invariants."""
        self.hold.check()

    def copy(self) -> Subscriber:
        """An independent twin."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin.hold, twin.own = self.hold.copy(), dict(self.own)
        twin.cache, twin.fresh, twin.queue = dict(self.cache), dict(self.fresh), list(self.queue)
        return twin

    def state(self) -> Hashable:
        """Equal exactly when two would behave alike from now on."""
        own, cache, fresh = (tuple(sorted(x)) for x in (self.own.items(), self.cache, self.fresh))
        submitted = self.under_way and (self.under_way[0], self.under_way[1].number)
        queue = tuple(publication.id for publication, _, _ in self.queue)
        place = (self.round, self.attached, self.broker, self.peers)
        return (place, own, cache, fresh, queue, self.number, submitted, self.hold.state())
