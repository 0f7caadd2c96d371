"""Carrying out what an engine asks for: a packet that goes the same way at once acknowledges for both."""

import asyncio

import pytest

from unisono.engines.effects import Look, Send
from unisono.engines.inputs import Received, Suspected
from unisono.model.frames import Packet, Registration, Report
from unisono.runtime.remote.host import Host

SAYS = Report(Registration("s", 1, ("a",)))


class Engine:
    """Asks for something, and answers when that is done."""

    def __init__(self, answers_to):
        self.answers_to = answers_to

    def handle(self, input, now):
        if isinstance(input, Received):
            return [Look()]
        return [Send(self.answers_to, SAYS)] if self.answers_to else []

    def next_timer(self):
        return None


@pytest.mark.parametrize(
    ("answers_to", "packets"),
    [
        (None, [("a", False)]),  # nothing else says that it was heard
        ("a", [("a", True)]),
        ("b", [("a", False), ("b", True)]),
    ],
)
def test_whoever_is_heard_is_told_once(answers_to, packets):
    async def main():
        sent: list[tuple[str, Packet]] = []

        def carry_out(effect):
            host.handle(Suspected("done"))

        host = Host("n", Engine(answers_to), 0, lambda to, packet: sent.append((to, packet)), carry_out)
        host.arrived("a", Packet(1, 0, SAYS, 0, 0))
        host.close()
        assert [(to, packet.message is not None) for to, packet in sent] == packets
        assert [packet.acknowledged for to, packet in sent if to == "a"] == [1]

    asyncio.run(main())
