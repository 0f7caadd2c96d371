"""Who may send us datagrams, and how often they count: a key that all peers share, tokens, numbers.

Whoever wants to send to us asks for a token first. It follows from a secret of this life of ours and from who
asks, in which life, from where; so nothing is kept for those who only ask, what was recorded in an earlier life of
ours or sent to somebody else has a wrong token, and within one life numbers tell what came before. Answers go out
only to what was made with the key, are shorter than that, and no more than so many a second.

    datagrams = guard.send(address, payload, now)      # to a peer; may wait for its token first
    happened  = guard.receive(datagram, address, now)  # what came from an address
    datagrams = guard.tick(now)                        # at guard.next_timer()
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Hashable
from typing import NamedTuple, TypeAlias

import msgspec

from unisono.engines.datagrams.replays import Replays
from unisono.engines.datagrams.wire import (
    DATA,
    HELLO,
    HELLO_BYTES,
    NAME_BYTES_MAX,
    OVERHEAD,
    UNKNOWN,
    WELCOME,
    Letter,
    is_ours,
    parse,
    seal,
    token_of,
)
from unisono.model.errors import ConfigError, PayloadError

Address: TypeAlias = Hashable
"""Where datagrams come from and go to: a host and a port."""

KEY_BYTES_MIN, KEY_BYTES_MAX = 16, 64


class GuardSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The bounds."""

    datagram_bytes_max: int = 1400  # what most networks carry in one piece
    peers_max: int = 1024  # senders that are remembered; of more, the one silent longest is forgotten
    waiting_max: int = 64  # payloads that wait for a token, for each address; of more, the oldest is dropped
    replays: int = 1024  # numbers behind the newest that may still come
    hello_s: float = 0.2  # until a hello without an answer is repeated; then twice as long, and so on
    hello_s_max: float = 3.2
    answers_s: float = 200.0  # answers a second, of those that strangers can ask for
    answers_burst: int = 100


class Outgoing(NamedTuple):
    """Send these bytes there."""

    to: Address
    data: bytes


class Opened(NamedTuple):
    """A peer sent this, and it is new."""

    name: str
    address: Address
    payload: bytes


class Met(NamedTuple):
    """Somebody with the key is at this address, and takes what we send."""

    name: str
    address: Address


Happened: TypeAlias = Outgoing | Opened | Met


class _Way:
    """To one address."""

    __slots__ = ("asked", "hello_at", "hello_s", "number", "token", "waiting")

    def __init__(self, settings: GuardSettings) -> None:
        self.token: int | None = None
        self.number = 0  # of the last datagram with this token
        self.asked = 0  # the number of the last hello
        self.hello_at: float | None = None  # when to repeat it
        self.hello_s = settings.hello_s
        self.waiting: deque[bytes] = deque(maxlen=settings.waiting_max)


class _Sender:
    """One peer that sends to us."""

    __slots__ = ("life", "replays", "token")

    def __init__(self, life: int, token: int, size: int) -> None:
        self.life = life
        self.token = token
        self.replays = Replays(size)


