"""Whatever anybody sends: a node survives it, stays within its bounds, and goes on serving those who are honest."""

from random import Random

import msgspec
import pytest

from unisono.engines.effects import Append, Decide, Look, Read, Reject, Send, Truncate
from unisono.engines.inputs import Appended, Controlled, ReadBack, Received, Tick
from unisono.engines.links import Arrived, Links
from unisono.engines.takeover.control import Intent, first_control, next_plan
from unisono.engines.takeover.settings import NodeSettings
from unisono.engines.topic_managers.node import ManagerNode
from unisono.model import frames
from unisono.model.codec import decode_packet, encode_packet
from unisono.model.frames import (
    Create,
    Done,
    Fill,
    Join,
    Joined,
    Nack,
    Packet,
    Prepare,
    Prepared,
    Publication,
    Refused,
    Registration,
    Replan,
    Report,
    Routed,
    Sequenced,
    Stamped,
)
from unisono.model.ids import EventId

SETTINGS = NodeSettings(
    plan="forest",
    topics_max=12,
    client_topics_per_minute=4,
    client_epochs_per_minute=4,
    node_names="N",
    queue_max=64,
)
NUMBERS = (-(2**63), -1, 0, 1, 2, 3, 1000, 2**31, 2**63, 2**64 - 1)
NAMES = (
    "A",
    "B",
    "",
    "no topic",
    "x.y",
    "x.*",
    ">",
    "new.1",
    "new.2",
    "manager/A",
    "é" * 300,
    "N1",
    "evil",
    "s",
)


class System:
    """One node with its lanes and its control record; everything it asks for is done at once."""

    def __init__(self, settings=SETTINGS):
        plan = next_plan(Intent("forest", ("A", "B")), (), threshold=2, epoch=0)
        self.control = first_control(plan, {"A": "N1", "B": "N1"}, ["N1", "N2"])
        self.lanes = {}
        self.cut = {}
        self.sent = []
        self.now = 0.0
        self.node = ManagerNode("N1", settings)
        self.give(Controlled(self.control))

    def give(self, input):
        todo = [input]
        while todo:
            effects = self.node.handle(todo.pop(0), self.now)
            self.node.check()
            for effect in effects:
                todo += self.carry_out(effect)

    def carry_out(self, effect):
        match effect:
            case Append(lane, record, expected):
                records = self.lanes.setdefault(lane, [])
                if expected is not None and expected != len(records):
                    return [Appended(lane, record, None)]
                records.append(record)
                return [Appended(lane, record, len(records))]
            case Read(lane, after):
                records = self.lanes.get(lane, [])
                kept = records[max(after, self.cut.get(lane, 0)) :]
                return [ReadBack(lane, tuple(kept), len(records), after)]
            case Truncate(lane, up_to):
                self.cut[lane] = max(self.cut.get(lane, 0), up_to)
            case Decide(control):
                if control.version == self.control.version + 1:
                    self.control = control
                return [Controlled(self.control)]
            case Look():
                return [Controlled(self.control)]
            case Send("N1", message):
                return [Received("N1", message)]
            case Send(to, message):
                self.sent.append((to, message))
        return []

    def pass_time(self, seconds):
        end = self.now + seconds
        while (due := self.node.next_timer()) is not None and due <= end:
            self.now = max(self.now, due)
            self.give(Tick())
        self.now = end


