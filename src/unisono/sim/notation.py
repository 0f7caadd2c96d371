"""Inputs and effects as text: one line each, readable, and the same for equal things on every machine.

Traces are hashed and transcripts are compared line by line, so nothing here may depend on the order of a set.
"""

from __future__ import annotations

from collections.abc import Iterable

from unisono.engines import effects as fx
from unisono.engines.inputs import (
    Appended,
    Change,
    Controlled,
    Input,
    Lost,
    Notified,
    Publish,
    ReadBack,
    Received,
    Suspected,
    Tick,
)
from unisono.engines.links import Arrived, LinkEffect, Transmit
from unisono.engines.takeover.control import Control
from unisono.model import bundles, frames, lanes
from unisono.model.frames import Entries, Message, Notification, Packet, Publication, Run, Stamped
from unisono.model.runs import creates_of, run_of


def show_publication(publication: Publication) -> str:
    """alice/0/3 on T1."""
    return f"{publication.id} on {publication.topic}"


def show_entries(entries: Entries) -> str:
    """{T1:4 T2:1}."""
    return "{" + " ".join(f"{topic}:{entries[topic]}" for topic in sorted(entries)) + "}"


def show_event(event: Stamped) -> str:
    """alice/0/3 T1#4 {T1:4 T2:1}."""
    epoch = f" epoch {event.epoch}" if event.epoch else ""
    number = event.entries.get(event.topic, "?")
    return f"{event.publication.id} {event.topic}#{number} {show_entries(event.entries)}{epoch}"


def show_numbers(topic: str, numbers: Iterable[int]) -> str:
    """T1 #3 #4."""
    return topic + "".join(f" #{number}" for number in numbers)


def show_notification(notification: Notification) -> str:
    """What the event notification service carries."""
    match notification:
        case Stamped():
            return show_event(notification)
        case bundles.StampedBundle(node=node, index=index):
            events = "; ".join(show_event(event) for event in run_of(notification).events())
            return f"piece of bundle {index} of {node}: {events}"
        case Run():
            places = range(len(notification))
            return "run of " + "; ".join(show_event(notification.stamped(place)) for place in places)
        case frames.Heartbeat(topic, _, newest):
            return f"heartbeat {topic} newest #{newest}"
        case frames.PeerAsk(topic, subscriber, numbers):
            return f"{subscriber} asks for {topic} {list(numbers)}"
        case frames.PeerTell(topic, events):
            return f"a peer tells {topic}: " + "; ".join(map(show_event, events))
        case Publication():
            return show_publication(notification)
        case frames.EpochNotice(epoch, numbers, voids):
            missing = "".join(f" void {t} {a}-{b}" for t, ranges in sorted(voids.items()) for a, b in ranges)
            return f"epoch {epoch} after {show_entries(numbers)}{missing}"
    return "batch of " + "; ".join(show_publication(p) for p in notification.publications)


