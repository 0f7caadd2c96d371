"""A durable subscription: its place is kept, and it goes on from there, whoever takes it up again."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass
from operator import length_hint
from types import TracebackType
from typing import TYPE_CHECKING, Any

from unisono.engines.durable.holder import Holder
from unisono.engines.durable.window import SIZE_MIN, UNACKNOWLEDGED_MAX, Window
from unisono.engines.effects import Admit, Deliver, DeliverRun, Effect, Fail, Hold, Lose
from unisono.engines.inputs import Keep
from unisono.engines.topic_managers.recalling import Start
from unisono.history.record import Kind
from unisono.model.errors import ClosedError, ConfigError, GapError, UnconfirmedError, UnisonoError
from unisono.model.event import Event
from unisono.model.frames import Run
from unisono.model.places import Place
from unisono.runtime.options import Options, check_number
from unisono.runtime.remote.host import Host
from unisono.runtime.remote.subscription import RemoteSubscription
from unisono.runtime.remote.viewing import make_view, view_of_place
from unisono.runtime.starts import NEW

if TYPE_CHECKING:
    from unisono.runtime.recorder import Recorder
    from unisono.runtime.remote.client import Client

SAVE_S = 0.05  # what was acknowledged is saved after so long
CLAIM_S = 30.0  # finding a node, and watching whether somebody else holds the place, take at most so long
LET_GO_S = 2.0  # and saving it for the last time

log = logging.getLogger("unisono")


@dataclass(frozen=True, slots=True)
class Position:
    """Where a durable subscriber is. Events are counted from where its place began."""

    acknowledged: int
    kept: int  # how many acknowledgements are stored
    taken: int  # how many events the application was handed
    epoch: int
    clock: dict[str, int]  # topic -> the last number that was acknowledged


class DurableSubscription(RemoteSubscription):
    """Events of some topics from where the name's last session was: at least once each, in the one order."""

    def __init__(
        self, client: Client, name: str, asked: frozenset[str], options: Options, recorder: Recorder | None
    ) -> None:
        super().__init__(client, name, asked, options, recorder)
        self.key = client.address("place")
        self._holder = Holder(name, tuple(sorted(asked)), self.key, options.held)
        self._window = Window(Place(name, ()))
        self._place: Place | None = None  # as it is kept
        self._keeping: Host | None = None
        self._save_timer: asyncio.TimerHandle | None = None
        self._kept: set[asyncio.Future[None]] = set()  # who waits for a save
        self._is_leaving = False
        self._first_epoch = 0  # nothing it is owed was sequenced before

    # Opening and closing.

    async def _begin(self) -> None:
        await self._claim()
        await make_view(self._client, view_of_place(self.name), self.asked)
        if self.options.beginning == NEW and self._client.control is not None:
            self._first_epoch = self._client.control.epoch
        await super()._begin()
        self._save()
        while self._window.epoch >= 0 and self._place is not None and self._place.epoch < 0:
            await self._wait_for_save()  # from here on everything is owed, also to whoever comes after us

    def _start(self) -> Start | None:
        window = self._window
        if window.epoch < 0:
            return super()._start()
        return Start(clock=dict(window.clock), epoch=window.epoch, gone=self.options.gone)

    async def _claim(self) -> None:
        """Hold the place, as it was left."""
        self._keeping = self._client.host(self.key, self._holder, self._keep)
        try:
            async with asyncio.timeout(CLAIM_S):
                while self._place is None:
                    await self._wait_for_save()
        except TimeoutError:
            raise UnconfirmedError(
                f"no node has given '{self.name}' its place within {CLAIM_S:g} s; see the nodes' logs"
            ) from None

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None and self.options.ack == "auto":
            self._window.acknowledge(self._window.given)
        await self.close()

    async def close(self) -> None:
        """Stop listening, and let go of the place; what was not acknowledged comes again next time.

        Leaving `async with` in peace acknowledges what was taken, with ack="auto".
        """
        if self._closed or self._is_leaving:
            return
        self._is_leaving = True
        try:
            await self._let_go()
        finally:
            if self._save_timer is not None:
                self._save_timer.cancel()
            if self._keeping is not None:
                self._client.detach(self._keeping)
            await super().close()

    async def _let_go(self) -> None:
        if self._keeping is None or self._holder.stage != "holding":
            return
        self._keeping.handle(self._window.last())
        try:
            async with asyncio.timeout(LET_GO_S):
                while not self._holder.is_ended:
                    await self._wait_for_save()
        except TimeoutError:
            log.warning("no node has saved the place of '%s'; it was kept as it was before", self.name)
        except UnisonoError as error:
            log.warning("the place of '%s' was not saved: %s", self.name, error)

    @property
    def position(self) -> Position:
        """Where it is."""
        window, kept = self._window, 0 if self._place is None else self._place.acknowledged
        return Position(window.acknowledged, kept, window.given, window.epoch, dict(window.clock))

    async def add(self, *topics: str) -> None:
        """A place is one in these topics."""
        raise ConfigError(f"'{self.name}' is durable: its topics stay as they are; choose another name")

    async def remove(self, *topics: str) -> None:
        """A place is one in these topics."""
        raise ConfigError(f"'{self.name}' is durable: its topics stay as they are; choose another name")

    # What the nodes say of the place.

    def _keep(self, effect: Effect) -> None:
        match effect:
            case Hold(place):
                if self._place is None:
                    self._window = Window(place, UNACKNOWLEDGED_MAX)
                else:
                    self._window.grant(place)
                    if self._window.is_low:
                        self._save()
                self._place = place
            case Fail(error):
                self._empty()
                self.end(error)
        for waiter in self._kept:
            if not waiter.done():
                waiter.set_result(None)
        self._wake()

    async def _wait_for_save(self) -> None:
        """Return when the place has been saved; raises what makes that impossible."""
        if self._error is not None:
            raise self._error
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._kept.add(waiter)
        try:
            await waiter
        finally:
            self._kept.discard(waiter)
        if self._error is not None:
            raise self._error

    def _save(self) -> None:
        if self._save_timer is not None:
            self._save_timer.cancel()
            self._save_timer = None
        if self._keeping is not None and self._holder.stage == "holding":
            self._tell(self._window.ask())
            if self._window.size > SIZE_MIN:
                self._save_soon()  # again, and ask for less if nothing was taken since

    def _tell(self, keep: Keep) -> None:
        assert self._keeping is not None
        self._keeping.handle(keep)

    def _save_soon(self) -> None:
        if self._save_timer is None:
            self._save_timer = asyncio.get_running_loop().call_later(SAVE_S, self._save)

    # Acknowledging.

    async def ack(self, event: Event[Any]) -> None:
        """This event and all before it have been dealt with; returns when that is kept."""
        self.ack_nowait(event)
        up_to = self._window.acknowledged
        self._save()
        while self._place is None or self._place.acknowledged < up_to:
            await self._wait_for_save()

    def ack_nowait(self, event: Event[Any]) -> None:
        """This event and all before it have been dealt with; that is kept in a moment."""
        self._check_listening()
        number = event.stamp.get(event.topic, 0)
        count = self._window.find(event.topic, number)
        if count is None:
            raise ConfigError(f"{event!r} was not handed out by subscription '{self.name}'")
        self._window.acknowledge(count)
        self._save_soon()
        self._wake()  # there may be room again

    # For the application.

    def is_idle(self, lanes: int = 1) -> bool:
        """Whether the application has taken everything and all its lanes wait for more."""
        return super().is_idle(lanes) and (not length_hint(self._current) or self._closed)

    async def _iterate(self) -> AsyncIterator[Event[Any]]:
        while batch := await self._take(1):
            yield batch[0]

    async def _batches(self, limit: int) -> AsyncIterator[list[Event[Any]]]:
        while batch := await self._take(limit):
            yield batch

    async def get_one(self, timeout: float | None = None) -> Event[Any]:
        """The next event; TimeoutError if none comes within `timeout` seconds."""
        if timeout is not None:
            check_number("timeout", timeout)
        async with asyncio.timeout(timeout):
            batch = await self._take(1)
        if not batch:
            raise ClosedError(f"subscription '{self.name}' is closed")
        return batch[0]

    async def _take(self, limit: int) -> list[Event[Any]]:
        """The next events, at most so many; whoever asks for them has dealt with those before, unless it says so."""
        window = self._window
        if self.options.ack == "auto" and window.acknowledged < window.given:
            window.acknowledge(window.given)
            self._save_soon()
        while True:
            room = min(limit, self._window.room)
            batch = [event for _, event in zip(range(room), self._current, strict=False)]
            if batch:
                if given := self._give(batch):
                    return given
                continue
            if self.waiting and not room:
                if not await self._more_room():
                    return []
            elif self._queue:
                self._current = iter(self._next_batch())
            elif not await self._more():
                return []

    async def _more_room(self) -> bool:
        """Wait until more may be handed out; False when nothing ever may."""
        if self._window.is_low and self._error is None and not self._closed:
            self._save()
        return await self._more()

    def _give(self, batch: list[Event[Any]]) -> list[Event[Any]]:
        window, wanted = self._window, []
        for event in batch:
            source = event._source
            assert isinstance(source, dict)
            is_wanted = self._wants is None or self._wants(event)
            event.redelivered = window.give(
                event.topic, source[event.topic], event._epoch, is_wanted=is_wanted
            )
            if is_wanted:
                wanted.append(event)
            else:
                self._unwanted(event)
                self._save_soon()
        batch = wanted
        if self._recorder is not None:
            self._recorder.delivered_many(self._label, batch)
        if window.is_low:
            self._save()
        return batch

    def _only_wanted(self, events: list[Event[Any]]) -> list[Event[Any]]:
        return events  # each is counted when it is given

    # What its engine asks for.

    def _do(self, effect: Effect) -> None:
        if isinstance(effect, Lose):
            topic, numbers = effect.topic, effect.numbers
            if self.options.gone == "fail":
                lost = f"events {numbers[0]}-{numbers[-1]} of '{topic}' are lost"
                self.end(
                    GapError(f"durable subscription '{self.name}': {lost}; gone='skip' goes on without them")
                )
                return
            self._window.pass_over(topic, numbers[-1])
        super()._do(effect)

    def _deliver_run(self, run: Run, places: list[int] | None) -> None:
        self._do(Deliver(DeliverRun(run, places).events))  # each is counted when it is given

    def _carry_out(self, effect: Effect) -> Any:
        if isinstance(effect, Admit):
            if self._window.epoch < 0:
                self._window.begin(self._first_epoch, effect.floors)
            else:
                self._window.meet(effect.floors)
        return super()._carry_out(effect)

    @property
    def _label(self) -> str:
        """What it is called in histories: each session is a subscriber of its own."""
        return f"{self.name}@{self.key}"

    def _record(self, kind: Kind, **fields: Any) -> None:
        if self._recorder is not None:
            self._recorder.write(kind, self._label, **fields)
