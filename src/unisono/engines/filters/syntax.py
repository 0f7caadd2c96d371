"""The grammar, as a parser that goes down it: what is written, and where. Nothing of a text is ever run.

filter    := every ("or" every)*
every     := negated ("and" negated)*
negated   := "not"* primary
primary   := "(" filter ")" | "true" | "false" | "exists" name | name test
test      := ("==" | "!=") value | ("<" | "<=" | ">" | ">=") (number | string) | "exists"
           | "is" ["not"] ("number" | "string" | "boolean" | "other")
           | ["not"] ("between" bound "and" bound | "in" "[" value ("," value)* [","] "]"
                     | ("contains" | "starts" "with" | "ends" "with") string)
value     := string | number | "true" | "false"
bound     := string | number
"""

from __future__ import annotations

from typing import Any, NoReturn, TypeAlias

import msgspec

from unisono.engines.filters import cuts as lines
from unisono.engines.filters.constraint import EXISTS, KINDS, Constraint, members, within
from unisono.engines.filters.cuts import ALL_NUMBERS, ALL_STRINGS, Cuts
from unisono.engines.filters.limits import DEPTH_MAX, PREDICATES_MAX
from unisono.engines.filters.strings import EVERY_STRING, Strings
from unisono.engines.filters.tokens import Token, tokenize
from unisono.model.errors import FilterError


class Predicate(msgspec.Struct, frozen=True):
    """What one predicate wants of one attribute."""

    name: str
    constraint: Constraint
    start: int


class All(msgspec.Struct, frozen=True):
    """Each part must hold; without parts it is always true."""

    parts: tuple[Node, ...]
    start: int


class Some(msgspec.Struct, frozen=True):
    """One part must hold; without parts it is never true."""

    parts: tuple[Node, ...]
    start: int


class Not(msgspec.Struct, frozen=True):
    """The part must not hold."""

    part: Node
    start: int


Node: TypeAlias = Predicate | All | Some | Not

_ORDERS = ("<", "<=", ">", ">=")
_SPELT = {"end": "the end of the filter", "name": "a name", "string": "a string", "number": "a number"}