def show_message(message: Message) -> str:
    """What links carry."""
    match message:
        case frames.Create(publication, acknowledged):
            return f"create {show_publication(publication)}, forget below {acknowledged}"
        case bundles.Bundle(serial=serial, acknowledged=acknowledged):
            events = "; ".join(show_publication(p) for p, _ in creates_of(message))
            return f"bundle {serial} of {events}, forget below {acknowledged}"
        case bundles.SequencedBundle(_, serial, _, clock):
            return f"sequenced bundle {serial} after {show_entries(clock)}"
        case frames.Fill(publication, _, entries, need, rest):
            way = f"need {_list(need)}, rest {_list(rest)}"
            return f"fill {show_publication(publication)} {show_entries(entries)}, {way}"
        case frames.Sequenced(topic, id, _, entries, repeated):
            return f"sequenced {id} on {topic} {show_entries(entries)}{' before' if repeated else ''}"
        case frames.Completed(topic, id, _, entries):
            return f"completed {id} on {topic} {show_entries(entries)}"
        case frames.Done(event):
            return f"done {event.publication.id} on {event.topic} {show_entries(event.entries)}"
        case frames.Nack(topic, subscriber, numbers):
            return f"nack {show_numbers(topic, numbers)} for {subscriber}"
        case frames.Repair(topic, events, gone, newest):
            found = "; ".join(show_event(event) for event in events) or "nothing"
            return f"repair {topic} newest #{newest}, gone {show_numbers('', gone).strip() or '-'}: {found}"
        case frames.Routed(topic, inner):
            return f"to {topic}: {show_message(inner)}"
        case frames.Join(registration, new, epoch, reached, rest):
            who, way = show_registration(registration), f"rest {_list(rest)}"
            return f"join {who} for {_list(new)} in epoch {epoch} {show_entries(reached)}, {way}"
        case frames.Joined(version, new, epoch, reached):
            return f"joined {_list(new)} by version {version} in epoch {epoch} {show_entries(reached)}"
        case frames.Report(registration, patterns):
            return f"report {show_registration(registration)} and {_list(patterns)}"
        case frames.Prepare(epoch, planner):
            return f"prepare epoch {epoch} for {planner}"
        case frames.Prepared(epoch, node):
            return f"{node} is prepared for epoch {epoch}"
        case frames.Replan():
            return show_replan(message)
        case frames.Recall(subscriber, names, until, epoch, index):
            return f"recall {_list(names)} for {subscriber} from {index} of epoch {epoch} up to {until}"
        case frames.Recalled(asked, events, epoch, index, floors, done):
            found = "; ".join(show_event(event) for event in events) or "nothing"
            begins = "" if floors is None else f", begins {show_entries(floors)}"
            end = ", done" if done else ""
            return f"recalled from {asked[1]} of {asked[0]} to {index} of {epoch}{begins}{end}: {found}"
        case frames.Refused(reason, topics):
            return f"refused {_list(topics)}: {reason}"
    raise TypeError(f"{type(message).__name__} is no message")


def show_replan(replan: frames.Replan) -> str:
    """Replan epoch 3: wants T1,T2."""
    held = replan.patterns
    parts = {
        "wants": _list(replan.wants),
        "topics": _list(replan.topics),
        "patterns": "-" if held is None else show_registration(held),
        "rank": _list(replan.rank),
        "alive": replan.alive or "-",
        "moves": _list(f"{topic} to {node}" for topic, node in sorted(replan.moves.items())),
        "leaving": replan.leaving or "-",
        "view": "-" if replan.view is None else show_registration(replan.view),
        "without view": replan.drop_view or "-",
        "closes": _list(replan.close),
        "for": replan.asks or "-",
    }
    said = ", ".join(f"{name} {value}" for name, value in parts.items() if value != "-")
    return f"replan epoch {replan.epoch}: {said or 'just so'}"


def show_registration(registration: frames.Registration) -> str:
    """s1 version 2 holds T1,T2."""
    return f"{registration.subscriber} version {registration.version} holds {_list(registration.topics)}"


def show_record(record: lanes.LaneRecord) -> str:
    """What lanes store."""
    match record:
        case lanes.EventRecord(epoch, index, event):
            return f"[{epoch}.{index}] {show_event(event)}"
        case lanes.BundleRecord(epoch, index, bundle):
            return f"[{epoch}.{index}] " + "; ".join(show_event(event) for event in run_of(bundle).events())
        case lanes.JoinRecord(epoch, index, registration, reached):
            return f"[{epoch}.{index}] {show_registration(registration)} {show_entries(reached)}"
        case lanes.SealRecord(epoch):
            return f"seal {epoch}"
        case lanes.EpochRecord(_, notice):
            return show_notification(notice)


def show_control(control: Control) -> str:
    """version 3: epoch 2 sealing by N1, rank T1,T2, owners N1,N2, nodes N1,N2,N3, dead N3."""
    owners = _list(control.owner[topic] for topic in control.plan.rank)
    by = f" by {control.decider}" if control.state == "sealing" else ""
    return (
        f"version {control.version}: epoch {control.epoch} {control.state}{by}, "
        f"rank {_list(control.plan.rank)}, owners {owners}, nodes {_list(control.nodes)}, "
        f"dead {_list(control.dead)}{_patterns(control)}"
    )


