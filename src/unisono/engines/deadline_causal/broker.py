"""A broker: multicasts events to the brokers of their topics, mends losses by gossip, and serves its subscribers.

What it sends follows everything it has delivered or sent, and everything that whoever published had seen. Its own
events wait in its own hold-back like those of others: a subscriber may have seen what its broker has not.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Mapping

from unisono.engines.deadline_causal.compression import Bases, write
from unisono.engines.deadline_causal.effects import (
    EVERYBODY,
    NO_TIME,
    Accept,
    Effect,
    Heard,
    Input,
    Publish,
    Refuse,
    Send,
)
from unisono.engines.deadline_causal.events import Event, Key, trim
from unisono.engines.deadline_causal.frames import (
    Attach,
    Detach,
    Digest,
    Frame,
    Have,
    Multicast,
    Read,
    Repair,
    Request,
    Sent,
    Submit,
    Submitted,
)
from unisono.engines.deadline_causal.gossip import REST_EVERY, Neighbours, compact, unpack
from unisono.engines.deadline_causal.holdback import Deliver, Discard, HoldBack, Outcome
from unisono.engines.deadline_causal.seats import Seats
from unisono.engines.deadline_causal.settings import CausalSettings
from unisono.engines.deadline_causal.stamps import HybridClock, Past, forget, merge, round_of
from unisono.engines.inputs import Change
from unisono.model.frames import Publication

REPAIRS_MAX = 64  # events in one answer
ANNOUNCES = 2


class Broker:
    """One broker, in one life: in another it has another name."""

    def __init__(
        self,
        name: str,
        settings: CausalSettings,
        topics: Iterable[str] = (),
        contacts: Mapping[str, Iterable[str]] | None = None,
        zone: str = "",
        *,
        multicast: bool = False,
        serves: bool = True,
    ) -> None:
        """`contacts` are other brokers and the topics they are known to have; the rest they tell themselves.

        `multicast` is whether the network reaches everybody with one datagram: then nobody need be known for it;
        `serves`, whether subscribers may sit with it.
        """
        self.name = name
        self.settings = settings
        self.multicast = multicast
        self.serves = serves
        self.round = 0
        self.clock = HybridClock()
        self.hold = HoldBack(settings, topics, settings.reserve)
        self.past: Past = {}  # of what we send next
        self.neighbours = Neighbours(name, zone, settings, contacts or {})
        self.bases = Bases(settings)
        self.cache: dict[Key, Event] = {}  # what may still be of use to somebody
        self.news: deque[tuple[int, Key]] = deque()  # what came since all was told, and in which round
        self.swept = 0  # the round in which all was told
        self.seats = Seats(name, settings)
        self.announces = ANNOUNCES  # rounds in which everybody is told which topics we have
        self.answered: dict[
            str, tuple[Submitted, int]
        ] = {}  # to what subscribers submitted last, and until when

    @property
    def topics(self) -> set[str]:
        """Those it is a broker of."""
        return self.hold.mine

    def handle(self, input: Input, now: float) -> list[Effect]:
        """Take one input at time `now`."""
        effects: list[Effect] = []
        if self.settings.round_at(now) > self.round:
            self.round = self.settings.round_at(now)
            effects += self._turn()
        match input:
            case Publish(publication, deadline):
                effects += self._publish(publication, self.settings.last_round(deadline), {})
            case Heard(source, frame):
                effects += self._hear(source, frame)
            case Change(add, remove):
                self._join(add)
                self.announces = ANNOUNCES
                effects += self._settle(self.hold.leave(remove, self.round))
        return effects

    def next_timer(self) -> float | None:
        """When the next round begins."""
        return (self.round + 1) * self.settings.round_s

    def _join(self, topics: Iterable[str]) -> None:
        if not self.topics.issuperset(topics):
            self.hold.join(topics)
            self.announces = ANNOUNCES

    # Sending.

    def _publish(self, publication: Publication, last: int, context: Past) -> list[Effect]:
        if last < self.round:
            return [Refuse(publication.id, NO_TIME)]
        event = self.stamp(publication, last, context)
        members = self.neighbours.of(event.topic)
        is_base = bool(members) and self.bases.offer(event.topic, event.stamp, event.past)
        matrix = self.bases.write(event.topic, event.stamp, event.past, members)
        sent = Sent(event.broker, event.topic, event.stamp, event.last, matrix, publication)
        self._keep(event)
        trim(self.cache, self.settings.cache_max)
        effects: list[Effect] = [Accept(publication.id)]
        frame = Multicast(sent, is_base)
        effects += [Send(member, frame) for member in ([EVERYBODY] if self.multicast else members)]
        return effects + self._settle(self.hold.take([event], self.round))

    def stamp(self, publication: Publication, last: int, context: Past) -> Event:
        """Give an event its stamp and its past, which does not contain it."""
        merge(self.past, context)
        self.clock.observe(max(context.values(), default=0))
        stamp = self.clock.next(self.round)
        forget(self.past, self.settings.oldest_told(round_of(stamp)))
        last = min(last, round_of(stamp) + self.settings.lifetime)
        event = Event(self.name, publication.topic, stamp, last, dict(self.past), publication)
        self.past[event.stream] = stamp
        return event

    # Hearing.

    def _hear(self, source: str, frame: Frame) -> list[Effect]:
        self.neighbours.notice(source, self.round)
        match frame:
            case Multicast(sent, is_base):
                return self._hear_multicast(source, sent, is_base)
            case Repair(events):
                return self._take(events)
            case Read(topic, stamp):
                self.bases.confirm(topic, stamp, source, self.neighbours.of(topic))
            case Digest():
                return self._hear_digest(source, frame)
            case Request(keys):
                found = [self.cache[key] for key in keys[:REPAIRS_MAX] if key in self.cache]
                return [Send(source, Repair(tuple(map(_whole, found))))] if found else []
            case Attach(topics):
                self._join(topics)
                self.seats.attach(source, topics, self.round)
            case Detach():
                self.seats.detach(source)
            case Have(topics, have):
                self.seats.hear(source, self.round)
                return self.seats.answer(source, topics, unpack(have), self.round)
            case Submit():
                return self._hear_submit(source, frame)
        return []

    def _hear_multicast(self, source: str, sent: Sent, is_base: bool) -> list[Effect]:
        past = self._past_of(sent)
        if past is None:
            return []  # as if it had been lost: gossip brings it whole
        effects: list[Effect] = []
        if is_base:
            self.bases.keep((sent.broker, sent.topic), sent.stamp, past)
            effects.append(Send(source, Read(sent.topic, sent.stamp)))
        return effects + self._take([sent])

    def _past_of(self, sent: Sent) -> Past | None:
        past = self.bases.read((sent.broker, sent.topic), sent.stamp, sent.matrix)
        return past if past is not None and max(past.values(), default=0) < sent.stamp else None

    def _take(self, sent: Iterable[Sent]) -> list[Effect]:
        events = [
            Event(one.broker, one.topic, one.stamp, one.last, past, one.publication)
            for one in sent
            if (past := self._past_of(one)) is not None
        ]
        outcomes = self.hold.take(events, self.round)
        refused = {outcome.event.key for outcome in outcomes if isinstance(outcome, Discard)}
        for event in events:
            if event.topic in self.topics and event.key not in refused:
                self.clock.observe(event.stamp)
                self._keep(event)
        trim(self.cache, self.settings.cache_max)
        return self._settle(outcomes)

    def _keep(self, event: Event) -> None:
        """Have an event for others."""
        if event.key not in self.cache:
            self.cache[event.key] = event
            if self.settings.sweep > 1:
                self.news.append((self.round, event.key))

    def _hear_digest(self, source: str, digest: Digest) -> list[Effect]:
        self.neighbours.hear(source, digest, self.round)
        oldest, seen, topics = self.settings.oldest(self.round), self.hold.seen, self.topics
        keys = [
            key for key in unpack(digest.have) if key not in seen and key[1] in topics and key[2] >= oldest
        ]
        return [Send(source, Request(tuple(keys[:REPAIRS_MAX])))] if keys else []

    def _hear_submit(self, source: str, submit: Submit) -> list[Effect]:
        answer, until = self.answered.get(source, (Submitted(0, ()), 0))
        effects: list[Effect] = []
        if submit.number > answer.number:
            newest = self.round + self.settings.skew
            stamps: list[int] = []
            context: Past = {}
            for submission in submit.bundle:
                publication, last, seen = submission.publication, submission.last, submission.context
                merge(context, {(b, x): stamp for b, x, stamp in seen if round_of(stamp) <= newest})
                effects += self._publish(publication, last, context)
                stamps.append(0 if last < self.round else self.past[self.name, publication.topic])
            answer = Submitted(submit.number, tuple(stamps))
            # As long as the question can come again, and no longer, whatever deadlines are named.
            asked = max([0, *(submission.last for submission in submit.bundle)])
            longest = newest + self.settings.lifetime
            self.answered[source] = (answer, max(until, min(asked, longest) + self.settings.skew))
        return [*effects, Send(source, answer)] if answer.number == submit.number else effects

    # What was decided, and rounds.

    def _settle(self, outcomes: list[Outcome]) -> list[Effect]:
        """Tell the application, and subscribers, what was delivered; what we send next follows it."""
        delivered = [outcome.event for outcome in outcomes if isinstance(outcome, Deliver)]
        for event in delivered:
            merge(self.past, event.past)
            merge(self.past, {event.stream: event.stamp})
        return [*outcomes, *self.seats.push(delivered, self.round)] if self.serves else [*outcomes]

    def _turn(self) -> list[Effect]:
        """A round has begun."""
        effects = self._settle(self.hold.pump(self.round))
        if self.round - self.swept >= self.settings.sweep:
            self.swept = self.round
            self.cache = {key: event for key, event in self.cache.items() if event.last >= self.round}
        while self.news and self.round - self.news[0][0] >= self.settings.sweep:
            self.news.popleft()
        forget(self.past, self.settings.oldest_told(self.round))
        self.neighbours.forget(self.round)
        self.bases.forget(self.round)
        effects += self.seats.turn(self.round) if self.serves else []
        self.answered = {who: (a, until) for who, (a, until) in self.answered.items() if until >= self.round}
        return effects + self._gossip() + self._ask()

    def _gossip(self) -> list[Effect]:
        """Tell some others what we have: all of it after a sweep, else what is new."""
        is_all = self.swept == self.round
        digest = Digest(
            self.neighbours.zone,
            tuple(sorted(self.topics)),
            self.neighbours.heard,
            compact(self.cache if is_all else [key for _, key in self.news if key in self.cache]),
        )
        partners = self.neighbours.partners(self.topics, self.round)
        if self.announces:
            self.announces -= 1
            partners = sorted({*partners, *([EVERYBODY] if self.multicast else self.neighbours.names)})
        elif self.multicast and (is_all if self.settings.sweep > 1 else self.round % REST_EVERY == 0):
            partners = [*partners, EVERYBODY]
        return [Send(partner, digest) for partner in partners]

    def _ask(self) -> list[Effect]:
        """Ask for what is waited for: who sent it, and in other rounds somebody else who has the topic."""
        asked: dict[str, list[Key]] = {}
        for stream, stamp in sorted(self.hold.wanted(self.round).items()):
            who = self.neighbours.who_may_have(*stream, self.round)
            if who:
                asked.setdefault(who, []).append((*stream, stamp))
        return [Send(who, Request(tuple(keys[:REPAIRS_MAX]))) for who, keys in asked.items()]

    def check(self) -> None:
        """Assert its invariants."""
        self.hold.check()
        oldest = self.settings.oldest_told(round_of(self.clock.last))
        for stream, stamp in self.hold.known.items():
            assert stamp <= self.past.get(stream, 0) or stamp < oldest, (
                f"what we send does not follow {stream}"
            )

    def copy(self) -> Broker:
        """An independent twin."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin.clock, twin.hold, twin.past = HybridClock(self.clock.last), self.hold.copy(), dict(self.past)
        twin.neighbours, twin.bases = self.neighbours.copy(), self.bases.copy()
        twin.cache, twin.seats, twin.answered = dict(self.cache), self.seats.copy(), dict(self.answered)
        twin.news = deque(self.news)
        return twin

    def state(self) -> Hashable:
        """Equal exactly when two would behave alike from now on."""
        past, cache = tuple(sorted(self.past.items())), tuple(sorted(self.cache))
        mine = (
            self.round,
            self.announces,
            self.swept,
            self.clock.last,
            past,
            cache,
            tuple(sorted(self.answered.items())),
        )
        return (mine, self.hold.state(), self.neighbours.state(), self.bases.state(), self.seats.state())


def _whole(event: Event) -> Sent:
    return Sent(event.broker, event.topic, event.stamp, event.last, write(event.past), event.publication)
