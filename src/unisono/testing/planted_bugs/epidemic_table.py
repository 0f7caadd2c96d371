"""Planted bugs of dispatchers: each breaks a promise in the world of some seed."""

from __future__ import annotations

from unisono.engines.epidemic.dispatcher import Dispatcher
from unisono.sim.epidemic.draw import draw_quiet
from unisono.sim.epidemic.scenario import RECOVERED, EpidemicScenario
from unisono.testing.planted_bugs import epidemic_engines as broken
from unisono.testing.planted_bugs.bug import PlantedBug

_SOUND = EpidemicScenario((0, 7, 75, 153))  # where what never comes with a bug comes in time
ROUNDS = 600  # to wait for what never comes
SOON_ROUNDS = 2  # and for what has to come soon: long ones, as rounds in which nothing is missing are


def _bug(name: str, says: str, source: str, promise: str, make: type[Dispatcher], seeds: range) -> PlantedBug:
    return PlantedBug(name, says, source, promise, _SOUND, EpidemicScenario(seeds, make, promise, ROUNDS))


EPIDEMIC_BUGS: tuple[PlantedBug, ...] = (
    _bug(
        "takes_twice", "An event that is known is taken again.",
        "002 isReceived", "no_duplication", broken.TakesTwice, range(4, 5),
    ),
    _bug(
        "delivers_all", "Whatever passes by is delivered.",
        "002 Section 2.1", "only_matching", broken.DeliversAll, range(20),
    ),
    _bug(
        "tells_the_past", "Who subscribes is delivered what was published long before.",
        "age of events", "only_wanted", broken.TellsThePast, range(8, 9),
    ),
    _bug(
        "keeps_all", "The cache has no bound.",
        "002 Cache", "invariants", broken.KeepsAll, range(40),
    ),
    _bug(
        "misses_all", "What is missing is never given up.",
        "002 LostBuffer", "invariants", broken.MissesAll, range(66, 67),
    ),
    _bug(
        "makes_up", "A repair is not the event that was published.",
        "002 handleReqMsg", "no_creation", broken.MakesUp, range(20),
    ),
    _bug(
        "never_gossips", "Gossip rounds begin with nothing.",
        "002 startGossipRound", RECOVERED, broken.NeverGossips, range(40),
    ),
    _bug(
        "lives_as_before", "A restarted dispatcher numbers its events as in its former life.",
        "incarnations", RECOVERED, broken.LivesAsBefore, range(75, 76),
    ),
    _bug(
        "tells_once", "A subscription that is lost between neighbours is not told again.",
        "sessions of links", RECOVERED, broken.TellsOnce, range(40),
    ),
    _bug(
        "covers_the_wrong_way", "Of two subscriptions the narrower one is passed on.",
        "002 Section 2.1", RECOVERED, broken.CoversTheWrongWay, range(7, 8),
    ),
    _bug(
        "trusts_the_old_session", "A neighbour that has restarted is not told again what is wanted of it.",
        "sessions of links", RECOVERED, broken.TrustsTheOldSession, range(153, 154),
    ),
    PlantedBug(
        "keeps_hearsay_to_itself",
        "A leaf that has moved is not told of an event that its new dispatcher was only told of.",
        "trails", RECOVERED,
        EpidemicScenario(range(40), promise=RECOVERED, patience_rounds=SOON_ROUNDS, draw=draw_quiet),
        EpidemicScenario(
            range(40), broken.KeepsHearsayToItself, RECOVERED, patience_rounds=SOON_ROUNDS, draw=draw_quiet
        ),
    ),
)  # fmt: skip
