"""The public names, and nothing else: changing one is a decision, not an accident."""

import inspect
import pkgutil
from pathlib import Path

import pytest

import unisono
import unisono.testing
from unisono.testing import ens_contract

NAMES = {
    "BackPressureError",
    "Bus",
    "ClosedError",
    "ConfigError",
    "Deadlines",
    "DeletedError",
    "FilterError",
    "ForgottenError",
    "Event",
    "FrameError",
    "GapError",
    "HandlerTimeoutError",
    "HeldError",
    "HistoryError",
    "JournalError",
    "LateError",
    "LeaseError",
    "PayloadError",
    "PlanError",
    "QuotaError",
    "ServerError",
    "Receipt",
    "SlowConsumerError",
    "StampError",
    "Subscription",
    "TopicError",
    "UnconfirmedError",
    "UnisonoError",
    "VersionError",
    "__version__",
    "connect",
}


def test_the_public_names():
    assert set(unisono.__all__) == NAMES
    assert len(unisono.__all__) == len(NAMES)
    rooms = {module.name for module in pkgutil.iter_modules(unisono.__path__)}
    visible = {name for name in vars(unisono) if not name.startswith("_")}
    assert visible - NAMES <= rooms


def test_the_test_kit():
    assert unisono.testing.__all__ == ["EnsContract", "StoreContract"]
    assert ens_contract.__all__ == ["EnsContract"]
    assert unisono.testing.EnsContract is ens_contract.EnsContract
    assert "class TestMyBroker(EnsContract):" in ens_contract.__doc__


def test_connect():
    assert str(inspect.signature(unisono.connect)) == (
        "(url: 'str' = 'memory://', *, name: 'str | None' = None, "
        "record: 'list[Record] | str | Path | None' = None, journal: 'Journal | str | Path | None' = None, "
        "outbox: 'int' = 65536, payload_max: 'int' = 1048576, publish_timeout: 'float' = 30.0, "
        "node_timeout: 'float' = 5.0, causal: 'bool' = False, durability: 'Durability | None' = None, "
        "sequencer: 'Sequencer | None' = None, "
        "metrics: 'Registry | None' = None, trace: 'Tracing | float' = 0.0, nodes: 'bool' = True, "
        "deadlines: 'Deadlines | None' = None, peers: 'bool' = False) -> 'Bus'"
    )


@pytest.mark.parametrize(
    ("thing", "names"),
    [
        (
            unisono.Bus,
            {
                "close",
                "drain",
                "flush",
                "on",
                "publish",
                "publish_many",
                "publish_nowait",
                "run",
                "stop",
                "subscribe",
            },
        ),
        (unisono.Subscription, {"batches", "close", "get_one", "open"}),
        (
            unisono.Event,
            {
                "body",
                "data",
                "headers",
                "id",
                "in_order",
                "missed",
                "published_at",
                "publisher",
                "redelivered",
            }
            | {"stamp", "topic", "deadline", "late", "waited"},
        ),
        (unisono.Receipt, {"id", "sequenced", "stamp", "topic"}),
    ],
)
def test_what_users_reach_for_is_there_and_documented(thing, names):
    for name in names:
        member = inspect.getattr_static(thing, name)
        if callable(member) or isinstance(member, property):
            assert inspect.getdoc(member), f"{thing.__name__}.{name} has no docstring"


@pytest.mark.parametrize("name", sorted(name for name in NAMES if name.endswith("Error")))
def test_every_error_is_one_of_ours_and_says_when_it_is_raised(name):
    error = getattr(unisono, name)
    assert issubclass(error, unisono.UnisonoError)
    assert error.__doc__


def test_errors_can_be_caught_by_their_usual_names():
    for name in (
        "ConfigError",
        "TopicError",
        "PayloadError",
        "FrameError",
        "StampError",
        "PlanError",
        "HistoryError",
    ):
        assert issubclass(getattr(unisono, name), ValueError)
    for name in ("HandlerTimeoutError", "UnconfirmedError"):
        assert issubclass(getattr(unisono, name), TimeoutError)
    assert issubclass(unisono.ClosedError, RuntimeError)


def test_the_package_is_typed():
    assert (Path(unisono.__file__).parent / "py.typed").exists()
