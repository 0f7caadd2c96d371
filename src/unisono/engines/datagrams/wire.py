"""The four datagrams, each closed by a code that only who has the key can make.

    HELLO    I am NAME in this life, and this is my n-th question: what shall I put on what I send you?     (padded)
    WELCOME  to your n-th question: put this token on it
    DATA     NAME in this life, with your token, my k-th to you: payload
    UNKNOWN  I never gave you that token (I have begun anew): say hello again

An answer is never longer than what it answers, so nobody can make us flood a third party.
"""

from __future__ import annotations

from hashlib import blake2b
from hmac import compare_digest
from struct import Struct
from typing import NamedTuple

VERSION = 0xD1
HELLO, WELCOME, DATA, UNKNOWN = range(4)
KINDS = ("hello", "welcome", "data", "unknown")
CODE_BYTES = 16
NAME_BYTES_MAX = 64
HELLO_BYTES = 160  # longer than any welcome
_HEAD = Struct(
    "<BBQQQB"
)  # version, kind, life of who speaks (of who is answered in answers), token, number, length of the name
OVERHEAD = _HEAD.size + NAME_BYTES_MAX + CODE_BYTES


class Letter(NamedTuple):
    """A datagram, taken apart."""

    kind: int
    life: int
    token: int
    number: int
    name: bytes
    payload: bytes


def seal(key: bytes, letter: Letter) -> bytes:
    """The bytes of a datagram."""
    head = _HEAD.pack(VERSION, letter.kind, letter.life, letter.token, letter.number, len(letter.name))
    body = head + letter.name + letter.payload
    return body + code(key, body)


def parse(data: bytes) -> Letter | None:
    """A datagram as far as its form goes; who made it is another question."""
    if len(data) < _HEAD.size + CODE_BYTES:
        return None
    version, kind, life, token, number, length = _HEAD.unpack_from(data)
    end = _HEAD.size + length
    if version != VERSION or kind >= len(KINDS) or not 0 < length <= NAME_BYTES_MAX:
        return None
    if len(data) < end + CODE_BYTES:
        return None
    return Letter(kind, life, token, number, data[_HEAD.size : end], data[end:-CODE_BYTES])


def is_ours(key: bytes, data: bytes) -> bool:
    """Whether somebody with the key made it."""
    return compare_digest(code(key, data[:-CODE_BYTES]), data[-CODE_BYTES:])


def code(key: bytes, body: bytes) -> bytes:
    """What closes a datagram."""
    return blake2b(body, key=key, digest_size=CODE_BYTES, person=b"unisono datagram").digest()


def token_of(secret: bytes, generation: int, life: int, name: bytes, address: object) -> int:
    """What we ask a sender to put on what it sends: found again from who it says it is, so nothing is kept for strangers."""
    text = b"%d %d %d %b%b" % (generation, life, len(name), name, repr(address).encode())
    return int.from_bytes(
        blake2b(text, key=secret, digest_size=8, person=b"unisono token").digest(), "little"
    )