class Guard:
    """The datagrams of one process. `life` grows from one life of a name to the next; `secret` is of this one only."""

    def __init__(
        self, name: str, key: bytes, life: int, secret: bytes, settings: GuardSettings = GuardSettings()
    ) -> None:
        if not 0 < len(name.encode()) <= NAME_BYTES_MAX:
            raise ConfigError(f"the name of a peer has 1 to {NAME_BYTES_MAX} bytes, '{name}' has not")
        if not KEY_BYTES_MIN <= len(key) <= KEY_BYTES_MAX:
            raise ConfigError(f"a key has {KEY_BYTES_MIN} to {KEY_BYTES_MAX} bytes, this one {len(key)}")
        self.name = name
        self.settings = settings
        self.refused: Counter[str] = Counter()  # what came and was not taken, by reason
        self.dropped = 0  # payloads that no longer wait
        self._key = key
        self._life = life
        self._secret = secret
        self._hellos = 0
        self._ways: dict[Address, _Way] = {}
        self._senders: dict[bytes, _Sender] = {}  # by name, the one heard last comes last
        self._generation = 0  # of tokens: a sender that was forgotten, or moved, must ask for a new one
        self._answers = float(settings.answers_burst)
        self._answered_at = 0.0

    @property
    def payload_bytes_max(self) -> int:
        """What fits into one datagram."""
        return self.settings.datagram_bytes_max - OVERHEAD

    def send(self, to: Address, payload: bytes, now: float) -> list[Outgoing]:
        """Send to an address, as soon as there is a token for it."""
        if len(payload) > self.payload_bytes_max:
            raise PayloadError(
                f"{len(payload)} bytes do not fit into a datagram of {self.settings.datagram_bytes_max} with what "
                f"closes it ({OVERHEAD}); send less at once, or raise datagram_bytes_max on all peers"
            )
        way = self._ways.setdefault(to, _Way(self.settings))
        if way.token is not None:
            return [self._data(to, way, payload)]
        self.dropped += len(way.waiting) == way.waiting.maxlen
        way.waiting.append(payload)
        return [] if way.hello_at is not None else [self._hello(to, way, now)]

    def forget(self, to: Address) -> None:
        """Nothing goes to this address any more."""
        way = self._ways.pop(to, None)
        self.dropped += 0 if way is None else len(way.waiting)

    def receive(self, data: bytes, address: Address, now: float) -> list[Happened]:
        """Take a datagram; what is not from a peer, or not new, is counted and nothing else."""
        letter = parse(data)
        if letter is None:
            return self._refuse("not a datagram of ours")
        if letter.kind == DATA:
            return self._opened(letter, data, address, now)
        if letter.kind == HELLO:
            return self._asked(letter, data, address, now)
        if letter.kind == WELCOME:
            return self._welcomed(letter, data, address)
        return self._unknown(letter, data, address, now)

    def next_timer(self) -> float | None:
        """When a hello is to be repeated."""
        return min((way.hello_at for way in self._ways.values() if way.hello_at is not None), default=None)

    def tick(self, now: float) -> list[Outgoing]:
        """Repeat hellos that had no answer."""
        due = [
            (to, way) for to, way in self._ways.items() if way.hello_at is not None and way.hello_at <= now
        ]
        return [self._hello(to, way, now) for to, way in due]

    # What we send.

    def _data(self, to: Address, way: _Way, payload: bytes) -> Outgoing:
        assert way.token is not None
        way.number += 1
        return Outgoing(to, self._seal(DATA, self._life, way.token, way.number, payload))

    def _hello(self, to: Address, way: _Way, now: float) -> Outgoing:
        self._hellos += 1
        way.asked = self._hellos
        way.hello_at = now + way.hello_s
        way.hello_s = min(2 * way.hello_s, self.settings.hello_s_max)
        bare = len(self._seal(HELLO, self._life, 0, way.asked))
        return Outgoing(to, self._seal(HELLO, self._life, 0, way.asked, bytes(HELLO_BYTES - bare)))

    def _seal(self, kind: int, life: int, token: int, number: int, payload: bytes = b"") -> bytes:
        return seal(self._key, Letter(kind, life, token, number, self.name.encode(), payload))

    def _may_answer(self, now: float) -> bool:
        """Whether one more answer is within the bound."""
        o = self.settings
        self._answers = min(o.answers_burst, self._answers + (now - self._answered_at) * o.answers_s)
        self._answered_at = now
        if self._answers < 1.0:
            return False
        self._answers -= 1.0
        return True

    # What comes.

    def _asked(self, letter: Letter, data: bytes, address: Address, now: float) -> list[Happened]:
        if len(data) < HELLO_BYTES:
            return self._refuse("a hello that is too short")
        if not is_ours(self._key, data):
            return self._refuse("made with another key")
        if address not in self._ways and not self._may_answer(now):
            return self._refuse("more questions than are answered")
        token = self._token(letter, address)
        return [Outgoing(address, self._seal(WELCOME, letter.life, token, letter.number))]

    def _welcomed(self, letter: Letter, data: bytes, address: Address) -> list[Happened]:
        way = self._ways.get(address)
        if way is None or way.hello_at is None or (letter.life, letter.number) != (self._life, way.asked):
            return self._refuse("an answer to nothing we asked")
        if not is_ours(self._key, data):
            return self._refuse("made with another key")
        way.token, way.number, way.hello_at = letter.token, 0, None
        way.hello_s = self.settings.hello_s
        waiting = list(way.waiting)
        way.waiting.clear()
        return [Met(_name(letter), address), *(self._data(address, way, payload) for payload in waiting)]

    def _opened(self, letter: Letter, data: bytes, address: Address, now: float) -> list[Happened]:
        sender = self._senders.get(letter.name)
        is_known = sender is not None and (sender.life, sender.token) == (letter.life, letter.token)
        if is_known and sender is not None and not sender.replays.is_new(letter.number):
            return self._refuse("came before")
        if not is_ours(self._key, data):
            return self._refuse("made with another key")
        if not is_known:
            if letter.token != self._token(letter, address):
                return self._ask_anew(letter, address, now)
            if sender is not None and sender.life > letter.life:
                return self._refuse("of an earlier life of its sender")
            self._generation += sender is not None
            sender = _Sender(letter.life, letter.token, self.settings.replays)
        assert sender is not None
        sender.replays.add(letter.number)
        self._senders.pop(letter.name, None)
        self._senders[letter.name] = sender
        if len(self._senders) > self.settings.peers_max:
            del self._senders[next(iter(self._senders))]
            self._generation += 1
        return [Opened(_name(letter), address, letter.payload)]

    def _token(self, letter: Letter, address: Address) -> int:
        return token_of(self._secret, self._generation, letter.life, letter.name, address)

    def _ask_anew(self, letter: Letter, address: Address, now: float) -> list[Happened]:
        """A token that we did not give, in this life: whoever means it will say hello again."""
        self.refused["with a token that is not ours"] += 1
        if not self._may_answer(now):
            return []
        return [Outgoing(address, self._seal(UNKNOWN, letter.life, letter.token, letter.number))]

    def _unknown(self, letter: Letter, data: bytes, address: Address, now: float) -> list[Happened]:
        way = self._ways.get(address)
        if way is None or way.token is None or (letter.life, letter.token) != (self._life, way.token):
            return self._refuse("an answer to nothing we asked")
        if not is_ours(self._key, data):
            return self._refuse("made with another key")
        way.token = None
        return [self._hello(address, way, now)]

    def _refuse(self, reason: str) -> list[Happened]:
        self.refused[reason] += 1
        return []


def _name(letter: Letter) -> str:
    return letter.name.decode(errors="replace")
