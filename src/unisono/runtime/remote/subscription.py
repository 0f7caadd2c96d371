"""A subscription whose events are sequenced by nodes."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Iterable
from typing import TYPE_CHECKING, Any

from unisono.engines.contract import Engine
from unisono.engines.effects import Admit, Announce, Deliver, DeliverRun, Drop, Effect, Ignore, Listen
from unisono.engines.inputs import Change, Notified
from unisono.engines.topic_managers.member import Member
from unisono.engines.topic_managers.peers import Peers
from unisono.engines.topic_managers.recalling import Start
from unisono.ens.port import Interest
from unisono.model.bundles import StampedBundle
from unisono.model.errors import ClosedError, FrameError, UnconfirmedError, UnisonoError
from unisono.model.event import Event
from unisono.model.frames import EpochNotice, Heartbeat, PeerAsk, PeerTell, Run, Stamped
from unisono.model.runs import publications_of, run_of
from unisono.runtime.options import Options, check_fewer, check_more, check_topics
from unisono.runtime.remote.host import Host
from unisono.runtime.remote.paced import Paced
from unisono.runtime.remote.pieces import Delta, Lengthener
from unisono.runtime.remote.wire import (
    Heard,
    Whole,
    decode_notes,
    decode_peer,
    encode,
    events_on,
    peers_on,
    told_by,
)
from unisono.runtime.starts import NEW
from unisono.runtime.subscription import Subscription
from unisono.runtime.views import shared_views, views

if TYPE_CHECKING:
    from unisono.runtime.observer import Observer
    from unisono.runtime.recorder import Recorder
    from unisono.runtime.remote.client import Client

JOIN_S = 1.0  # a join without an answer is sent again after this
LISTEN_S = 0.2  # after a broker that did not confirm what is listened to
CHANGE_S = 30.0  # joining takes at most so long


log = logging.getLogger("unisono")


class RemoteSubscription(Subscription):
    """Events of some topics, in the order that nodes give them."""

    def __init__(
        self, client: Client, name: str, asked: frozenset[str], options: Options, recorder: Recorder | None
    ) -> None:
        super().__init__(client, name, asked, options, recorder)
        self.key = name  # what its client knows it by
        self._client = client
        self._behind: dict[
            str, tuple[int, int]
        ] = {}  # topic -> the epoch and the number of what was not taken
        self._waits: dict[tuple[str, int], int] = {}  # topic and number -> when it came, if somebody observes
        self._noticed = 0  # the newest epoch of which a notice was observed
        self._clocks = Lengthener()
        self._interest: Interest | None = None
        self._wanted: frozenset[str] = frozenset()  # at the service
        self._member: Member | None = None
        self._peers: Peers | None = None  # around the member, where it asks other processes
        self._peers_interest: Interest | None = None
        self._host: Host | None = None
        self._settled: asyncio.Future[None] | None = None

    # Opening and closing.

    async def open(self) -> None:
        """Start listening; returns when every event sequenced from here on is owed."""
        if self._opened and not self._closed:
            return
        self._check_may_open()
        self._client.admit(self)
        self._opened = True
        try:
            await self._begin()
        except BaseException:
            await self.close()
            raise

    async def _begin(self) -> None:
        if self.options.order == "none":
            await self._listen(self.asked)
            self._hold_named()
            return
        self._member = Paced(
            self._client.address("sub"),
            self.options.holding(repair=True),
            lambda: self._lags,
            self._repaired,
            weight=self.options.weight,
            join_s=JOIN_S,
            start=self._start(),
        )
        engine: Engine = self._member
        if self._client.peers:
            engine = self._peers = Peers(self._member.name, self._member)
        self._host = self._client.host(self._member.name, engine, self._carry_out)
        await self._change(Change(tuple(sorted(self.asked))))

    def _start(self) -> Start | None:
        """Where in the past it begins; None: in the present."""
        gone = self.options.gone
        match self.options.beginning:
            case float(since):
                return Start(since=since, gone=gone)
            case dict(clock):
                return Start(clock=clock, gone=gone)
            case beginning:
                return None if beginning == NEW else Start(gone=gone)

    async def close(self) -> None:
        """Stop listening; events not yet taken are discarded."""
        if self._closed:
            return
        self._closed = True
        if self._opened:
            self._record_left(self.topics)
        self._end()
        self._empty()
        if self.on_close is not None:
            self.on_close(self)
        interests = self._interest, self._peers_interest
        self._interest = self._peers_interest = None
        for interest in filter(None, interests):
            await self._client.service.unsubscribe(interest)

    def _end(self) -> None:
        if self._host is not None:
            self._client.detach(self._host)
        self._client.dismiss(self)
        super()._end()

    def end(self, error: UnisonoError) -> None:
        """Nothing that was promised can be kept."""
        self._fail(error)
        self._look_settled()

    @property
    def buffered(self) -> int:
        """Events that are held back for earlier ones."""
        return 0 if self._member is None else len(self._member.inner.held)

    @property
    def reached(self) -> dict[str, int]:
        """Up to where nothing more is to be waited for, by topic; nothing where nobody orders."""
        return {} if self._member is None else self._member.inner.reached

    def observe(self, observer: Observer | None) -> None:
        """Let somebody look on from now on, or nobody."""
        super().observe(observer)
        self._waits.clear()

    @property
    def fill(self) -> float:
        """How full it is, or what is held back, from 0 to 1."""
        if self._member is None:
            return super().fill
        return max(super().fill, min(1.0, self.buffered / self._member.inner.settings.hold_max))

    @property
    def is_behind(self) -> bool:
        """Whether events of this bus that have their places are still on their way to it."""
        if self._member is None or self._error is not None or self._closed:
            return False
        if self._member.recalling is not None:
            return True  # the past is still being told
        told = self._client.departures.told
        return any(reached < told.get(topic, 0) for topic, reached in self._member.inner.reached.items())

    # Changing.

    async def add(self, *topics: str) -> None:
        """Listen to more topics or patterns; returns when every event of them from here on is owed."""
        more = check_topics(topics)
        async with self._changing:
            self._check_listening()
            check_more(self.name, self.asked, more)
            self._ask(self.asked | more)
            await self._change(Change(tuple(sorted(more))))

    async def remove(self, *topics: str) -> None:
        """Do not listen to some topics or patterns any more; what waits of them is discarded."""
        fewer = check_topics(topics)
        async with self._changing:
            self._check_listening()
            check_fewer(self.name, self.asked, self.patterns, fewer)
            self._ask(self.asked - fewer)
            gone = frozenset(topic for topic in self.topics if not self.wants(topic))
            self.topics -= gone
            self._record_left(gone)
            self._discard(lambda event: not self.wants(event.topic))
            self._waits = {key: came for key, came in self._waits.items() if key[0] not in gone}
            await self._change(Change((), tuple(sorted(fewer))))

    async def _change(self, change: Change) -> None:
        """Let the member have it, and wait until the nodes have it too."""
        if self._host is None or self._member is None:
            await self._listen(self.asked)
            self._hold_named()
            return
        self._host.handle(change)
        try:
            async with asyncio.timeout(CHANGE_S):
                while self._is_joining and self._error is None and not self._closed:
                    self._settled = asyncio.get_running_loop().create_future()
                    await self._settled
        except TimeoutError:
            raise UnconfirmedError(
                f"subscription '{self.name}' has not been confirmed by the nodes within {CHANGE_S:g} s; "
                "look at `unisono topics` and the nodes' logs"
            ) from None
        if self._error is not None:
            raise self._error
        if self._closed:
            raise ClosedError(f"subscription '{self.name}' was closed while it opened; make a new one")

    def _hold_named(self) -> None:
        """Where nobody numbers, topics are held as they are named; which ones a pattern means nobody tells."""
        fresh = self.asked.difference(self.patterns, self.topics)
        self.topics |= fresh
        self._record_joined(dict.fromkeys(sorted(fresh), 0))

    # Effects.

    def _carry_out(self, effect: Effect) -> Awaitable[object] | None:
        match effect:
            case Listen(topics):
                return self._listen_at_last(self._wanted.union(topics))
            case Ignore(topics):
                return self._listen_at_last(self._wanted.difference(topics))
            case Announce((topic,), PeerAsk() | PeerTell() as word):
                self._client.post.publish(told_by(self._client.client, topic), encode(word))
            case Admit(floors):
                self.topics |= floors.keys()
                self._record_joined(floors)
            case DeliverRun(run, places) if not self._waits:
                self._deliver_run(run, places)
            case _:
                if self._waits:
                    self._observe_end(effect)
                self._do(effect)
        self._look_settled()
        return None

    def _deliver_run(self, run: Run, places: list[int] | None) -> None:
        if self.options.type is Any and not self._missed and self.options.deadline is None:
            self._put(shared_views(run, places))
        else:
            self._put(views(run, places, self.options.type))

    @property
    def _is_joining(self) -> bool:
        member = self._member
        return member is not None and bool(member.new or member.later or member.inner.hoped)

    def _look_settled(self) -> None:
        if self._settled is None or self._settled.done():
            return
        if not self._is_joining or self._error is not None or self._closed:
            self._settled.set_result(None)

    async def _listen(self, topics: frozenset[str]) -> None:
        self._wanted = topics
        names = frozenset(map(events_on, topics))
        if self._interest is None:
            self._interest = await self._client.service.subscribe(names, self._notify)
        else:
            await self._client.service.change(self._interest, names)
        if self._peers is not None:
            await self._listen_to_peers(frozenset(map(peers_on, topics)))

    async def _listen_to_peers(self, names: frozenset[str]) -> None:
        if self._peers_interest is None:
            self._peers_interest = await self._client.service.subscribe(names, self._hear_peer)
        else:
            await self._client.service.change(self._peers_interest, names)

    def _hear_peer(self, frame: object) -> None:
        if self._host is None or self._error is not None or self._closed:
            return
        try:
            assert isinstance(frame, bytes)
            word = decode_peer(frame)
        except (FrameError, AssertionError):
            self.rejected += 1
            return
        self._host.handle(Notified(word))
        self._look_settled()

    async def _listen_at_last(self, topics: frozenset[str]) -> None:
        """Listen, however often the broker goes away meanwhile: what follows counts on it."""
        while self._error is None and not self._closed:
            try:
                await self._listen(topics)
                return
            except ConnectionError as error:
                log.info("subscription '%s' listens again: %s", self.name, error)
                await asyncio.sleep(LISTEN_S)

    # From the network.

    def _notify(self, frame: object) -> None:
        if self._error is not None or self._closed:
            return
        try:
            assert isinstance(frame, bytes)
            heard = decode_notes(frame)
            if len(heard) == 1 and self._is_at_ease() and self._hands_over(heard[0]):
                return  # mostly, while there is little to do
            notes = self._whole(heard)
        except (FrameError, AssertionError):
            self.rejected += 1
            return
        if self._lags and self._host is not None:
            self._defer(notes)
            return
        if self.observer is not None:
            self._observe_notes(self.observer, notes)
            return
        for note in notes:
            self._take_note(note)

    def _whole(self, notes: list[Heard]) -> list[Whole]:
        """Notifications with their whole clocks; where nobody orders, nobody needs them."""
        if self._host is None:
            return [note.piece if isinstance(note, Delta) else note for note in notes]
        lengthen = self._clocks.lengthen
        return [lengthen(n) if isinstance(n, (StampedBundle, Delta)) else n for n in notes]

    @property
    def _lags(self) -> bool:
        """Whether the application has more than enough to do."""
        return self in self._client.full and self.options.slow == "wait"

    def _defer(self, notes: list[Whole]) -> None:
        """Remember only that there is something; once there is room it is asked for."""
        self.deferred += 1
        for note in notes:
            match note:
                case Stamped(_, epoch):
                    self._fall_behind(note.topic, epoch, note.entries.get(note.topic, 0))
                case StampedBundle(epoch=epoch):
                    for part in note.parts:
                        self._fall_behind(part.topic, epoch, note.newest(part.topic))
                case Heartbeat(topic, epoch, number):
                    self._fall_behind(topic, epoch, number)
                case _:
                    self._take_note(note)

    def _fall_behind(self, topic: str, epoch: int, number: int) -> None:
        if number > self._behind.get(topic, (0, 0))[1] and self.wants(topic):
            self._behind[topic] = (epoch, number)

    def catch_up(self) -> None:
        """The application has room again."""
        behind, self._behind = self._behind, {}
        for topic, (epoch, number) in behind.items():
            self._take_note(Heartbeat(topic, epoch, number))

    def _take_note(self, note: Whole) -> None:
        if self._host is not None:
            if self._host.is_idle and self._hands_over(note):
                return
            self._host.handle(Notified(note))
            self._look_settled()
        elif isinstance(note, Stamped) and self.wants(note.topic):
            self._put([self._event(note.publication, note.entries)])
        elif isinstance(note, StampedBundle):
            for part in note.parts:
                if self.wants(part.topic):
                    events = publications_of(note, part)
                    self._put([self._event(publication) for publication in events])

    def _is_at_ease(self) -> bool:
        """Whether nobody looks on or lags, and nothing else is to be done."""
        host = self._host
        return host is not None and host.is_idle and self.observer is None and not self._client.full

    def _hands_over(self, event: Heard) -> bool:
        """Take the short way, if it is a single event and the engine has nothing to do but to let it through."""
        member = self._member
        if type(event) is not Stamped or member is None or not member.hand_over(event):
            return False
        if self._peers is not None:
            self._peers.keep(event)
        self._put([self._event(event.publication, event.entries, True, event.epoch)])
        return True

    # For whoever observes.

    def _observe(self, observer: Observer, events: list[Event[Any]]) -> int:
        return time.time_ns()  # they were observed when they arrived

    def _observe_notes(self, observer: Observer, notes: list[Whole]) -> None:
        events = [event for note in notes for event in _events(note)]
        came = observer.arrived([event.publication for event in events], self)
        for note in notes:
            if isinstance(note, EpochNotice) and note.epoch > self._noticed:
                self._noticed = note.epoch
                self.voided += sum(b - a + 1 for t in self.topics for a, b in note.voids.get(t, ()))
            self._take_note(note)
        self._observe_waiting(events, came)

    def _repaired(self, events: tuple[Stamped, ...]) -> None:
        """Events have come that were asked for; the member is about to take them."""
        if self.observer is not None:
            self.repaired += len(events)
            came = self.observer.arrived([event.publication for event in events], self)
            asyncio.get_running_loop().call_soon(self._observe_waiting, events, came)

    def _observe_waiting(self, events: Iterable[Stamped], came: int) -> None:
        """Some of the events that came then may have to wait."""
        held = None if self._member is None else self._member.inner.held
        if not held:
            self._waits.clear()
            return
        for event in events:
            key = event.topic, event.entries.get(event.topic, 0)
            if key not in self._waits and held.get(*key) is not None:
                self._waits[key] = came
                self.held += 1

    def _observe_end(self, effect: Effect) -> None:
        """Some of those that waited need not any longer."""
        match effect:
            case Deliver(events):
                done = events
            case DeliverRun():
                done = effect.events
            case Drop(event):
                done = [event]
            case _:
                return
        for event in done:
            since = self._waits.pop((event.topic, event.number), None)
            if since is not None and self.observer is not None:
                self.observer.released(event.publication, since, self)


def _events(note: Whole) -> list[Stamped]:
    """The events that a notification brings."""
    if isinstance(note, StampedBundle):
        return run_of(note).events()
    return [note] if isinstance(note, Stamped) else []
