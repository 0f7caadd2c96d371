"""Places of durable subscribers: the rules, the window, a session's hold, and every interleaving of two sessions."""

from __future__ import annotations

import copy
from itertools import pairwise
from random import Random

import msgspec
import pytest

from unisono.engines.durable.holder import Holder
from unisono.engines.durable.rules import _as_it_is, _write, rule_claim, rule_clear, rule_save
from unisono.engines.durable.window import SIZE_MAX, SIZE_MIN, Window
from unisono.engines.effects import Fail, Hold, Send
from unisono.engines.inputs import TICK, Controlled, Keep, Lost, Received
from unisono.engines.plan import Plan
from unisono.engines.takeover.control import first_control
from unisono.model.errors import ConfigError, HeldError, QuotaError, UnisonoError
from unisono.model.places import Claim, Clear, Place, Placed, Save

NAMES = ("a", "b")
CONTROL = first_control(Plan(rank=(), parent={}, group={}, epoch=0), {}, ("n1", "n2"))
replace = msgspec.structs.replace


def held(session="s1", **fields):
    return Place("desk", NAMES, session, True, 1, **fields)


# The rules.


def test_a_place_begins_with_the_first_claim():
    write, answer = rule_claim(None, Claim("desk", "s1", NAMES))
    assert write == answer.place == held()
    assert write.epoch == -1


def test_a_held_place_is_given_to_nobody_else():
    write, answer = rule_claim(held(), Claim("desk", "s2", NAMES))
    assert write is None
    assert answer.place.session == "s1"


def test_a_claim_may_be_repeated_and_one_that_let_go_does_not_come_back():
    claim = Claim("desk", "s1", NAMES)
    assert rule_claim(held(), claim) == (None, Placed("desk", held()))
    left = replace(held(), is_held=False)
    assert rule_claim(left, claim) == (None, Placed("desk", left))
    assert rule_claim(left, Claim("desk", "s2", NAMES)).write.session == "s2"


@pytest.mark.parametrize(
    ("over", "renewed", "is_taken"), [("s1", 1, True), ("s1", -1, True), ("s1", 0, False), ("s0", -1, False)]
)
def test_a_held_place_is_taken_only_from_whom_it_was_meant(over, renewed, is_taken):
    place = held(acknowledged=3, handed=9, clock={"a": 3}, epoch=2)
    write, answer = rule_claim(place, Claim("desk", "s2", NAMES, over, renewed))
    assert (write is not None) == is_taken
    if is_taken:
        assert write == answer.place == replace(place, session="s2", renewed=2)


def test_other_topics_are_refused_with_the_alternatives():
    write, answer = rule_claim(replace(held(), is_held=False), Claim("desk", "s2", ("a", "c")))
    assert write is None
    assert "keeps a place in a, b, not in a, c" in answer.reason


def test_saves_of_the_holder_count_in_their_order():
    place = held()
    second = Save("s1", replace(place, renewed=3, acknowledged=2, handed=4))
    first = Save("s1", replace(place, renewed=2, acknowledged=1, handed=3))
    after = rule_save(place, second).write
    assert after.acknowledged == 2
    assert rule_save(after, first) == (None, Placed("desk", after))
    assert rule_save(after, second) == (None, Placed("desk", after))


def test_saves_of_others_change_nothing():
    place = held("s2", acknowledged=5, handed=5)
    late = Save("s1", replace(place, session="s1", renewed=9, acknowledged=7, handed=7))
    assert rule_save(place, late) == (None, Placed("desk", place))
    left = replace(place, is_held=False)
    assert rule_save(left, Save("s2", replace(left, renewed=9))) == (None, Placed("desk", left))
    assert rule_save(None, late) == (None, Placed("desk", None))


@pytest.mark.parametrize(
    "fields",
    [
        {"acknowledged": 1},
        {"handed": 1},
        {"clock": {"a": 1}},
        {"epoch": 0},
        {"names": ("x",)},
        {"name": "other"},
        {"session": "s9"},
    ],
    ids=str,
)
def test_a_save_that_goes_back_is_refused(fields):
    place = held(acknowledged=2, handed=4, clock={"a": 2}, epoch=1)
    write, answer = rule_save(place, Save("s1", replace(place, renewed=2, **fields)))
    assert write is None
    assert answer.reason