def _patterns(control: Control) -> str:
    held = [f"{name} {_list(r.topics)}" for name, r in sorted(control.patterns.items())]
    views = [f"{name} {_list(r.topics)}" for name, r in sorted(control.views.items())]
    said = f", patterns {'; '.join(held)}" if held else ""
    return said + (f", views {'; '.join(views)}" if views else "")


def show_packet(packet: Packet) -> str:
    """3, heard 2: create …"""
    if packet.message is None:
        return f"heard {packet.acknowledged}"
    return f"{packet.number}, heard {packet.acknowledged}: {show_message(packet.message)}"


def show_input(input: Input | Arrived) -> str:
    """What happened to an engine."""
    match input:
        case Publish(publications):
            return "publish " + "; ".join(show_publication(p) for p in publications)
        case Received(source, message):
            return f"from {source}: {show_message(message)}"
        case Notified(notification):
            return f"notified {show_notification(notification)}"
        case Tick():
            return "tick"
        case Lost(peer, messages):
            return f"{peer} began a new life, lost are " + "; ".join(map(show_message, messages))
        case Change(add, remove):
            return f"wants {_list(add)}, leaves {_list(remove)}"
        case Controlled(control):
            return f"control {show_control(control)}"
        case Appended(lane, record, sequence):
            answer = "refused" if sequence is None else f"stored at {sequence}"
            return f"{lane} {answer}: {show_record(record)}"
        case ReadBack(lane, _, tail):
            return f"{lane} read from {input.first} up to {tail}"
        case Suspected(node):
            return f"suspects {node}"
        case Arrived(source, packet):
            return f"packet from {source} {show_packet(packet)}"
    raise TypeError(f"{type(input).__name__} is no input")


def show_effect(effect: LinkEffect) -> str:
    """What an engine asks for."""
    match effect:
        case fx.Send(to, message):
            return f"send {to}: {show_message(message)}"
        case Transmit(to, packet):
            return f"packet to {to} {show_packet(packet)}"
        case fx.Announce(topics, notification):
            return f"announce on {_list(topics)}: {show_notification(notification)}"
        case fx.Deliver(events, in_order):
            tagged = "" if in_order else " tagged"
            return f"deliver{tagged} " + "; ".join(show_event(event) for event in events)
        case fx.DeliverRun():
            return "deliver run " + "; ".join(show_event(event) for event in effect.events)
        case fx.Acknowledge(sequenced):
            return f"acknowledge {sequenced.id} on {sequenced.topic} {show_entries(sequenced.entries)}"
        case fx.AcknowledgeRun(run):
            return "acknowledge run " + "; ".join(show_publication(p) for p in run.publications)
        case fx.Drop(event, reason):
            return f"drop {show_event(event)}: {reason}"
        case fx.Lose(topic, numbers):
            return f"lose {show_numbers(topic, numbers)}"
        case fx.Reject(error):
            return f"reject {type(error).__name__}: {error}"
        case fx.Fail(error):
            return f"fail {type(error).__name__}: {error}"
        case fx.Listen(topics):
            return f"listen {_list(topics)}"
        case fx.Ignore(topics):
            return f"ignore {_list(topics)}"
        case fx.Admit(floors):
            return f"admit {show_entries(floors)}"
        case fx.Append(lane, record, expected):
            place = "the end" if expected is None else str(expected)
            return f"append to {lane} after {place}: {show_record(record)}"
        case fx.Read(lane, after, limit):
            some = "" if limit is None else f", at most {limit}"
            return f"read {lane}" + (f" behind {after}" if after else "") + some
        case fx.Decide(control):
            return f"decide {show_control(control)}"
        case fx.Look():
            return "look"
        case fx.Truncate(lane, up_to):
            return f"truncate {lane} up to {up_to}"
        case fx.Confirm(patterns):
            return f"confirm {_list(patterns)}"
        case fx.Refuse(id, error):
            return f"refuse {id}: {error}"
    raise TypeError(f"{type(effect).__name__} is no effect")


def _list(names: Iterable[str]) -> str:
    return ",".join(names) or "-"