class Forger:
    """Draws messages that decode, and make no sense otherwise."""

    def __init__(self, random, whoami):
        self.random = random
        self.whoami = whoami

    def name(self):
        return self.random.choice((*NAMES, self.whoami))

    def number(self):
        return self.random.choice(NUMBERS)

    def names(self):
        return tuple(self.name() for _ in range(self.random.choice((0, 1, 2, 3, 40))))

    def entries(self):
        return {self.name(): self.number() for _ in range(self.random.randint(0, 4))}

    def publication(self):
        n = abs(self.number())
        return Publication(self.name(), abs(self.number()), n, self.name(), b"x", published_at=float("nan"))

    def registration(self):
        return Registration(self.name(), self.number(), self.names(), self.number())

    def stamped(self):
        return Stamped(self.publication(), self.number(), self.entries())

    def message(self):
        make = self.random.choice(
            (
                lambda: Create(self.publication(), self.number(), self.number()),
                lambda: Fill(self.publication(), self.number(), self.entries(), self.names(), self.names()),
                lambda: Sequenced(self.name(), EventId("p", 0, 1), self.number(), self.entries()),
                lambda: frames.Completed(self.name(), EventId("p", 0, 1), self.number(), self.entries()),
                lambda: Done(self.stamped()),
                lambda: Join(self.registration(), self.names(), self.number(), self.entries(), self.names()),
                lambda: Join(self.registration(), self.names(), 0, {}, self.names()),
                lambda: Joined(self.number(), self.names(), self.number(), self.entries()),
                lambda: self.nack(),
                lambda: frames.Repair(self.name(), (self.stamped(),), (1, 2), self.number()),
                lambda: Prepare(self.number(), self.name()),
                lambda: Prepared(self.number(), self.name()),
                lambda: self.replan(),
                lambda: self.replan(),
                lambda: Refused(self.name(), self.names()),
                lambda: Report(self.registration(), self.names()),
            )
        )
        message = make()
        if isinstance(message, Create | Fill | Done | Join | Nack) and self.random.random() < 0.8:
            message = Routed(self.name(), message)
        return decode_packet(encode_packet(Packet(1, 0, message))).message

    def nack(self):
        numbers = tuple(self.number() for _ in range(self.random.choice((0, 2, 5000))))
        return Nack(self.name(), self.name(), numbers, self.number())

    def replan(self):
        return Replan(
            self.random.choice((0, 1, 2, 3, -1, 2**63)),
            self.names(),
            self.names(),
            self.random.choice(("", self.name())),
            self.names(),
            self.random.choice((None, self.registration())),
            {self.name(): self.name()},
            self.random.choice(("", self.name())),
            self.name(),
        )


def serves(system, life):
    """Whether an honest publisher and an honest subscriber are served."""
    publication = Publication("honest", life, 1, "A")
    for _ in range(6):
        system.sent.clear()
        system.give(Received("honest", Routed("A", Create(publication, 1))))
        path = system.control.join_path(("A", "B"))
        held = Registration("friend", 1, ("A", "B"))
        if path is None:
            system.give(Received("friend", Replan(system.control.epoch, ("A", "B"))))
        else:
            join = Join(held, ("A", "B"), system.control.epoch, {}, path[1:])
            system.give(Received("friend", Routed(path[0], join)))
        if {type(message) for _, message in system.sent} >= {Sequenced, Joined}:
            return True
        system.pass_time(1.0)
    return False


@pytest.mark.parametrize("seed", range(12))
def test_strangers_may_send_anything(seed):
    random = Random(f"hostile {seed}")
    system = System()
    for turn in range(600):
        whoami = random.choice(("evil", "evil", "mallory", "manager/A", ""))
        system.give(Received(whoami, Forger(random, whoami).message()))
        if turn % 50 == 0:
            system.pass_time(0.7 * random.random())
            assert serves(system, turn + 1)
    assert serves(system, 10_000)
    assert set(system.control.nodes) == {"N1", "N2"}
    assert len(system.control.owner) <= SETTINGS.topics_max


@pytest.mark.parametrize("seed", range(12))
def test_not_even_a_node_gone_mad_breaks_another(seed):
    random = Random(f"mad {seed}")
    system = System()
    for turn in range(400):
        whoami = random.choice(("N1", "N2", "evil", "s", "A", "N7"))
        system.give(Received(whoami, Forger(random, whoami).message()))
        if turn % 20 == 0:
            system.pass_time(random.random())