def test_a_held_place_is_not_forgotten_by_accident():
    assert "is held by 's1'" in rule_clear(held(), Clear("desk")).answer.reason
    assert rule_clear(held(), Clear("desk", even_held=True)).answer == Placed("desk", None)
    assert "there is no durable subscriber" in rule_clear(None, Clear("desk")).answer.reason


# The window.


def test_what_may_have_been_seen_is_marked_and_nothing_else():
    window = Window(held(acknowledged=3, handed=5, clock={"a": 3}, epoch=0))
    window.grant(replace(held(), handed=window.ask().handed))
    assert [window.give("a", n, 0) for n in (4, 5, 6)] == [True, True, False]


def test_nothing_is_handed_out_beyond_what_was_saved():
    window = Window(held(acknowledged=0, handed=0))
    assert window.room == 0
    asked = window.ask()
    assert window.room == 0  # asked is not saved
    window.grant(replace(held(), handed=asked.handed))
    assert window.room == SIZE_MIN
    for n in range(SIZE_MIN):
        window.give("a", n + 1, 0)
    with pytest.raises(AssertionError):
        window.give("a", 99, 0)


def test_an_acknowledgement_covers_everything_before_it():
    window = Window(held(handed=10))
    for topic, number in (("a", 1), ("b", 1), ("a", 2), ("b", 2)):
        window.give(topic, number, 7)
    window.acknowledge(window.find("a", 2))
    assert (window.acknowledged, window.clock, window.epoch) == (3, {"a": 2, "b": 1}, 7)
    assert window.find("b", 1) == 0  # long ago
    assert window.find("b", 9) is None  # never
    keep = window.last()
    assert (keep.acknowledged, keep.handed, keep.is_last) == (3, 10, True)


def test_a_clean_end_leaves_nothing_to_be_marked():
    window = Window(held())
    window.grant(replace(held(), handed=window.ask().handed))
    window.give("a", 1, 0)
    window.acknowledge(1)
    assert window.last().handed == 1