class Parser:
    """Reads the words of one text from left to right, without going back."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = tokenize(text)
        self._at = 0
        self._depth = 0
        self._predicates = 0

    def parse(self) -> Node:
        """The whole text as one tree."""
        node = self._some()
        if self._token.kind != "end":
            self._expect_failed("'and', 'or' or the end of the filter")
        return node

    @property
    def _token(self) -> Token:
        return self._tokens[self._at]

    def _take(self, *kinds: str) -> Token | None:
        """The next word, if it is one of these."""
        token = self._tokens[self._at]
        if token.kind not in kinds:
            return None
        self._at += 1
        return token

    def _expect(self, expected: str, *kinds: str) -> Token:
        return self._take(*kinds) or self._expect_failed(expected)

    def _expect_failed(self, expected: str) -> NoReturn:
        token = self._token
        found = _SPELT.get(token.kind, f"'{token.kind}'")
        raise FilterError(f"expected {expected}, found {found}", self._text, token.start)

    def _refuse(self, message: str, token: Token) -> NoReturn:
        raise FilterError(message, self._text, token.start)

    def _some(self) -> Node:
        parts = [self._all()]
        while self._take("or"):
            parts.append(self._all())
        return parts[0] if len(parts) == 1 else Some(tuple(parts), parts[0].start)

    def _all(self) -> Node:
        parts = [self._negated()]
        while self._take("and"):
            parts.append(self._negated())
        return parts[0] if len(parts) == 1 else All(tuple(parts), parts[0].start)

    def _negated(self) -> Node:
        first, is_negated = self._token.start, False
        while self._take("not"):
            is_negated = not is_negated
        part = self._primary()
        return Not(part, first) if is_negated else part

    def _primary(self) -> Node:
        token = self._token
        if self._take("("):
            self._depth += 1
            if self._depth > DEPTH_MAX:
                self._refuse(f"parentheses nest at most {DEPTH_MAX} deep", token)
            inner = self._some()
            self._expect("')', 'and' or 'or'", ")")
            self._depth -= 1
            return inner
        if self._take("true"):
            return All((), token.start)
        if self._take("false"):
            return Some((), token.start)
        if self._take("exists"):
            self._count(token)
            opened = self._take("(")
            name = self._expect("the name of an attribute after 'exists'", "name").value
            if opened:
                self._expect("')'", ")")
            return Predicate(name, EXISTS, token.start)
        if self._take("name"):
            return self._test(token)
        return self._expect_failed("a predicate, as in price > 100, or 'not', 'exists', '('")

    def _test(self, name: Token) -> Node:
        self._count(name)
        is_negated = self._take("not") is not None
        node: Node = Predicate(name.value, self._constraint(is_negated), name.start)
        return Not(node, name.start) if is_negated else node

    def _constraint(self, is_negated: bool) -> Constraint:
        token = self._token
        if self._take("between"):
            return self._between()
        if self._take("in"):
            return members(self._list())
        if self._take("contains"):
            text = self._string("contains")
            return Constraint(strings=Strings(ALL_STRINGS, contains=(text,)) if text else EVERY_STRING)
        if self._take("starts"):
            self._expect("'with' after 'starts'", "with")
            return within(lines.prefixed(self._string("starts with")))
        if self._take("ends"):
            self._expect("'with' after 'ends'", "with")
            return Constraint(strings=Strings(ALL_STRINGS, suffix=self._string("ends with")))
        if is_negated:
            self._expect_failed("'in', 'between', 'contains', 'starts with' or 'ends with' after 'not'")
        if self._take("=="):
            return members([self._value("==")])
        if self._take("!="):
            return self._different()
        if self._take(*_ORDERS):
            return within(_ordered(token.kind, self._bound(token.kind)))
        if self._take("exists"):
            return EXISTS
        if self._take("is"):
            return self._kind()
        return self._expect_failed(
            "'==', '!=', '<', '<=', '>', '>=', 'between', 'in', 'contains', 'starts with', 'ends with', "
            "'exists' or 'is' after the name of an attribute"
        )

    def _between(self) -> Constraint:
        token = self._token
        low = self._bound("between")
        self._expect("'and' between the two bounds", "and")
        high = self._bound("and")
        if isinstance(low, str) is not isinstance(high, str):
            self._refuse("the bounds are a string and a number; no value lies between them", token)
        if low > high:
            self._refuse("nothing lies between these: the lower bound comes first", token)
        return within(((low, 0), (high, 1)))

    def _different(self) -> Constraint:
        value = self._value("!=")
        if isinstance(value, bool):
            return members([not value])
        everything = ALL_STRINGS if isinstance(value, str) else ALL_NUMBERS
        return within(lines.complement(lines.points([value]), everything))

    def _kind(self) -> Constraint:
        is_negated = self._take("not") is not None
        found = KINDS[self._expect("'number', 'string', 'boolean' or 'other' after 'is'", *KINDS).kind]
        opposite = found.opposite() if is_negated else found
        assert opposite is not None, "a kind has an opposite"
        return opposite

    def _list(self) -> list[Any]:
        self._expect("a list in brackets, as in [1, 2], after 'in'", "[")
        values = [self._value("[")]
        while self._take(","):
            if self._token.kind == "]":
                break
            self._count(self._token)
            values.append(self._value(","))
        self._expect("',' or ']'", "]")
        return values

    def _value(self, after: str) -> Any:
        token = self._expect(
            f"a string, a number, 'true' or 'false' after '{after}'", "string", "number", "true", "false"
        )
        return token.kind == "true" if token.kind in ("true", "false") else token.value

    def _bound(self, after: str) -> Any:
        if self._token.kind in ("true", "false"):
            self._refuse("'true' and 'false' have no order; compare with == or !=", self._token)
        return self._expect(f"a string or a number after '{after}'", "string", "number").value

    def _string(self, after: str) -> str:
        value: str = self._expect(f"a string after '{after}'", "string").value
        return value

    def _count(self, token: Token) -> None:
        self._predicates += 1
        if self._predicates > PREDICATES_MAX:
            self._refuse(f"a filter has at most {PREDICATES_MAX:,} predicates and members of lists", token)


def _ordered(sign: str, bound: Any) -> Cuts:
    """The values before or after a bound."""
    side = 1 if sign in ("<=", ">") else 0
    if sign in (">", ">="):
        return ((bound, side),)
    bottom = ALL_STRINGS if isinstance(bound, str) else ALL_NUMBERS
    return (*bottom, (bound, side)) if bottom != ((bound, side),) else ()
