"""Nodes and publishers of four topics, of which D shares nobody with A and B, and what they are told."""

from unisono.engines.effects import Append
from unisono.engines.inputs import Appended, Controlled, ReadBack
from unisono.engines.takeover.control import Intent, first_control, next_plan
from unisono.engines.topic_managers.publisher import Publisher
from unisono.model.bundles import Bundle
from unisono.model.frames import Publication, Registration
from unisono.model.runs import creates_of

TOPICS = ("A", "B", "C", "D")
HOLDERS = [("A", "B", "C"), ("A", "B", "C"), ("C", "D"), ("C", "D")]
HELD = tuple(Registration(f"s{i}", 1, topics) for i, topics in enumerate(HOLDERS))


def control(kind):
    plan = next_plan(Intent(kind, TOPICS), HELD, threshold=2, epoch=0)
    return first_control(plan, dict.fromkeys(TOPICS, "N1"), ["N1"])


def serving(made, kind="line"):
    for effect in made.handle(Controlled(control(kind)), 0.0):
        made.handle(ReadBack(effect.lane, (), 0), 0.0)
    for manager in made.managers.values():
        manager.register_all(held for held in HELD if manager.topic in held.topics)
    return made


def published(names, first=1):
    return [Publication("p", 0, n, topic, b"%d" % n, 0, float(n), n) for n, topic in enumerate(names, first)]


def stored(node, effects):
    """Confirm appends until there are none; returns the records and everything else that was asked for."""
    records, rest, queue = [], [], list(effects)
    while queue:
        effect = queue.pop(0)
        if isinstance(effect, Append):
            records.append(effect.record)
            queue += node.handle(Appended(effect.lane, effect.record, effect.expected + 1), 0.0)
        else:
            rest.append(effect)
    return records, rest


def publisher(**options):
    made = Publisher(**options)
    made.handle(Controlled(control("line")), 0.0)
    return made


def sent(effects):
    return [
        [p.n for p, _ in creates_of(e.message)]
        if isinstance(e.message, Bundle)
        else [e.message.message.publication.n]
        for e in effects
    ]