def test_the_window_follows_the_pace():
    window = Window(held())
    number, sizes = 0, []
    for taken in (0, 5, 16, 64, 250, 1000, 10, 0):
        for _ in range(min(taken, window.room)):
            number += 1
            window.give("a", number, 0)
        window.acknowledge(number)
        window.grant(replace(held(), handed=window.ask().handed))
        sizes.append(window.size)
    assert sizes == [16, 20, 64, 256, 1000, SIZE_MAX, SIZE_MAX // 2, SIZE_MAX // 4]


def test_a_window_that_shrinks_takes_back_what_was_not_used():
    window = Window(held())
    window.size = 2000
    window.grant(replace(held(), handed=window.ask().handed))
    assert window.room == 1000
    small = window.ask()
    assert window.room == small.handed == 500  # before anybody has saved it


def test_an_application_that_acknowledges_nothing_is_held_up():
    window = Window(held(handed=100), unacknowledged_max=3)
    for n in (1, 2, 3):
        window.give("a", n, 0)
    assert window.room == 0
    window.acknowledge(1)
    assert window.room == 1


# A session.


class Rig:
    """A holder, and a node that answers at once."""

    def __init__(self, place=None, session="s2", **options):
        self.place, self.now, self.out = place, 0.0, []
        self.holder = Holder("desk", NAMES, session, **options)

    def do(self, input, answers=True):
        effects = self.holder.handle(input, self.now)
        while effects:
            effect = effects.pop(0)
            if not isinstance(effect, Send):
                self.out.append(effect)
            elif answers:
                write, answer = (rule_claim if isinstance(effect.message, Claim) else rule_save)(
                    self.place, effect.message
                )
                self.place = write or self.place
                effects += self.holder.handle(Received(effect.to, answer), self.now)
            else:
                self.out.append(effect)
        self.holder.check()
        return self.out

    def wait(self, until):
        while (due := self.holder.next_timer()) is not None and due <= until:
            self.now = due
            self.do(TICK)
        self.now = until


def test_it_claims_saves_renews_and_lets_go():
    rig = Rig()
    assert rig.do(Controlled(CONTROL)) == [Hold(held("s2"))]
    rig.do(Keep(0, {"a": 1}, 1, 17))
    assert (rig.place.acknowledged, rig.place.handed, rig.place.renewed) == (1, 17, 2)
    rig.wait(3.5)
    assert rig.place.renewed == 5  # one a second
    rig.do(Keep(0, {"a": 2}, 2, 2, is_last=True))
    assert (rig.place.is_held, rig.place.acknowledged, rig.place.handed) == (False, 2, 2)
    assert rig.holder.next_timer() is None


def test_saves_are_one_at_a_time_and_the_newest_follows():
    rig = Rig()
    rig.do(Controlled(CONTROL))
    rig.out.clear()
    for n in (1, 2, 3):
        rig.do(Keep(0, {}, n, n), answers=False)
    assert [effect.message.place.acknowledged for effect in rig.out] == [1]
    save = rig.out[0].message
    effects = rig.holder.handle(Received("n1", Placed("desk", save.place)), 0.1)
    assert [type(effect) for effect in effects] == [Hold, Send]
    assert effects[1].message.place.acknowledged == 3


def test_without_an_answer_the_other_node_is_asked_and_after_a_loss_the_same():
    rig = Rig()
    first = rig.do(Controlled(CONTROL), answers=False)[0]
    rig.now = 1.0
    second = rig.do(TICK, answers=False)[-1]
    assert first.message == second.message
    assert {first.to, second.to} == {"n1", "n2"}
    assert rig.do(Lost(second.to, (second.message,)), answers=False)[-1] == second


def test_a_place_whose_holder_is_alive_is_refused():
    rig = Rig(held())
    rig.do(Controlled(CONTROL))
    assert rig.out == []
    rig.place = replace(rig.place, renewed=2)
    rig.wait(0.6)
    (failure,) = rig.out
    assert isinstance(failure.error, HeldError)
    assert "held='take'" in str(failure.error)


def test_a_place_whose_holder_is_silent_is_taken_after_a_while():
    rig = Rig(held(acknowledged=2, handed=4))
    rig.do(Controlled(CONTROL))
    rig.wait(2.9)
    assert rig.out == []
    rig.wait(3.6)
    assert rig.out[0] == Hold(replace(held("s2", acknowledged=2, handed=4), renewed=2))


def test_a_place_that_is_let_go_meanwhile_is_taken_at_once():
    rig = Rig(held())
    rig.do(Controlled(CONTROL))
    rig.place = replace(rig.place, is_held=False, renewed=2)
    rig.wait(0.6)
    assert rig.place.session == "s2"


def test_a_place_can_be_taken_from_a_living_holder_who_is_told():
    rig = Rig(held(), held="take")
    rig.do(Controlled(CONTROL))
    assert isinstance(rig.out[0], Hold)
    old = Rig(rig.place, session="s1")
    old.holder.place, old.holder.stage, old.holder.control = held(), "holding", CONTROL
    old.do(Keep(0, {}, 1, 1))
    (failure,) = old.out
    assert isinstance(failure.error, HeldError)
    assert "taken over by 's2'" in str(failure.error)
    assert rig.place.acknowledged == 0
    assert old.do(TICK) == [failure]  # and says nothing more


def test_what_cannot_be_is_said_by_name():
    rig = Rig(replace(held(), is_held=False, names=("x",)))
    assert isinstance(rig.do(Controlled(CONTROL))[0].error, ConfigError)
    rig = Rig()
    rig.do(Controlled(CONTROL), answers=False)
    rig.out.clear()
    assert isinstance(rig.do(Received("n1", Placed("desk", None, "too many")))[0].error, QuotaError)
    rig = Rig()
    rig.do(Controlled(CONTROL))
    rig.place = None
    failure = rig.do(Keep(0, {}, 0, 0))[-1]
    assert "was removed" in str(failure.error)
    rig = Rig()
    rig.do(Controlled(CONTROL))
    failure = rig.do(Keep(0, {}, 5, 1))[-1]
    assert isinstance(failure, Fail)
    assert type(failure.error) is UnisonoError


# Every interleaving: sessions that open, take, acknowledge, save and end, over a network that loses, delays and
# doubles. One that dies is one that takes no further step.

EVENTS = 2


class Session:
    """A process: its holder, its window, and what its application did."""

    def __init__(self, name, saves):
        self.holder = Holder("desk", NAMES, name, "take")
        self.window = None
        self.saves = saves  # that it may still ask for
        self.alive = True

    def copy(self):
        twin = copy.copy(self)
        twin.holder = self.holder.copy()
        if self.window is not None:
            twin.window = copy.copy(self.window)
            twin.window.clock, twin.window._pending = dict(self.window.clock), dict(self.window._pending)
        return twin

    def picture(self):
        window = self.window and (self.window.given, self.window.granted, self.window.acknowledged)
        return self.alive, self.saves, self.holder.state(), window


class World:
    """The store, the messages under way, the sessions so far, and what has been handed out."""

    def __init__(self, saves, repeats):
        self.saves = saves  # how often each session may save
        self.repeats = repeats  # how often a save may come
        self.place = None
        self.requests, self.answers = {}, {}  # each with how often it may still come
        self.sessions = []
        self.handed = {}  # event -> was it marked when it was handed out, by session
        self.dealt_with = set()  # acknowledged by an application
        self.writers = []  # whose writes counted, in order

    def copy(self):
        twin = copy.copy(self)
        twin.requests, twin.answers = dict(self.requests), dict(self.answers)
        twin.writers = list(self.writers)
        twin.sessions = [session.copy() for session in self.sessions]
        twin.handed = {event: dict(who) for event, who in self.handed.items()}
        twin.dealt_with = set(self.dealt_with)
        return twin

    def key(self):
        return (
            str(self.place),
            tuple(sorted((text, times) for text, (_, times) in self.requests.items())),
            tuple(sorted(self.answers)),
            tuple(session.picture() for session in self.sessions),
            tuple(sorted((e, tuple(sorted(who.items()))) for e, who in self.handed.items())),
        )

    # What may happen.

    def steps(self):
        if len(self.sessions) < len(self.saves):
            yield "open", len(self.sessions)
        for i, session in enumerate(self.sessions):
            if not session.alive:
                continue
            window = session.window
            if window is not None and session.holder.stage == "holding":
                if window.room and window.given < EVENTS:
                    yield "take", i
                if window.acknowledged < window.given:
                    yield "acknowledge", i
                if session.saves:
                    yield "save", i
                    yield "end", i
        for kind in ("requests", "answers"):
            for text in getattr(self, kind):
                yield kind, text

    def take(self, step):
        kind, what = step
        getattr(self, "_" + kind)(what)
        self.check()

    def _open(self, i):
        session = Session(f"s{i}", self.saves[i])
        self.sessions.append(session)
        self._carry_out(i, session.holder.handle(Controlled(CONTROL), 0.0))

    def _take(self, i):
        window = self.sessions[i].window
        number = window.given + 1
        self.handed.setdefault(number, {})[i] = window.give("a", number, 0)

    def _acknowledge(self, i):
        window = self.sessions[i].window
        window.acknowledge(window.acknowledged + 1)
        self.dealt_with.add(window.acknowledged)

    def _save(self, i):
        self.sessions[i].saves -= 1
        self._carry_out(i, self.sessions[i].holder.handle(self.sessions[i].window.ask(), 0.0))

    def _end(self, i):
        self.sessions[i].saves = 0
        self._carry_out(i, self.sessions[i].holder.handle(self.sessions[i].window.last(), 0.0))

    def _requests(self, text):
        # A look and a compare-and-set that succeeds are one step; one that fails is a request that was lost.
        message = self._used(self.requests, text)
        write, answer = (rule_claim if isinstance(message, Claim) else rule_save)(self.place, message)
        if write is not None:
            self.place = write
            self.writers.append(message.session)
        if self.sessions[int(message.session[1:])].alive:
            self._put(self.answers, (message.session, answer), 1)

    def _answers(self, text):
        session, answer = self._used(self.answers, text)
        i = int(session[1:])
        if self.sessions[i].alive:
            self._carry_out(i, self.sessions[i].holder.handle(Received("n1", answer), 0.0))

    def _put(self, messages, message, times):
        messages[str(message)] = (message, times)

    def _used(self, messages, text):
        message, times = messages.pop(text)
        if times > 1:
            messages[text] = (message, times - 1)
        return message

    def _carry_out(self, i, effects):
        session = self.sessions[i]
        for effect in effects:
            match effect:
                case Send(_, message):
                    self._put(self.requests, message, self.repeats if isinstance(message, Save) else 1)
                case Hold(place) if session.window is None:
                    session.window = Window(place, size_min=1)
                case Hold(place):
                    session.window.grant(place)
                case Fail():
                    session.alive = False

    # What must hold.

    def check(self):
        turns = [name for name, after in pairwise([*self.writers, ""]) if name != after]
        assert len(turns) == len(set(turns)), f"a session wrote after another had: {self.writers}"
        if self.place is None:
            return
        skipped = set(range(1, self.place.acknowledged + 1)) - self.dealt_with
        assert not skipped, f"nobody acknowledged {skipped}, and the place is behind it"
        beyond = [event for event in self.handed if event > max(self.place.handed, self.place.acknowledged)]
        assert not beyond, f"{beyond} were handed out, and the place does not say so"
        for event, who in self.handed.items():
            first, *later = sorted(who, key=lambda i: self.writers.index(f"s{i}"))
            unmarked = [i for i in later if not who[i]]
            assert not unmarked, f"{event} was handed out by {first} and again, unmarked, by {unmarked}"


def explore(saves, repeats):
    """Every state that can be reached by sessions that save so often; how many there are."""
    first = World(saves, repeats)
    seen, todo = {first.key()}, [first]
    while todo:
        world = todo.pop()
        for step in list(world.steps()):
            after = world.copy()
            after.take(step)
            if (key := after.key()) not in seen:
                seen.add(key)
                todo.append(after)
    return len(seen)


@pytest.mark.parametrize(("saves", "repeats", "states"), [((2, 0), 2, 9000), ((2, 1), 1, 8000)])
def test_every_interleaving_of_two_sessions(saves, repeats, states):
    assert explore(saves, repeats) > states


def test_many_walks_of_three_sessions():
    for seed in range(150):
        random, world = Random(seed), World((3, 3, 3), 2)
        for _ in range(120):
            steps = list(world.steps())
            if not steps:
                break
            world.take(random.choice(steps))


def _old_saves_count(place, save):
    late = replace(save.place, renewed=max(place.renewed, save.place.renewed) + 1)
    is_ours = place.is_held and place.session == save.session
    return _write(late) if is_ours else _as_it_is(place)


def _marks_are_forgotten(place, claim):
    write, answer = CLAIM(place, claim)
    return (None, answer) if write is None else _write(replace(write, handed=write.acknowledged))


def _asking_is_enough(self, place):
    self.granted = self._asked + 1


def _early_acknowledgement(self):
    keep = ASK(self)
    return replace(keep, acknowledged=self.given + 1, handed=max(keep.handed, self.given + 1))


ASK, CLAIM = Window.ask, rule_claim
BUGS = {
    "rule_save": (_old_saves_count,),
    "rule_claim": (_marks_are_forgotten,),
    "Window.grant": (_asking_is_enough,),
    "Window.ask": (_early_acknowledgement,),
}


@pytest.mark.parametrize(("where", "bug"), [(where, bug) for where, bugs in BUGS.items() for bug in bugs])
def test_every_rule_is_needed(where, bug, monkeypatch):
    if where.startswith("Window"):
        monkeypatch.setattr(Window, where.split(".")[1], bug)
    else:
        monkeypatch.setitem(globals(), where, bug)
    with pytest.raises(AssertionError):
        explore((2, 0), 2)
