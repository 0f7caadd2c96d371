"""Normal forms: alternatives, each of which wants something of some attributes, all of it together.

A conjunction maps names to constraints; the form is a list of them, none within another, no two of which could be
written as one. What is equal up to the order of terms, parentheses, spelling and the laws of `and`, `or` and `not`
mostly becomes the same form. (Not always: to find out whether two filters mean the same is hard in general.)
"""

from __future__ import annotations

from typing import NoReturn, TypeAlias

from unisono.engines.filters.constraint import ANYTHING, Constraint
from unisono.engines.filters.limits import CONJUNCTIONS_MAX, PRODUCT_MAX, STEPS_MAX
from unisono.engines.filters.printing import show_conjunction
from unisono.engines.filters.syntax import All, Node, Not, Predicate, Some
from unisono.model.errors import FilterError

Conjunction: TypeAlias = dict[str, Constraint]
Alternatives: TypeAlias = list[Conjunction]


class Normalizer:
    """Makes the normal form of one tree, in a bounded number of steps, and notes what in it can never be true."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._steps = 0
        self.never: list[FilterError] = []

    def normalize(self, node: Node, is_negated: bool = False) -> Alternatives:
        """The alternatives of a tree, or of its opposite."""
        if isinstance(node, Not):
            return self.normalize(node.part, not is_negated)
        if isinstance(node, Predicate):
            return self._predicate(node, is_negated)
        parts = [self.normalize(part, is_negated) for part in node.parts]
        if isinstance(node, All) is is_negated:
            return self._some(parts)
        return self._all(parts, node)

    def _predicate(self, node: Predicate, is_negated: bool) -> Alternatives:
        wanted = node.constraint.opposite() if is_negated else node.constraint
        assert wanted is not None, "what one predicate says has an opposite"
        if wanted == ANYTHING:
            return [{}]
        if wanted.is_empty:
            self._note(f"no value of '{node.name}' satisfies this", node)
            return []
        return [{node.name: wanted}]

    def _some(self, parts: list[Alternatives]) -> Alternatives:
        return self._simplified([conjunction for part in parts for conjunction in part])

    def _all(self, parts: list[Alternatives], node: All | Some) -> Alternatives:
        """Each alternative of one part together with each of the others; in an order that is not that of the text."""
        if len(parts) > 1:
            parts = sorted(parts, key=lambda part: (len(part), [show_conjunction(c) for c in part]))
        found: Alternatives = [{}]
        for part in parts:
            if len(found) * len(part) > PRODUCT_MAX:
                self.refuse()
            product, clash = [], ""
            for left in found:
                for right in part:
                    joint, name = _together(left, right)
                    if joint is None:
                        clash = _clash(name, left[name], right[name])
                    else:
                        product.append(joint)
            if clash and not product:
                self._note(clash, node)
            found = product if len(found) == 1 and len(part) == 1 else self._simplified(product)
        return found

    def _simplified(self, conjunctions: Alternatives) -> Alternatives:
        """Without those that others include, and with those made one that can be; the order of terms has no say."""
        if len(conjunctions) < 2:
            return conjunctions
        written = {show_conjunction(conjunction): conjunction for conjunction in conjunctions}
        kept: Alternatives = []
        for _, conjunction in sorted(written.items()):
            fresh, at = conjunction, 0
            while at < len(kept):
                self._steps += 1
                if self._steps > STEPS_MAX:
                    self.refuse()
                joined = _join(kept[at], fresh)
                if joined is None:
                    at += 1
                else:
                    del kept[at]
                    fresh, at = joined, 0
            kept.append(fresh)
            if len(kept) > PRODUCT_MAX:
                self.refuse()
        return sorted(kept, key=show_conjunction)

    def refuse(self) -> NoReturn:
        """Too much for the bounds."""
        raise FilterError(
            f"too many combinations: written as alternatives, a filter has at most {CONJUNCTIONS_MAX}; "
            "subscribe with several filters, or use 'in' for lists of values"
        )

    def _note(self, message: str, node: Node) -> None:
        self.never.append(FilterError(f"this can never be true: {message}", self._text, node.start))


def is_within(inner: Conjunction, outer: Conjunction) -> bool:
    """Whether all that matches one matches the other; sound, not complete."""
    return outer.keys() <= inner.keys() and all(
        inner[name].is_within(wanted) for name, wanted in outer.items()
    )


def _together(left: Conjunction, right: Conjunction) -> tuple[Conjunction | None, str]:
    """Both at once; or None, and the name of an attribute that cannot satisfy both."""
    joint = dict(left)
    for name, wanted in right.items():
        if name in joint:
            wanted = joint[name].both(wanted)
            if wanted.is_empty:
                return None, name
        joint[name] = wanted
    return joint, ""


def _join(left: Conjunction, right: Conjunction) -> Conjunction | None:
    """One conjunction that says as much as both of them as alternatives, if there is one."""
    if left.keys() == right.keys():
        differing = [name for name in left if left[name] != right[name]]
        if len(differing) == 1:
            return _merged(left, right, differing[0])
    if is_within(left, right):
        return right
    return left if is_within(right, left) else None


def _merged(left: Conjunction, right: Conjunction, name: str) -> Conjunction | None:
    """The two differ in one attribute, so they are one if its two constraints are."""
    either = left[name].either(right[name])
    if either is None:
        return None
    if either == ANYTHING:
        return {other: wanted for other, wanted in left.items() if other != name}
    return {**left, name: either}


def _clash(name: str, left: Constraint, right: Constraint) -> str:
    kinds, others = _kinds(left), _kinds(right)
    if kinds and others and not kinds & others:
        return f"'{name}' would be {' or '.join(sorted(kinds))} and {' or '.join(sorted(others))} at once"
    return f"no value of '{name}' satisfies all of this"


def _kinds(constraint: Constraint) -> set[str]:
    found = {"a number"} if constraint.numbers else set()
    found |= {"a string"} if constraint.strings.cuts else set()
    return found | ({"a boolean"} if constraint.flags & 12 else set())
