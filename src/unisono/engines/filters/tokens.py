"""From text to words: names, strings, numbers, signs. One regular expression, linear in the length of the text."""

from __future__ import annotations

import re
from math import isinf
from typing import Any

import msgspec

from unisono.engines.filters.limits import NAME_MAX, NAME_PARTS_MAX, TEXT_MAX
from unisono.model.errors import FilterError

KEYWORDS = frozenset(
    [
        "and",
        "or",
        "not",
        "in",
        "between",
        "exists",
        "starts",
        "ends",
        "with",
        "contains",
        "is",
        "true",
        "false",
        "number",
        "string",
        "boolean",
        "other",
    ]
)
INTEGER_MAX = 2**63

_TOKEN = re.compile(
    r"""
    (?P<space>\s+)
  | (?P<name>[^\W\d]\w*(?:\.\w+)*)
  | (?P<quoted>`[^`\n]+`)
  | (?P<number>-?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)
  | (?P<string>"(?:[^"\\\n]|\\[^\n])*"|'(?:[^'\\\n]|\\[^\n])*')
  | (?P<sign>==|!=|<=|>=|<|>|\(|\)|\[|\]|,)
    """,
    re.VERBOSE,
)
_ESCAPE = re.compile(r"\\u([0-9a-fA-F]{4})|\\(.)", re.DOTALL)
_PAIR = re.compile("([\ud800-\udbff])([\udc00-\udfff])")
_ESCAPED = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f", '"': '"', "'": "'", "\\": "\\", "/": "/"}
_HINTS = {
    "=": "write == to compare",
    "&": "write 'and'",
    "|": "write 'or'",
    "!": "write 'not', or != to compare",
    '"': "this string has no end",
    "'": "this string has no end",
    "`": "a name in backquotes ends on the same line and has at least one character",
    "-": "a minus belongs to a number, as in -5",
    "{": "write lists in brackets, as in [1, 2]",
}


class Token(msgspec.Struct, frozen=True):
    """A word of a filter, and where it stands. `kind`: name, string, number, a keyword, a sign, or end."""

    kind: str
    value: Any
    start: int
    end: int


def tokenize(text: str) -> list[Token]:
    """All words of a text, with one of kind `end` behind them."""
    if len(text) > TEXT_MAX:
        raise FilterError(f"a filter has at most {TEXT_MAX:,} characters, this one has {len(text):,}")
    _check_characters(text, text, 0)
    tokens: list[Token] = []
    at = 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            hint = _HINTS.get(
                text[at], "this character means nothing here; names with such go in `backquotes`"
            )
            raise FilterError(hint, text, at)
        if found.lastgroup != "space":
            tokens.append(_token(found, text))
        at = found.end()
    tokens.append(Token("end", None, len(text), len(text)))
    return tokens


def _token(found: re.Match[str], text: str) -> Token:
    word, start, end = found[0], found.start(), found.end()
    match found.lastgroup:
        case "name":
            keyword = word.lower()
            if keyword in KEYWORDS:
                return Token(keyword, None, start, end)
            return Token("name", _name(word, text, start), start, end)
        case "quoted":
            return Token("name", _name(word[1:-1], text, start), start, end)
        case "string":
            return Token("string", _string(word, text, start), start, end)
        case "number":
            return Token("number", _number(word, text, start), start, end)
        case _:
            return Token(word, None, start, end)


def _name(word: str, text: str, start: int) -> str:
    if len(word) > NAME_MAX:
        raise FilterError(f"a name has at most {NAME_MAX} characters", text, start)
    if word.count(".") >= NAME_PARTS_MAX:
        raise FilterError(f"a name has at most {NAME_PARTS_MAX} parts between dots", text, start)
    return word


def _number(word: str, text: str, start: int) -> int | float:
    """The number; whole numbers are integers however they are spelt, so that 1.0 and 1 are one."""
    if word.lstrip("-").isdigit():
        number = int(word) if len(word) <= 20 else INTEGER_MAX
        if not -INTEGER_MAX <= number < INTEGER_MAX:
            raise FilterError("integers have 64 bits; write a larger number with an exponent", text, start)
        return number
    value = float(word)
    if isinf(value):
        raise FilterError("this number is too large", text, start)
    return int(value) if value.is_integer() and abs(value) < INTEGER_MAX else value


def _string(word: str, text: str, start: int) -> str:
    if "\\" not in word:
        return word[1:-1]

    def character(found: re.Match[str]) -> str:
        code, letter = found.groups()
        if code:
            return chr(int(code, 16))
        if letter not in _ESCAPED:
            message = "strings know \\\" \\' \\\\ \\/ \\n \\r \\t \\b \\f and \\uXXXX"
            raise FilterError(message, text, start + 1 + found.start())
        return _ESCAPED[letter]

    value = _ESCAPE.sub(character, word[1:-1])
    joined = _PAIR.sub(
        lambda pair: chr(0x10000 + ((ord(pair[1]) & 0x3FF) << 10) + (ord(pair[2]) & 0x3FF)), value
    )
    _check_characters(joined, text, start)
    return joined


def _check_characters(value: str, text: str, at: int) -> None:
    """Halves of surrogate pairs cannot be sent."""
    try:
        value.encode()
    except UnicodeEncodeError as broken:
        place = broken.start if value is text else at
        raise FilterError("this is half of a surrogate pair, which is no character", text, place) from None
