"""The suite every store passes.

Subclass `StoreContract`, say how to make a service that has a store, and let pytest collect the class:

    class TestMyStore(StoreContract):
        def make_service(self):
            return open_my_broker("localhost:1234", {})      # not connected yet

Each test connects as many services as it needs, opens their stores, and closes them again; all of one test must reach
the same broker. Names are new in each test. Where `restart_server`, `stop_server` and `start_server` are implemented,
the store is also held to what it promises across outages; otherwise those tests have nothing to do.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack
from functools import partial
from typing import Any

from unisono.ens.port import EventNotificationService
from unisono.ens.store import Store, open_store
from unisono.model.errors import ClosedError, ConfigError, PayloadError, UnconfirmedError

__all__ = ["StoreContract"]

MANY = 1000


class StoreContract:
    """Subclass it, implement `make_service`, and what happens to the server if it can happen."""

    patience_s = 15.0  # how long a change may take to be told, an outage to be over
    quiet_s = 0.05  # how long to look for what must not be told
    bound_s = 12.0  # how long anything may take while the server is away
    survives_a_restart = True
    can_restart = False  # whether the three methods below are implemented

    def make_service(self) -> EventNotificationService:
        """A service that is not connected yet; all of one test reach the same broker."""
        raise NotImplementedError("say how a service is made: override make_service")

    def restart_server(self) -> None:
        """Kill the server and start it again."""
        raise NotImplementedError

    def stop_server(self) -> None:
        """Stop the server."""
        raise NotImplementedError

    def start_server(self) -> None:
        """Start it again."""
        raise NotImplementedError

    # Records.

    def test_a_record_changes_only_from_the_revision_that_is_known(self) -> None:
        async def scenario(world: _World) -> None:
            store, key = await world.store(), world.name()
            assert await store.look(key) is None
            assert await store.decide(key, b"x", 7) is None
            first = await store.decide(key, b"\x00one\r\n", 0)
            assert first is not None
            assert first > 0
            assert await store.look(key) == (first, b"\x00one\r\n")
            assert await store.decide(key, b"again", 0) is None
            second = await store.decide(key, b"", first)
            assert second is not None
            assert second > first
            assert await store.decide(key, b"late", first) is None
            assert await store.look(key) == (second, b"")

        self._run(scenario)

    def test_of_two_who_decide_one_wins(self) -> None:
        async def scenario(world: _World) -> None:
            one, other, key = await world.store(), await world.store(), world.name()
            revision = 0
            for n in range(30):
                values = [b"%d %d" % (n, who) for who in range(4)]
                stores = (one, other, one, other)
                given = await asyncio.gather(
                    *(s.decide(key, v, revision) for s, v in zip(stores, values, strict=True))
                )
                winners = [who for who, new in enumerate(given) if new is not None]
                assert len(winners) == 1, f"{len(winners)} have changed revision {revision}"
                seen = await one.look(key)
                assert seen == await other.look(key) == (given[winners[0]], values[winners[0]])
                revision = seen[0] if seen else 0

        self._run(scenario)

    def test_a_deleted_record_is_not_there_and_its_revisions_do_not_come_back(self) -> None:
        async def scenario(world: _World) -> None:
            store, key = await world.store(), world.name()
            old = await store.decide(key, b"old", 0)
            assert old is not None
            await store.delete(key)
            await store.delete(key)
            assert await store.look(key) is None
            assert await store.decide(key, b"late", old) is None
            new = await store.decide(key, b"new", 0)
            assert new is not None
            assert new > old

        self._run(scenario)

    def test_keys_are_found_by_their_beginning(self) -> None:
        async def scenario(world: _World) -> None:
            store, base = await world.store(), world.name()
            names = sorted([f"{base}.node.a", f"{base}.node.ü", f"{base}.nodes", f"{base}.x"])
            for name in names:
                await store.decide(name, b"", 0)
            assert await store.keys(f"{base}.") == names
            assert await store.keys(f"{base}.node") == names[:3]
            assert await store.keys(f"{base}.node.") == names[:2]
            assert await store.keys(f"{base}.nobody") == []
            await store.delete(names[0])
            assert await store.keys(f"{base}.node") == names[1:3]
            assert set(names[1:]) <= set(await store.keys())

        self._run(scenario)

    def test_a_watch_is_told_the_value_there_is_and_the_last_one(self) -> None:
        async def scenario(world: _World) -> None:
            one, other, key = await world.store(), await world.store(), world.name()
            early = await world.watch(one, key)
            revision = await other.decide(key, b"first", 0)
            await world.until(lambda: early == [(revision, b"first")])
            late = await world.watch(one, key)
            await world.until(lambda: late == [(revision, b"first")])
            for n in range(50):
                assert revision is not None
                revision = await other.decide(key, b"%d" % n, revision)
            await world.until(lambda: early[-1][1] == late[-1][1] == b"49")
            for told in (early, late):
                assert told[-1][0] == revision
                assert [r for r, _ in told] == sorted({r for r, _ in told}), "a revision came back"

        self._run(scenario)

    def test_a_watch_that_is_closed_is_told_nothing_and_one_that_raises_harms_nobody(self) -> None:
        async def scenario(world: _World) -> None:
            store, key = await world.store(), world.name()
            told: list[tuple[int, bytes]] = []

            def raises(revision: int, value: bytes) -> None:
                raise RuntimeError("this watch always fails")

            closed = await store.watch(key, lambda *change: told.append(change))
            await store.watch(key, raises)
            witness = await world.watch(store, key)
            await closed.close()
            await closed.close()
            await store.decide(key, b"x", 0)
            await world.until(lambda: [v for _, v in witness] == [b"x"])
            await asyncio.sleep(self.quiet_s)
            assert told == []

        self._run(scenario)

    # Lanes.

    def test_appends_are_pipelined_and_stored_in_order(self) -> None:
        async def scenario(world: _World) -> None:
            one, other, lane = await world.store(), await world.store(), world.name()
            assert await other.read(lane) == ([], 0)
            records = [b"%d \x00\r\n" % n for n in range(MANY)]
            stored = [one.append(lane, record, n) for n, record in enumerate(records)]
            assert await asyncio.gather(*stored) == list(range(1, MANY + 1))
            assert await other.read(lane) == (list(enumerate(records, 1)), MANY)
            assert await other.read(lane, MANY - 2) == ([(MANY - 1, records[-2]), (MANY, records[-1])], MANY)
            assert await other.read(lane, MANY) == await other.read(lane, 2 * MANY) == ([], MANY)

        self._run(scenario)

    def test_a_part_of_a_lane_is_read(self) -> None:
        async def scenario(world: _World) -> None:
            store, lane = await world.store(), world.name()
            assert await store.read(lane, 3, 2) == ([], 0)
            await asyncio.gather(*(store.append(lane, b"%d" % n) for n in range(1, 301)))
            records = [(n, b"%d" % n) for n in range(1, 301)]
            for after, limit in ((0, 1), (0, 1000), (7, 129), (250, 256), (299, 1), (300, 1), (5, 0)):
                assert await store.read(lane, after, limit) == (records[after : after + limit], 300)
            await store.truncate(lane, 100)
            assert await store.read(lane, 20, 5) == (records[100:105], 300)
            assert await store.read(lane, 102, 5) == (records[102:107], 300)

        self._run(scenario)

    def test_a_refused_append_refuses_those_that_count_on_it(self) -> None:
        async def scenario(world: _World) -> None:
            store, lane = await world.store(), world.name()
            ours = [store.append(lane, b"%d" % n, n) for n in range(10)]
            wrong = [store.append(lane, b"wrong", n) for n in range(11, 20)]
            right = [store.append(lane, b"%d" % n, n) for n in range(10, 12)]
            assert await asyncio.gather(*ours) == list(range(1, 11))
            assert await asyncio.gather(*wrong) == [None] * 9
            assert await asyncio.gather(*right) == [11, 12]
            assert [r for _, r in (await store.read(lane))[0]] == [b"%d" % n for n in range(12)]

        self._run(scenario)

    def test_a_seal_refuses_the_append_it_came_before_and_not_the_one_after(self) -> None:
        """Known and harmless: what a sealed writer still stores is behind the seal, where readers do not count it."""

        async def scenario(world: _World) -> None:
            writer, successor, lane = await world.store(), await world.store(), world.name()
            assert await writer.append(lane, b"event 1", 0) == 1
            assert await successor.append(lane, b"seal", None) == 2
            late = [writer.append(lane, b"event %d" % (n + 1), n) for n in (1, 2, 3)]
            assert await asyncio.gather(*late) == [None, 3, 4]
            records = [(1, b"event 1"), (2, b"seal"), (3, b"event 3"), (4, b"event 4")]
            assert await successor.read(lane) == (records, 4)

        self._run(scenario)

    def test_where_seals_are_fences_nothing_of_a_lower_epoch_is_stored_behind_one(self) -> None:
        async def scenario(world: _World) -> None:
            writer, successor, lane = await world.store(), await world.store(), world.name()
            assert await writer.read(lane) == await writer.read(lane) == ([], 0)  # it is not there yet
            assert await writer.append(lane, b"event 1", 0, 1) == 1
            assert await successor.append(lane, b"seal", None, 2) == 2
            late = [writer.append(lane, b"event %d" % (n + 1), n, 1) for n in (1, 2, 3)]
            assert await asyncio.gather(*late) == ([None] * 3 if writer.fences else [None, 3, 4])
            tail = (await successor.read(lane))[1]
            late_seal = await successor.append(lane, b"seal", None, 1)  # which opens nothing again
            assert late_seal == tail + 1
            assert await writer.append(lane, b"event 4", tail + 1, 1) == (None if writer.fences else tail + 2)
            tail = (await successor.read(lane))[1]
            assert await successor.append(lane, b"event 1", tail, 2) == tail + 1
            await successor.drop(lane)
            assert await successor.append(lane, b"event 1", 0, 1) == 1

        self._run(scenario)

    def test_two_writers_of_a_lane_never_share_a_sequence(self) -> None:
        async def scenario(world: _World) -> None:
            one, other, lane = await world.store(), await world.store(), world.name()
            stored = [
                store.append(lane, b"%d %d" % (who, n), None if n % 3 else n)
                for n in range(200)
                for who, store in enumerate((one, other))
            ]
            given = [sequence for sequence in await asyncio.gather(*stored) if sequence is not None]
            records, tail = await one.read(lane)
            assert sorted(given) == [sequence for sequence, _ in records] == list(range(1, tail + 1))

        self._run(scenario)

    def test_a_read_has_everything_that_was_confirmed_before(self) -> None:
        async def scenario(world: _World) -> None:
            one, other, lane = await world.store(), await world.store(), world.name()
            for n in range(1, 40):
                sequences = await asyncio.gather(*(one.append(lane, b"%d" % k) for k in range(n)))
                records, tail = await other.read(lane, max(0, (sequences[0] or 0) - 1))
                assert [s for s, _ in records] == sequences
                assert tail == sequences[-1]

        self._run(scenario)

    def test_large_and_many_records_are_read_back(self) -> None:
        async def scenario(world: _World) -> None:
            store, lane = await world.store(), world.name()
            sizes = [0, 1, 200_000, *[1000] * 12_000, 300_000, 500_000, 0]
            for start in range(0, len(sizes), MANY):
                await asyncio.gather(
                    *(store.append(lane, bytes(size)) for size in sizes[start : start + MANY])
                )
            records, tail = await store.read(lane)
            assert tail == len(sizes)
            assert [len(record) for _, record in records] == sizes

        self._run(scenario)

    def test_truncation_keeps_the_sequences(self) -> None:
        async def scenario(world: _World) -> None:
            one, other, lane = await world.store(), await world.store(), world.name()
            await one.truncate(lane, 5)  # there is none yet
            await asyncio.gather(*(one.append(lane, b"%d" % n) for n in range(1, 11)))
            await other.truncate(lane, 4)
            await other.truncate(lane, 2)
            assert await one.read(lane) == ([(n, b"%d" % n) for n in range(5, 11)], 10)
            await one.truncate(lane, 1000)
            assert await other.read(lane) == ([], 10)
            assert await other.append(lane, b"x", 0) is None
            assert await other.append(lane, b"11", 10) == 11
            assert await one.read(lane) == ([(11, b"11")], 11)

        self._run(scenario)

    def test_lanes_are_kept_apart_listed_and_dropped(self) -> None:
        async def scenario(world: _World) -> None:
            one, other, base = await world.store(), await world.store(), world.name()
            names = [
                f"{base}.{end}" for end in ("a", "a.b", "a_b", "a-b", "A", "ü", "$x", "a_2Eb", "é" * 100)
            ]
            for name in names:
                assert await one.append(name, name.encode(), 0) == 1
            for name in names:
                assert await other.read(name) == ([(1, name.encode())], 1)
            assert sorted(n for n in await other.lanes() if n.startswith(base)) == sorted(names)
            await one.drop(names[0])
            await one.drop(names[0])
            assert names[0] not in await other.lanes()
            assert await one.read(names[0]) == ([], 0)
            assert await one.append(names[0], b"new", 0) == 1

        self._run(scenario)

    # Nonsense, and the end.

    def test_nonsense_is_refused_by_name(self) -> None:
        async def scenario(world: _World) -> None:
            store, name = await world.store(), world.name()
            names: tuple[Any, ...] = ("", "a..b", "a b", "a.*", ">", "a/b", "x" * 300, None, 7, ["a"])
            for bad in names:
                await _refused(ConfigError, partial(store.look, bad))
                await _refused(ConfigError, partial(store.decide, bad, b"", 0))
                await _refused(ConfigError, partial(store.append, bad, b""))
                await _refused(ConfigError, partial(store.read, bad))
            values: tuple[Any, ...] = ("text", None, bytearray(b"x"), 7)
            for value in values:
                await _refused(PayloadError, partial(store.decide, name, value, 0))
                await _refused(PayloadError, partial(store.append, name, value))
            numbers: tuple[Any, ...] = (-1, 1.5, "1", True, 2**60)
            for number in numbers:
                await _refused(ConfigError, partial(store.decide, name, b"", number))
                await _refused(ConfigError, partial(store.append, name, b"", number))
                await _refused(ConfigError, partial(store.read, name, number))
                await _refused(ConfigError, partial(store.read, name, 0, number))
                await _refused(ConfigError, partial(store.truncate, name, number))
            too_large = bytes(70 * 1024 * 1024)
            await _refused(PayloadError, lambda: store.append(name, too_large))
            assert await store.read(name) == ([], 0)
            assert name not in await store.keys()

        self._run(scenario)

    def test_a_closed_store_says_so(self) -> None:
        async def scenario(world: _World) -> None:
            store, name = await world.store(), world.name()
            await store.append(name, b"x")
            await store.close()
            await store.close()
            await _refused(ClosedError, lambda: store.append(name, b"y"))
            await _refused(ClosedError, lambda: store.decide(name, b"y", 0))

        self._run(scenario)

    # Outages.

    def test_a_restart_of_the_server_loses_nothing(self) -> None:
        async def scenario(world: _World) -> None:
            store, key, lane, empty = await world.store(), world.name(), world.name(), world.name()
            told = await world.watch(store, key)
            revision = await store.decide(key, b"before", 0)
            assert revision is not None
            await asyncio.gather(*(store.append(lane, b"%d" % n) for n in range(1, 101)))
            await asyncio.gather(*(store.append(empty, b"%d" % n) for n in range(1, 101)))
            await store.truncate(lane, 50)
            await store.truncate(empty, 100)
            await asyncio.to_thread(self.restart_server)
            assert await world.retry(lambda: store.look(key)) == (revision, b"before")
            records = [(n, b"%d" % n) for n in range(51, 101)]
            assert await world.retry(lambda: store.read(lane)) == (records, 100)
            assert await world.retry(lambda: store.read(empty)) == ([], 100)
            assert await world.retry(lambda: store.append(lane, b"101", 100)) == 101
            assert await world.retry(lambda: store.append(empty, b"101", 100)) == 101
            after = await world.retry(lambda: store.decide(key, b"after", revision))
            await world.until(lambda: told[-1] == (after, b"after"))
            assert told == [(revision, b"before"), (after, b"after")]

        if self.can_restart and self.survives_a_restart:
            self._run(scenario)

    def test_a_watch_is_told_what_changed_during_its_outage(self) -> None:
        async def scenario(world: _World) -> None:
            store, key = await world.store(), world.name()
            told = await world.watch(store, key)
            for n in range(3):
                await asyncio.to_thread(self.restart_server)
                last, value = await world.retry(lambda: store.look(key)), b"%d" % n
                await world.retry(partial(store.decide, key, value, last[0] if last else 0))
                await world.until(partial(lambda value: bool(told) and told[-1][1] == value, value))

        if self.can_restart and self.survives_a_restart:
            self._run(scenario)

    def test_every_wait_is_bounded_while_the_server_is_away(self) -> None:
        async def scenario(world: _World) -> None:
            store, key, lane = await world.store(), world.name(), world.name()
            await store.append(lane, b"x")
            under_way = [store.append(lane, bytes(1000)) for _ in range(500)]
            await asyncio.to_thread(self.stop_server)
            loop = asyncio.get_running_loop()
            try:
                start = loop.time()
                results = await asyncio.gather(*under_way, return_exceptions=True)
                given = [result for result in results if isinstance(result, int)]
                failed = [r for r in results if isinstance(r, (ConnectionError, UnconfirmedError))]
                assert len(given) + len(failed) == 500
                assert loop.time() - start < self.bound_s
                attempts: list[Callable[[], Awaitable[Any]]] = [
                    lambda: store.append(lane, b"y"),
                    lambda: store.look(key),
                    lambda: store.decide(key, b"", 0),
                    lambda: store.read(lane),
                    lambda: store.keys(),
                    lambda: store.watch(key, lambda *change: None),
                ]
                for attempt in attempts:
                    start = loop.time()
                    await _refused((ConnectionError, UnconfirmedError), attempt)
                    assert loop.time() - start < self.bound_s
            finally:
                await asyncio.to_thread(self.start_server)
            if self.survives_a_restart:
                _, tail = await world.retry(lambda: store.read(lane))
                assert tail >= 1 + len(given)

        if self.can_restart:
            self._run(scenario)

    # How it is done.

    def _run(self, scenario: Callable[[_World], Coroutine[Any, Any, None]]) -> None:
        async def in_a_world() -> None:
            async with AsyncExitStack() as stack:
                async with asyncio.timeout(self.patience_s * 4 + 60):
                    await scenario(_World(self, stack))

        asyncio.run(in_a_world())


async def _refused(
    error: type[Exception] | tuple[type[Exception], ...], attempt: Callable[[], Awaitable[Any]]
) -> None:
    try:
        result = await attempt()
    except error as refusal:
        if str(refusal):
            return
        raise AssertionError(f"{type(refusal).__name__} does not say why") from refusal
    raise AssertionError(f"this must be refused, and gave {result!r}")


class _World:
    """The stores of one test, all closed at its end."""

    def __init__(self, suite: StoreContract, stack: AsyncExitStack) -> None:
        self._suite = suite
        self._stack = stack

    def name(self) -> str:
        """A name that nobody else uses."""
        return f"contract.{secrets.token_hex(6)}"

    async def store(self) -> Store:
        """One more connection, and its store."""
        service = self._suite.make_service()
        await service.connect()
        self._stack.push_async_callback(service.close)
        store = await open_store(service)
        self._stack.push_async_callback(store.close)
        return store

    async def watch(self, store: Store, key: str) -> list[tuple[int, bytes]]:
        """What is told of a record, as a list that grows."""
        told: list[tuple[int, bytes]] = []
        await store.watch(key, lambda revision, value: told.append((revision, value)))
        return told

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait for a condition, not for a time."""
        async with asyncio.timeout(self._suite.patience_s):
            while not condition():  # noqa: ASYNC110
                await asyncio.sleep(0.002)

    async def retry(self, attempt: Callable[[], Awaitable[Any]]) -> Any:
        """Try until the server is there again."""
        async with asyncio.timeout(self._suite.patience_s):
            while True:
                try:
                    return await attempt()
                except (ConnectionError, UnconfirmedError):
                    await asyncio.sleep(0.02)
