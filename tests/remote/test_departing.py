"""A single event leaves at once while nothing is under way; what one turn publishes after it leaves together."""

from remote_kit import connect, nodes, run, take

from unisono.runtime.publishing import Publishing
from unisono.runtime.remote.client import Client


def watched(monkeypatch):
    """How many events each flight had when it left, and whether that was while the publisher was still at it."""
    flights, busy = [], []
    depart, publish = Client.depart, Publishing.publish_nowait

    def departs(self, flight):
        flights.append((len(flight.publications), bool(busy)))
        depart(self, flight)
        assert not self.is_quiet  # until they have their places

    def publishes(self, *args, **options):
        busy.append(None)
        try:
            return publish(self, *args, **options)
        finally:
            busy.pop()

    monkeypatch.setattr(Client, "depart", departs)
    monkeypatch.setattr(Publishing, "publish_nowait", publishes)
    return flights


async def five_in_one_turn(url, then=()):
    """Publish five events in one turn, and others one after the other; all of them are heard in their order."""
    async with nodes(url, "n1"), connect(url) as bus, bus.subscribe("t") as events:
        for n in range(5):
            bus.publish_nowait("t", n)
        assert [event.data for event in await take(events, 5)] == list(range(5))
        for n in then:
            await bus.publish("t", n)


def test_the_first_event_leaves_at_once_and_the_rest_of_the_turn_together(nats_url, monkeypatch):
    flights = watched(monkeypatch)
    run(five_in_one_turn(nats_url, then=(5, 6)))
    assert flights == [(1, True), (4, False), (1, True), (1, True)]


def test_while_something_is_under_way_the_turn_is_waited_for(nats_url, monkeypatch):
    monkeypatch.setattr(Client, "is_quiet", False)
    flights = watched(monkeypatch)
    run(five_in_one_turn(nats_url))
    assert flights == [(5, False)]
