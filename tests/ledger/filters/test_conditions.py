"""Filters give the same results as SQLite for the same messages. SQLite is an independent implementation of SQL's logic
with three values."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.filters.parse import parse_filter
from ledger.filters.properties import Properties, boolean_of, number_of

NAMES = ("a", "b", "c")
TEXTS = ["", "x", "xy", "yx", "xyx", "it's", "true", "FALSE", "0", "1", "1.0", "-2", "2.5", "7e0", "abc"]


@dataclass(frozen=True)
class Written:
    """A condition in the language of filters, and in that of SQLite."""

    ours: str
    sqlite: str


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


names = st.sampled_from(NAMES)
numbers = st.sampled_from(["0", "1", "-2", "2.5", "+7", "1e0"])
texts = st.sampled_from(TEXTS).map(quoted)
signs = st.sampled_from(["=", "<>", "<", "<=", ">", ">="])
negations = st.sampled_from(["", "NOT "])


@st.composite
def leaves(draw: st.DrawFn) -> Written:
    """A condition without AND, OR and NOT. In the tables of SQLite a property has a column for each kind."""
    name, other, number, text, no = draw(names), draw(names), draw(numbers), draw(texts), draw(negations)
    match draw(st.integers(0, 11)):
        case 0:
            sign = draw(signs)
            return Written(f"{name} {sign} {number}", f"number_{name} {sign} {number}")
        case 1:
            sign = draw(signs)
            return Written(f"{number} {sign} {name}", f"{number} {sign} number_{name}")
        case 2:
            sign = draw(st.sampled_from(["=", "<>"]))
            return Written(f"{name} {sign} {text}", f"text_{name} {sign} {text}")
        case 3:
            sign = draw(signs)
            kind = "text" if sign in ("=", "<>") else "number"
            return Written(f"{name} {sign} {other}", f"{kind}_{name} {sign} {kind}_{other}")
        case 4:
            low, high = sorted((number, draw(numbers)), key=float)
            return Written(f"{name} {no}BETWEEN {low} AND {high}", f"number_{name} {no}BETWEEN {low} AND {high}")
        case 5:
            some = ", ".join(draw(st.lists(texts, min_size=1, max_size=4)))
            return Written(f"{name} {no}IN ({some})", f"text_{name} {no}IN ({some})")
        case 6:
            return Written(f"{name} IS {no}NULL", f"text_{name} IS {no}NULL")
        case 7:
            part = draw(st.sampled_from(["'x'", "'y'", "'xy'", "'0'"]))
            return Written(f"{name} {no}CONTAINS {part}", f"{no}(instr(text_{name}, {part}) > 0)")
        case 8:
            part = draw(st.sampled_from(["x", "xy", "1"]))
            return Written(f"{name} {no}STARTSWITH '{part}'", f"{no}(substr(text_{name}, 1, {len(part)}) = '{part}')")
        case 9:
            part = draw(st.sampled_from(["x", "yx", "0"]))
            # substr(text, -2) of a text with one character returns that character
            return Written(f"{name} {no}ENDSWITH '{part}'", f"{no}(substr(text_{name}, -{len(part)}) = '{part}')")
        case 10:
            value = draw(st.sampled_from(["TRUE", "FALSE"]))
            return Written(f"{name} = {value}", f"boolean_{name} = {value}")
        case _:
            return draw(
                st.sampled_from([Written(name, f"boolean_{name}"), Written("TRUE", "TRUE"), Written("FALSE", "FALSE")])
            )


def grown(inner: st.SearchStrategy[Written]) -> st.SearchStrategy[Written]:
    def joined(word: str, parts: Sequence[Written]) -> Written:
        return Written(
            f" {word} ".join(f"({part.ours})" for part in parts), f" {word} ".join(f"({part.sqlite})" for part in parts)
        )

    def negated(part: Written) -> Written:
        return Written(f"NOT ({part.ours})", f"NOT ({part.sqlite})")

    def flat(words: tuple[Written, Written, Written, str, str]) -> Written:
        first, second, third, one, two = words
        return Written(
            f"{first.ours} {one} {second.ours} {two} NOT {third.ours}",
            f"{first.sqlite} {one} {second.sqlite} {two} NOT {third.sqlite}",
        )

    word = st.sampled_from(["AND", "OR"])
    return (
        st.builds(joined, word, st.lists(inner, min_size=2, max_size=3))
        | inner.map(negated)
        | st.tuples(leaves(), leaves(), leaves(), word, word).map(flat)
    )


conditions = st.recursive(leaves(), grown, max_leaves=8)
messages = st.lists(st.tuples(*[st.none() | st.sampled_from(TEXTS) for _ in NAMES]), min_size=1, max_size=12)


def by_sqlite(condition: str, rows: Sequence[tuple[str | None, ...]]) -> list[int]:
    """Return 1, 0 or -1 for each row: SQLite finds the condition true, unknown or false."""
    with sqlite3.connect(":memory:") as database:
        columns = [f"{kind}_{name} {affinity}" for name in NAMES for kind, affinity in
                   (("text", "TEXT"), ("number", "NUMERIC"), ("boolean", "BOOLEAN"))]  # fmt: skip
        database.execute(f"CREATE TABLE message (place INTEGER, {', '.join(columns)})")
        for place, row in enumerate(rows):
            values = [value for text in row for value in (
                text, None if text is None else number_of(text), None if text is None else boolean_of(text)
            )]  # fmt: skip
            database.execute(f"INSERT INTO message VALUES (?{', ?' * len(values)})", (place, *values))
        found = database.execute(f"SELECT {condition} FROM message ORDER BY place").fetchall()
    return [0 if result is None else 1 if result else -1 for (result,) in found]


@settings(max_examples=400)
@given(conditions, messages)
def test_sqlite_agrees(condition: Written, rows: list[tuple[str | None, ...]]) -> None:
    properties = Properties(len(rows), {name: [row[at] for row in rows] for at, name in enumerate(NAMES)})
    parsed = parse_filter(condition.ours)
    expected = by_sqlite(condition.sqlite, rows)
    assert parsed.condition.truths(properties).tolist() == expected
    assert parsed.matches(properties) == [truth == 1 for truth in expected]


@pytest.mark.parametrize(
    ("condition", "truths"),
    [  # true, unknown, false of a; then of b
        ("a AND b", [1, 0, -1, 0, 0, -1, -1, -1, -1]),
        ("a OR b", [1, 1, 1, 1, 0, 0, 1, 0, -1]),
        ("NOT a", [-1, -1, -1, 0, 0, 0, 1, 1, 1]),
    ],
)
def test_the_tables_of_truth(condition: str, truths: list[int]) -> None:
    values = ["true", None, "false"]
    properties = Properties(9, {"a": [value for value in values for _ in values], "b": values * 3})
    assert parse_filter(condition).condition.truths(properties).tolist() == truths
