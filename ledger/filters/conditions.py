"""The conditions of a filter, and how they are evaluated.

A condition is true, false or unknown for a message, as in SQL. A comparison is unknown if the message lacks a property
that it names, or if a property cannot be read as a number where the comparison needs one. A message matches a filter
for which the filter is true.

Conditions are evaluated for many messages at a time. With the numbers below, the logic of SQL is arithmetic:

    true 1, unknown 0, false -1        a AND b: the minimum        a OR b: the maximum        NOT a: -a
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ledger.filters.properties import Kind, Properties, Value

# 1, 0 or -1 for each message.
Truths = NDArray[np.int8]

COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}
PART_TESTS: Mapping[str, Callable[[str, str], bool]] = {
    "CONTAINS": operator.contains,
    "STARTSWITH": str.startswith,
    "ENDSWITH": str.endswith,
}


class Condition(Protocol):
    """An interface: a condition, or a part of one. Conditions that are written alike are equal."""

    @property
    def depth(self) -> int:
        """How many conditions stand inside each other here, this one included."""

    @property
    def terms(self) -> int:
        """How many comparisons the condition has. Each text of an IN counts."""

    def names(self) -> Iterator[str]:
        """Yield the names of the properties that the condition needs."""

    def truths(self, messages: Properties) -> Truths:
        """Evaluate the condition for each message."""


@dataclass(frozen=True, slots=True)
class PropertyName:
    """One side of a comparison: the property with this name."""

    name: str

    def values(self, messages: Properties, kind: Kind) -> Sequence[Value | None]:
        return messages.values(self.name, kind)


@dataclass(frozen=True, slots=True)
class Constant:
    """One side of a comparison: a value that is the same for all messages. None: NULL, which is never compared."""

    value: Value | None

    @property
    def kind(self) -> Kind:
        if isinstance(self.value, bool):
            return Kind.BOOLEAN
        return Kind.TEXT if isinstance(self.value, str) else Kind.NUMBER

    def values(self, messages: Properties, kind: Kind) -> Sequence[Value | None]:
        return [self.value] * len(messages)


Operand = PropertyName | Constant


@dataclass(frozen=True, slots=True)
class Always:
    """TRUE or FALSE."""

    value: bool
    depth: int = field(default=1, init=False)
    terms: int = field(default=1, init=False)

    def names(self) -> Iterator[str]:
        return iter(())

    def truths(self, messages: Properties) -> Truths:
        return np.full(len(messages), 1 if self.value else -1, np.int8)


@dataclass(frozen=True, slots=True)
class Compared:
    """A comparison of two values, which are read as `kind`."""

    operator: str
    left: Operand
    right: Operand
    kind: Kind
    depth: int = field(default=1, init=False)
    terms: int = field(default=1, init=False)

    def names(self) -> Iterator[str]:
        return (side.name for side in (self.left, self.right) if isinstance(side, PropertyName))

    def truths(self, messages: Properties) -> Truths:
        compare = COMPARISONS[self.operator]
        sides = zip(self.left.values(messages, self.kind), self.right.values(messages, self.kind), strict=True)
        return _truths(
            (None if left is None or right is None else compare(left, right) for left, right in sides), len(messages)
        )


@dataclass(frozen=True, slots=True)
class IsMissing:
    """The message lacks the property. Never unknown."""

    name: str
    depth: int = field(default=1, init=False)
    terms: int = field(default=1, init=False)

    def names(self) -> Iterator[str]:
        yield self.name

    def truths(self, messages: Properties) -> Truths:
        return _truths((text is None for text in messages.values(self.name, Kind.TEXT)), len(messages))


@dataclass(frozen=True, slots=True)
class IsOneOf:
    """The property is one of these texts."""

    name: str
    texts: frozenset[str]
    depth: int = field(default=1, init=False)

    @property
    def terms(self) -> int:
        return len(self.texts)

    def names(self) -> Iterator[str]:
        yield self.name

    def truths(self, messages: Properties) -> Truths:
        found = messages.values(self.name, Kind.TEXT)
        return _truths((None if text is None else text in self.texts for text in found), len(messages))


@dataclass(frozen=True, slots=True)
class HasPart:
    """The property contains a text, or begins or ends with it. `test` is a key of PART_TESTS."""

    test: str
    name: str
    part: str
    depth: int = field(default=1, init=False)
    terms: int = field(default=1, init=False)

    def names(self) -> Iterator[str]:
        yield self.name

    def truths(self, messages: Properties) -> Truths:
        test, part = PART_TESTS[self.test], self.part
        found = messages.values(self.name, Kind.TEXT)
        return _truths((None if text is None else test(str(text), part) for text in found), len(messages))


@dataclass(frozen=True, slots=True)
class Negated:
    """NOT."""

    condition: Condition
    depth: int = field(init=False, compare=False)
    terms: int = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "depth", self.condition.depth + 1)
        object.__setattr__(self, "terms", self.condition.terms)

    def names(self) -> Iterator[str]:
        return self.condition.names()

    def truths(self, messages: Properties) -> Truths:
        return -self.condition.truths(messages)


@dataclass(frozen=True, slots=True)
class Joined:
    """Conditions between which AND stands, or OR."""

    word: str
    conditions: tuple[Condition, ...]
    depth: int = field(init=False, compare=False)
    terms: int = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "depth", max(each.depth for each in self.conditions) + 1)
        object.__setattr__(self, "terms", sum(each.terms for each in self.conditions))

    def names(self) -> Iterator[str]:
        for each in self.conditions:
            yield from each.names()

    def truths(self, messages: Properties) -> Truths:
        join = np.minimum if self.word == "AND" else np.maximum
        return reduce(join, (each.truths(messages) for each in self.conditions))


def _truths(results: Iterable[bool | None], count: int) -> Truths:
    """Return the numbers of results, of which None is unknown."""
    return np.fromiter((0 if result is None else 1 if result else -1 for result in results), np.int8, count)
