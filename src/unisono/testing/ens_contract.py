"""The suite every event notification service adapter passes.

Subclass `EnsContract`, say how to make a service, and let pytest collect the class:

    from unisono.testing.ens_contract import EnsContract

    class TestMyBroker(EnsContract):
        def make_service(self) -> EventNotificationService:
            return open_my_broker("localhost:1234", {})      # not connected yet

Each test calls `make_service` for every service it needs, connects it, and closes it again. All services of one
test must reach the same broker: `make_service` may remember a name, a port or a prefix in `self`, which pytest
makes anew for each test. Topics are new in each test, so that a broker that lives longer does no harm.

What is asked is what the ordering layer relies on, and no more (see `unisono.ens.port`):

- a frame reaches every subscriber of its topic and nobody else, unchanged, whatever its bytes;
- as often as the capabilities say: exactly once where `reliable`, unless `may_duplicate` is set; not at all or
  more than once elsewhere. Frames are compared as multisets: order is asked for only where `is_ordered` is set;
- a pattern means every topic that matches it, also one that is new; a topic that is meant twice is heard once;
- a change misses and doubles nothing of what stays;
- who asks for it is told the topic that a frame was published on, not the pattern it was meant by;
- nothing is notified after `unsubscribe` has returned, and nothing published after `close`;
- a subscriber that raises harms nobody but itself.

A service that loses frames on purpose is asked for less: nothing foreign, nothing changed, nothing after the end.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

from unisono.ens.port import Capabilities, EventNotificationService, Interest
from unisono.model.errors import ClosedError

__all__ = ["EnsContract"]


class EnsContract:
    """Subclass it, implement `make_service`, set the three facts if they differ."""

    is_ordered = False  # whether frames of one publisher on one topic come in the order of publication
    may_duplicate = False  # whether a frame may be notified more than once
    patience_s = 5.0  # how long a frame may take to arrive
    quiet_s = 0.03  # how long to look for frames that must not arrive

    def make_service(self) -> EventNotificationService:
        """A service that is not connected yet; all of one test reach the same broker."""
        raise NotImplementedError("say how a service is made: override make_service")

    # Who hears what.

    def test_publish_reaches_every_subscriber_of_the_topic_and_nobody_else(self) -> None:
        async def scenario(world: _World) -> None:
            service = await world.service()
            a, b = world.topics(2)
            first, second, other = [await world.listen(service, t) for t in ((a,), (a,), (b,))]
            service.publish((a,), b"for a")
            await world.settle({first: [b"for a"], second: [b"for a"], other: []})

        self._run(scenario)

    def test_a_subscriber_of_several_topics_hears_them_all(self) -> None:
        async def scenario(world: _World) -> None:
            service = await world.service()
            a, b, c = world.topics(3)
            both = await world.listen(service, (a, b))
            for topic in (a, b, c, b):
                service.publish((topic,), topic.encode())
            await world.settle({both: [a.encode(), b.encode(), b.encode()]})

        self._run(scenario)

    def test_many_topics_are_kept_apart(self) -> None:
        async def scenario(world: _World) -> None:
            service = await world.service()
            topics = world.topics(100)
            listeners = {topic: await world.listen(service, (topic,)) for topic in topics}
            for topic in topics:
                service.publish((topic,), topic.encode())
            await world.settle({listeners[topic]: [topic.encode()] for topic in topics})

        self._run(scenario)

    def test_a_topic_is_no_prefix_of_another(self) -> None:
        async def scenario(world: _World) -> None:
            service = await world.service()
            (a,) = world.topics(1)
            short, long = await world.listen(service, (a,)), await world.listen(service, (f"{a}.b",))
            service.publish((a,), b"short")
            service.publish((f"{a}.b",), b"long")
            await world.settle({short: [b"short"], long: [b"long"]})

        self._run(scenario)

    def test_publishing_where_nobody_listens_harms_nobody(self) -> None:
        async def scenario(world: _World) -> None:
            service = await world.service()
            a, b = world.topics(2)
            listener = await world.listen(service, (a,))
            service.publish((b,), b"unheard")
            service.publish((a,), b"heard")
            await world.settle({listener: [b"heard"]})

        self._run(scenario)

    def test_two_services_meet_at_the_broker(self) -> None:
        async def scenario(world: _World) -> None:
            here, there = await world.service(), await world.service()
            (a,) = world.topics(1)
            at_home, abroad = await world.listen(here, (a,)), await world.listen(there, (a,))
            here.publish((a,), b"from here")
            there.publish((a,), b"from there")
            both = [b"from here", b"from there"]
            await world.settle({at_home: both, abroad: both})

        self._run(scenario)

    def test_closing_one_service_leaves_the_other_connected(self) -> None:
        async def scenario(world: _World) -> None:
            here, there = await world.service(), await world.service()
            (a,) = world.topics(1)
            listener = await world.listen(here, (a,))
            await world.close(there)
            here.publish((a,), b"still here")
            await world.settle({listener: [b"still here"]})

        self._run(scenario)

    def test_multicast_reaches_each_subscriber_once(self) -> None:
        async def scenario(world: _World) -> None:
            service = await world.service()
            if not service.capabilities.multicast:
                return
            a, b, c = world.topics(3)
            wide, narrow, other = [await world.listen(service, t) for t in ((a, b), (b,), (c,))]
            told = await world.listen(service, (b, c), with_topic=True)
            service.publish((a, b), b"x")
            await world.settle({wide: [b"x"], narrow: [b"x"], other: [], told: [(b, b"x")]})

        self._run(scenario)

    def test_the_topic_of_a_frame_is_told_to_who_asks(self) -> None:
        async def scenario(world: _World) -> None:
            service, (a, b) = await world.service(), world.topics(2)
            wide = f"{a.rpartition('.')[0]}.>"
            named, meant = [await world.listen(service, t, with_topic=True) for t in ((a, b), (wide,))]
            plain = await world.listen(service, (a, b))
            for topic in (a, b, a):
                service.publish((topic,), topic.encode())
            told = [(topic, topic.encode()) for topic in (a, b, a)]
            await world.settle({named: told, meant: told, plain: [frame for _, frame in told]})

        self._run(scenario)

    # Patterns and changes.

    def test_a_pattern_hears_every_topic_it_means_once(self) -> None:
        async def scenario(world: _World) -> None:
            service = await world.service()
            old, new = world.topics(2)
            parent = old.rpartition(".")[0]
            service.publish((old,), b"before")
            await service.flush()
            word, rest, both = [
                await world.listen(service, names)
                for names in ((f"{parent}.*",), (f"{parent}.>",), (old, f"{parent}.*", f"{parent}.>"))
            ]
            frames = {topic: topic.encode() for topic in (old, new, f"{new}.deep", parent)}
            for topic, frame in frames.items():
                service.publish((topic,), frame)
            deep = [frames[old], frames[new], frames[f"{new}.deep"]]
            await world.settle({word: deep[:2], rest: deep, both: deep})

        self._run(scenario)

    def test_a_change_misses_and_doubles_nothing_of_what_stays(self) -> None:
        async def scenario(world: _World) -> None:
            here, there = await world.service(), await world.service()
            a, b = world.topics(2)
            wide = f"{a.rpartition('.')[0]}.*"
            listener = await world.listen(here, (a,))
            frames = [b"%d" % n for n in range(300)]

            async def publish() -> None:
                for frame in frames:
                    there.publish((a,), frame)
                    await asyncio.sleep(0)

            async def change() -> None:
                for names in ((a, b), (a, wide), (wide,), (wide, b), (a, b), (a,)):
                    await here.change(listener.interest, frozenset(names))
                    assert listener.interest.topics == frozenset(names)

            await asyncio.gather(publish(), change())
            await world.settle({listener: frames})
            await here.change(listener.interest, frozenset((b,)))
            there.publish((a,), b"left")
            there.publish((b,), b"found")
            await there.flush()
            await world.settle({listener: [*frames, b"found"]})

        self._run(scenario)

    # What they hear.

    def test_frames_are_opaque(self) -> None:
        async def scenario(world: _World) -> None:
            service = await world.service()
            (a,) = world.topics(1)
            listener = await world.listen(service, (a,))
            frames = [b"", b"\x00", b"\r\n", bytes(range(256)), "ünïsono".encode(), b"\xff" * 1000]
            for frame in frames:
                service.publish((a,), frame)
            await world.settle({listener: frames})

        self._run(scenario)

    def test_frames_of_every_size_up_to_the_limit(self) -> None:
        async def scenario(world: _World) -> None:
            service = await world.service()
            (a,) = world.topics(1)
            listener = await world.listen(service, (a,))
            limit = service.capabilities.frame_bytes_max
            sizes = [n for n in (1, 127, 128, 65535, 65536, limit - 1, limit) if 0 < n <= limit]
            frames = [bytes([size % 251]) * size for size in sizes]
            for frame in frames:
                service.publish((a,), frame)
                await service.flush()
            await world.settle({listener: frames})

        self._run(scenario)

    def test_objects_arrive_as_they_are(self) -> None:
        async def scenario(world: _World) -> None:
            service = await world.service()
            if not service.capabilities.carries_objects:
                return
            (a,) = world.topics(1)
            listener, frame = await world.listen(service, (a,)), ("any", "object")
            service.publish((a,), frame)
            await world.settle({listener: [frame]})
            assert all(heard is frame for heard in listener.frames)

        self._run(scenario)

    def test_many_frames_in_a_row(self) -> None:
        async def scenario(world: _World) -> None:
            service = await world.service()
            (a,) = world.topics(1)
            listener = await world.listen(service, (a,))
            frames = [b"%d" % n for n in range(1000)]
            for frame in frames:
                service.publish((a,), frame)
            await service.flush()
            await world.settle({listener: frames})
            if self.is_ordered:
                assert list(dict.fromkeys(listener.frames)) == frames, "is_ordered, and yet out of order"

        self._run(scenario)

    def test_capabilities_are_plain_facts_that_do_not_change(self) -> None:
        async def scenario(world: _World) -> None:
            before = self.make_service().capabilities
            service = await world.service()
            after = service.capabilities
            assert isinstance(before, Capabilities)
            assert before == after, "capabilities are known before connecting and stay as they are"
            assert after.frame_bytes_max >= 1024, "frames below 1 KiB cannot carry events"

        self._run(scenario)

    # Beginning and end.

    def test_nothing_published_before_subscribing_is_heard(self) -> None:
        async def scenario(world: _World) -> None:
            service = await world.service()
            (a,) = world.topics(1)
            service.publish((a,), b"before")
            await service.flush()
            listener = await world.listen(service, (a,))
            service.publish((a,), b"after")
            await world.settle({listener: [b"after"]})

        self._run(scenario)

    def test_unsubscribe_stops(self) -> None:
        async def scenario(world: _World) -> None:
            service = await world.service()
            (a,) = world.topics(1)
            leaving, staying = await world.listen(service, (a,)), await world.listen(service, (a,))
            service.publish((a,), b"both")
            await world.settle({leaving: [b"both"], staying: [b"both"]})
            await service.unsubscribe(leaving.interest)
            service.publish((a,), b"one")
            await world.settle({leaving: [b"both"], staying: [b"both", b"one"]})

        self._run(scenario)

    def test_unsubscribing_twice_is_harmless(self) -> None:
        async def scenario(world: _World) -> None:
            service = await world.service()
            (a,) = world.topics(1)
            leaving, staying = await world.listen(service, (a,)), await world.listen(service, (a,))
            await service.unsubscribe(leaving.interest)
            await service.unsubscribe(leaving.interest)
            service.publish((a,), b"one")
            await world.settle({leaving: [], staying: [b"one"]})

        self._run(scenario)

    def test_the_interest_names_its_topics(self) -> None:
        async def scenario(world: _World) -> None:
            service = await world.service()
            a, b = world.topics(2)
            listener = await world.listen(service, (a, b))
            assert listener.interest.topics == {a, b}

        self._run(scenario)

    def test_publishing_after_close_is_refused(self) -> None:
        async def scenario(world: _World) -> None:
            service = await world.service()
            (a,) = world.topics(1)
            await world.close(service)
            try:
                service.publish((a,), b"too late")
            except ClosedError:
                return
            raise AssertionError("publish after close must raise ClosedError")

        self._run(scenario)

    def test_nothing_is_notified_after_close(self) -> None:
        async def scenario(world: _World) -> None:
            here, there = await world.service(), await world.service()
            (a,) = world.topics(1)
            listener = await world.listen(here, (a,))
            await here.unsubscribe(listener.interest)
            await world.close(here)
            there.publish((a,), b"too late")
            await world.settle({listener: []})

        self._run(scenario)

    # Bad company.

    def test_a_subscriber_that_raises_harms_nobody_else(self) -> None:
        async def scenario(world: _World) -> None:
            service = await world.service()
            (a,) = world.topics(1)

            def raises(frame: Any) -> None:
                raise RuntimeError("this subscriber always fails")

            before = await world.listen(service, (a,))
            await service.subscribe(frozenset((a,)), raises)
            after = await world.listen(service, (a,))
            service.publish((a,), b"one")
            service.publish((a,), b"two")
            await world.settle({before: [b"one", b"two"], after: [b"one", b"two"]})

        self._run(scenario)

    def test_subscribers_come_and_go_while_frames_flow(self) -> None:
        async def scenario(world: _World) -> None:
            service = await world.service()
            (a,) = world.topics(1)
            staying = await world.listen(service, (a,))
            frames = [b"%d" % n for n in range(200)]
            gone: list[_Listener] = []

            async def come_and_go() -> None:
                for _ in range(20):
                    visitor = await world.listen(service, (a,))
                    await asyncio.sleep(0)
                    await service.unsubscribe(visitor.interest)
                    visitor.heard_when_left = len(visitor.frames)
                    gone.append(visitor)

            async def publish() -> None:
                for frame in frames:
                    service.publish((a,), frame)
                    await asyncio.sleep(0)

            await asyncio.gather(publish(), come_and_go(), come_and_go())
            await world.settle({staying: frames})
            for visitor in gone:
                assert len(visitor.frames) == visitor.heard_when_left, "notified after unsubscribe returned"
                assert set(visitor.frames) <= set(frames)

        self._run(scenario)

    def test_subscribing_from_within_a_notification(self) -> None:
        async def scenario(world: _World) -> None:
            service = await world.service()
            (a,) = world.topics(1)
            tasks: list[asyncio.Task[_Listener]] = []

            def subscribe_more(frame: Any) -> None:
                tasks.append(asyncio.get_running_loop().create_task(world.listen(service, (a,))))

            interest = await service.subscribe(frozenset((a,)), subscribe_more)
            witness = await world.listen(service, (a,))
            service.publish((a,), b"one")
            await world.settle({witness: [b"one"]})
            await service.unsubscribe(interest)
            await asyncio.gather(*tasks)
            service.publish((a,), b"two")
            await world.settle({witness: [b"one", b"two"]})

        self._run(scenario)

    # How it is done.

    def _run(self, scenario: Callable[[_World], Coroutine[Any, Any, None]]) -> None:
        async def in_a_world() -> None:
            async with AsyncExitStack() as stack:
                world = _World(self, stack)
                async with asyncio.timeout(self.patience_s + 30):
                    await scenario(world)

        asyncio.run(in_a_world())


@dataclass(eq=False)
class _Listener:
    """A subscriber and what it was notified of."""

    frames: list[Any] = field(default_factory=list)
    heard_when_left: int = 0
    interest: Interest = field(init=False)


class _World:
    """The services of one test, all closed at its end."""

    def __init__(self, suite: EnsContract, stack: AsyncExitStack) -> None:
        self._suite = suite
        self._stack = stack
        self._is_reliable = True
        self._open: dict[int, EventNotificationService] = {}

    def topics(self, count: int) -> list[str]:
        """Topics that nobody else uses."""
        return [f"contract.{fresh}.t{n}" for fresh in (secrets.token_hex(6),) for n in range(count)]

    async def service(self) -> EventNotificationService:
        """One more connection to the broker."""
        await (service := self._suite.make_service()).connect()
        self._is_reliable = self._is_reliable and service.capabilities.reliable
        self._open[id(service)] = service
        self._stack.push_async_callback(self.close, service)
        return service

    async def close(self, service: EventNotificationService) -> None:
        """Close a service, once."""
        if self._open.pop(id(service), None) is not None:
            await service.close()

    async def listen(
        self, service: EventNotificationService, topics: Iterable[str], *, with_topic: bool = False
    ) -> _Listener:
        """Subscribe, and write down what comes."""
        listener = _Listener()
        notify = (lambda *told: listener.frames.append(told)) if with_topic else listener.frames.append
        listener.interest = await service.subscribe(frozenset(topics), notify, with_topic=with_topic)
        return listener

    async def settle(self, expected: dict[_Listener, list[Any]]) -> None:
        """Wait until everybody has heard what is expected; then nothing more may come."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + (self._suite.patience_s if self._is_reliable else self._suite.quiet_s)
        while loop.time() < deadline and not all(_has(x, f) for x, f in expected.items()):  # noqa: ASYNC110
            await asyncio.sleep(0.002)
        await asyncio.sleep(self._suite.quiet_s)
        for listener, frames in expected.items():
            self._compare(Counter(listener.frames), Counter(frames))

    def _compare(self, heard: Counter[Any], expected: Counter[Any]) -> None:
        foreign = heard.keys() - expected.keys()
        assert not foreign, f"heard what was never meant for it: {_some(foreign)}"
        missing = expected - heard
        assert not missing or not self._is_reliable, f"never heard: {_some(missing)}"
        doubled = heard - expected
        assert not doubled or self._suite.may_duplicate, f"heard more often than published: {_some(doubled)}"


def _has(listener: _Listener, frames: list[Any]) -> bool:
    return not Counter(frames) - Counter(listener.frames)


def _some(frames: Iterable[Any]) -> str:
    return ", ".join(f"{frame!r:.40}" for frame in list(frames)[:5])
