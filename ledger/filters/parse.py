"""Parses filters.

The grammar is that of RocketMQ's SQL92 filters, with the precedence of SQL: NOT binds less than a comparison, and more
than AND. Parsing takes time in proportion to the length of the text, and needs no recursion.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from lark import Lark, Token, Transformer, UnexpectedInput, v_args

from ledger.errors import InvalidArgumentError
from ledger.filters.conditions import (
    Always,
    Compared,
    Condition,
    Constant,
    HasPart,
    IsMissing,
    IsOneOf,
    Joined,
    Negated,
    Operand,
    PropertyName,
)
from ledger.filters.mistakes import FilterMistakeError, syntax_mistake, told
from ledger.filters.properties import Kind, Properties, boolean_of, number_of
from ledger.shared import MAX_FILTER_CHARACTERS

# Comparisons of one filter, where each text of an IN counts, and conditions that stand inside each other.
MAX_TERMS = 256
MAX_DEPTH = 32

_GRAMMAR = r"""
    ?start: any_of
    ?any_of: all_of ("OR"i all_of)*
    ?all_of: negation ("AND"i negation)*
    ?negation: predicate
        | "NOT"i negation                                               -> negated
    ?predicate: value
        | value OPERATOR value                                          -> compared
        | value BETWEEN value "AND"i value                              -> between
        | value "NOT"i BETWEEN value "AND"i value                       -> not_between
        | value IN "(" STRING ("," STRING)* ")"                         -> one_of
        | value "NOT"i IN "(" STRING ("," STRING)* ")"                  -> not_one_of
        | value IS "NULL"i                                              -> missing
        | value IS "NOT"i "NULL"i                                       -> not_missing
        | value (CONTAINS | STARTSWITH | ENDSWITH) STRING               -> part
        | value "NOT"i (CONTAINS | STARTSWITH | ENDSWITH) STRING        -> not_part
    ?value: NAME | QUOTED_NAME | STRING | NUMBER | TRUE | FALSE
        | "NULL"i                                                       -> null
        | "(" any_of ")"

    BETWEEN: "BETWEEN"i
    IN: "IN"i
    IS: "IS"i
    CONTAINS: "CONTAINS"i
    STARTSWITH: "STARTSWITH"i
    ENDSWITH: "ENDSWITH"i
    TRUE: "TRUE"i
    FALSE: "FALSE"i
    OPERATOR: "=" | "<>" | ">=" | ">" | "<=" | "<"
    NAME: /[a-z_$][a-z0-9_$]*/i
    QUOTED_NAME: /"[^"]+"/
    STRING: /'(?:[^']|'')*'/
    NUMBER: /[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?/i
    %ignore /[ \t\r\n\f]+/
"""
# What the parser has made of a part of the text.
Part = Operand | Condition


@dataclass(frozen=True, slots=True)
class MessageFilter:
    """A parsed filter. Filters that differ only in blanks and in the case of their words are equal."""

    condition: Condition
    # The properties that the filter needs.
    names: frozenset[str]

    def matches(self, messages: Properties) -> list[bool]:
        """Return for each message whether the filter is true for it. The list has the length of `messages`."""
        return [truth > 0 for truth in self.condition.truths(messages).tolist()]


def parse_filter(text: str) -> MessageFilter:
    """Parse a filter. Raises InvalidArgumentError, which names the place of a mistake."""
    if len(text) > MAX_FILTER_CHARACTERS:
        raise InvalidArgumentError(
            f"A filter can have at most {MAX_FILTER_CHARACTERS:,} characters, and this one has {len(text):,}."
        )
    try:
        condition = _condition(_parser().parse(text))  # type: ignore[arg-type]  # the transformer makes no trees
    except UnexpectedInput as error:
        raise InvalidArgumentError(syntax_mistake(text, error)) from None
    except FilterMistakeError as error:
        raise InvalidArgumentError(told(text, error.at, error.what)) from None
    if condition.terms > MAX_TERMS:
        raise InvalidArgumentError(
            f"A filter can have at most {MAX_TERMS} comparisons, and this has {condition.terms}."
        )
    return MessageFilter(condition, frozenset(condition.names()))


@cache
def _parser() -> Lark:
    """Return the parser. The first call takes some ms."""
    # The contextual lexer would accept a reserved word as a name.
    return Lark(_GRAMMAR, parser="lalr", lexer="basic", transformer=_ConditionBuilder())


@v_args(inline=True)
class _ConditionBuilder(Transformer[Any, Condition]):
    """Makes conditions while the parser reads. A method has the name of a rule or a terminal of the grammar."""

    def NAME(self, token: Token) -> PropertyName:  # noqa: N802
        return PropertyName(str(token))

    def QUOTED_NAME(self, token: Token) -> PropertyName:  # noqa: N802
        return PropertyName(token[1:-1])

    def STRING(self, token: Token) -> Constant:  # noqa: N802
        return Constant(token[1:-1].replace("''", "'"))

    def NUMBER(self, token: Token) -> Constant:  # noqa: N802
        if (number := number_of(str(token))) is None:
            raise FilterMistakeError(token, "this number is too long")
        return Constant(number)

    def TRUE(self, token: Token) -> Constant:  # noqa: N802
        return Constant(boolean_of(str(token)))

    FALSE = TRUE

    def null(self) -> Constant:
        return Constant(None)

    def any_of(self, *conditions: Part) -> Condition:
        return _joined("OR", conditions)

    def all_of(self, *conditions: Part) -> Condition:
        return _joined("AND", conditions)

    def negated(self, condition: Part) -> Condition:
        return _not(_condition(condition))

    def compared(self, left: Part, sign: Token, right: Part) -> Condition:
        return _compared(left, sign, str(sign), right)

    def between(self, value: Part, word: Token, low: Part, high: Part) -> Condition:
        if (
            isinstance(low, Constant)
            and isinstance(high, Constant)
            and low.kind is high.kind is Kind.NUMBER
            and low.value > high.value  # type: ignore[operator]  # numbers
        ):
            raise FilterMistakeError(
                word, f"no value is between {low.value} and {high.value}: write the smaller number first"
            )
        return _joined("AND", (_compared(value, word, ">=", low), _compared(value, word, "<=", high)))

    def not_between(self, value: Part, word: Token, low: Part, high: Part) -> Condition:
        return _not(self.between(value, word, low, high))

    def one_of(self, value: Part, word: Token, *texts: Constant) -> Condition:
        return IsOneOf(_name(value, word), frozenset(str(text.value) for text in texts))

    def not_one_of(self, value: Part, word: Token, *texts: Constant) -> Condition:
        return _not(self.one_of(value, word, *texts))

    def missing(self, value: Part, word: Token) -> Condition:
        return IsMissing(_name(value, word))

    def not_missing(self, value: Part, word: Token) -> Condition:
        return _not(self.missing(value, word))

    def part(self, value: Part, word: Token, text: Constant) -> Condition:
        if not text.value:
            raise FilterMistakeError(word, f"every text has an empty part: give {word.upper()} a text with a character")
        return HasPart(word.upper(), _name(value, word), str(text.value))

    def not_part(self, value: Part, word: Token, text: Constant) -> Condition:
        return _not(self.part(value, word, text))


def _condition(part: Part) -> Condition:
    """Return a condition. A property that stands alone is compared with TRUE. Raises FilterMistakeError."""
    if isinstance(part, PropertyName):
        return Compared("=", part, Constant(True), Kind.BOOLEAN)
    if not isinstance(part, Constant):
        return part
    if not isinstance(part.value, bool):
        raise FilterMistakeError(None, "a value alone is no condition: compare it with a property")
    return Always(part.value)


def _joined(word: str, parts: Sequence[Part]) -> Condition:
    """Return conditions joined by AND or OR."""
    return _not_too_deep(Joined(word, tuple(_condition(part) for part in parts)))


def _not(condition: Condition) -> Condition:
    return condition.condition if isinstance(condition, Negated) else _not_too_deep(Negated(condition))


def _not_too_deep(condition: Condition) -> Condition:
    if condition.depth > MAX_DEPTH:
        raise FilterMistakeError(None, f"more than {MAX_DEPTH} conditions stand inside each other: write it flatter")
    return condition


def _name(part: Part, word: Token) -> str:
    if not isinstance(part, PropertyName):
        raise FilterMistakeError(word, f"{word.upper()} needs a property on its left")
    return part.name


def _compared(left: Part, place: Token, sign: str, right: Part) -> Condition:
    """Return the comparison of two values. `place` is where an error points to."""
    sides = (left, right)
    if not isinstance(left, Operand) or not isinstance(right, Operand):
        raise FilterMistakeError(place, "a comparison has a property or a value on each side, and no condition")
    constants = [side for side in sides if isinstance(side, Constant)]
    if any(constant.value is None for constant in constants):
        raise FilterMistakeError(place, "nothing is equal to NULL, or larger: write IS NULL or IS NOT NULL")
    kinds = {constant.kind for constant in constants}
    if len(kinds) > 1:
        raise FilterMistakeError(place, "the two values are of different kinds: compare a property with each")
    kind = next(iter(kinds), Kind.TEXT if sign in ("=", "<>") else Kind.NUMBER)
    if kind is not Kind.NUMBER and sign not in ("=", "<>"):
        raise FilterMistakeError(place, f"{place.upper()} compares numbers: compare {kind.value} with = or <>")
    return Compared(sign, left, right, kind)