def test_one_stranger_costs_no_more_than_its_due():
    random = Random("greedy")
    system = System()
    forger = Forger(random, "evil")
    for i in range(3000):
        publication = Publication("evil", i, 1, "A")
        system.give(Received("evil", Routed("A", Create(publication, 0))))
        held = Registration("evil", i, ("A",))
        system.give(Received("evil", Routed("A", Join(held, ("A",), 7 + i, {}, ()))))
        system.give(Received("evil", Report(held, ("x.*",))))
        system.give(Received("evil", Routed("A", Fill(publication, 9 + i, {"A": 1}, (), ()))))
        system.give(Received("evil", Replan(system.control.epoch, topics=(f"evil.{i}",))))
        system.give(Received("evil", forger.message()))
    node = system.node
    assert len(node.asking) <= 1
    assert not node.early
    assert len(node.planner.reports) <= 2
    assert all(
        len([key for key in manager.seen if key[0] == "evil"]) <= 8 for manager in node.managers.values()
    )
    assert len(system.control.owner) <= 2 + SETTINGS.client_topics_per_minute
    assert system.control.epoch <= 2 * SETTINGS.client_epochs_per_minute


def test_what_only_nodes_may_say_is_believed_from_nodes_only():
    system = System()
    publication = Publication("evil", 1, 1, "A")
    for message in (
        Routed("A", Fill(publication, 0, {"A": 2**60}, (), ())),
        Routed("A", Done(Stamped(publication, 0, {"A": 1}))),
        Routed("A", Join(Registration("evil", 1, ("A",)), ("A",), 0, {"A": 2**60}, ())),
        Prepare(1, "evil"),
        Prepared(1, "N2"),
        Replan(0, rank=("B", "A")),
        Replan(0, moves={"A": "N2"}),
        Replan(0, leaving="N2"),
        Replan(0, alive="evil"),
        Report(Registration("friend", 5, ())),
        Routed("A", Join(Registration("friend", 1, ("A",)), ("A",), 0, {}, ())),
        Routed("A", Create(Publication("honest", 1, 1, "A"))),
        Routed("A", Nack("A", "friend", (1,))),
    ):
        effects = system.node.handle(Received("evil", message), 0.0)
        assert all(isinstance(effect, Reject) for effect in effects), message
    assert system.node.frozen_until is None
    assert system.node.planner.reports == {}


def test_absurd_acknowledgements_do_not_keep_a_link_busy():
    links = Links(ManagerNode("N1", SETTINGS), life=1)
    for acknowledged in (2**63, 2**64 - 1):
        links.handle(Arrived("evil", Packet(0, acknowledged, None, 2**63, 1)), 0.0)
    links.handle(Arrived("evil", Packet(2**64 - 1, 0, Replan(0), 2**63, 1)), 0.0)
    links.check()


def test_a_join_that_does_not_climb_the_plan_is_rejected():
    system = System()
    for rest in ((), ("A", "B"), ("B",), ("nowhere",)):
        join = Join(Registration("evil", 1, ("A", "B")), ("A", "B"), 0, {}, rest)
        (effect,) = system.node.handle(Received("evil", Routed("A", join)), 0.0)
        assert isinstance(effect, Reject)


@pytest.mark.parametrize("weight", [-5, 0, 2**40])
def test_a_weight_that_would_hide_what_others_share_is_refused(weight):
    system = System()
    join = Join(Registration("evil", 1, ("A",), weight), ("A",), 0, {}, ())
    (effect,) = system.node.handle(Received("evil", Routed("A", join)), 0.0)
    assert isinstance(effect, Send)
    assert isinstance(effect.message, Refused)


def test_who_holds_too_much_is_told_so():
    system = System(msgspec.structs.replace(SETTINGS, subscriber_topics_max=1))
    join = Join(Registration("s", 1, ("A", "B")), ("A", "B"), 0, {}, ("A",))
    system.give(Received("s", Routed("B", join)))
    system.give(Received("s", Replan(0, ("A", "B"))))
    assert [(to, type(message)) for to, message in system.sent] == [("s", Refused), ("s", Refused)]
