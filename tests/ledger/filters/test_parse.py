"""Which filters are accepted, what they mean, and what is said of those that are not."""

from __future__ import annotations

import contextlib
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.errors import InvalidArgumentError
from ledger.filters.parse import MAX_DEPTH, MAX_TERMS, parse_filter
from ledger.filters.properties import Properties
from ledger.shared import MAX_FILTER_CHARACTERS


def matches(text: str, **properties: str) -> bool:
    """Return whether one message with these properties matches."""
    return parse_filter(text).matches(Properties(1, {name: [value] for name, value in properties.items()}))[0]


@pytest.mark.parametrize(
    ("text", "yes", "no"),
    [
        ("a = 3", {"a": "3"}, {"a": "4"}),
        ("a = 3", {"a": "3.0"}, {"a": "three"}),
        ("a <> 4", {"a": "3"}, {"a": "4.0"}),
        ("a > 3", {"a": "3.5"}, {"a": "3"}),
        ("a >= -3.5e1", {"a": "-35"}, {"a": "-36"}),
        ("a < .5", {"a": "0.25"}, {"a": "+.5"}),
        ("a <= 9007199254740993", {"a": "9007199254740993"}, {"a": "9007199254740994"}),
        ("a > b", {"a": "10", "b": "9"}, {"a": "9", "b": "10"}),
        ("a = b", {"a": "x", "b": "x"}, {"a": "1", "b": "1.0"}),
        ("a = 'it''s'", {"a": "it's"}, {"a": "its"}),
        ("a = ''", {"a": ""}, {}),
        ("a BETWEEN 2 AND 10", {"a": "2"}, {"a": "11"}),
        ("a not between 2 and 10", {"a": "11"}, {"a": "10"}),
        ("a BETWEEN low AND high", {"a": "5", "low": "5", "high": "6"}, {"a": "5", "low": "6", "high": "7"}),
        ("a IN ('3', '4')", {"a": "4"}, {"a": "4.0"}),
        ("a NOT IN ('3', '4')", {"a": "5"}, {"a": "3"}),
        ("a NOT IN ('3')", {"a": "5"}, {}),
        ("a IS NULL", {}, {"a": ""}),
        ("a IS NOT NULL", {"a": ""}, {}),
        ("a CONTAINS 'bc'", {"a": "abcd"}, {"a": "acbd"}),
        ("a STARTSWITH 'ab'", {"a": "abc"}, {"a": "cab"}),
        ("a ENDSWITH 'ab'", {"a": "cab"}, {"a": "abc"}),
        ("a NOT CONTAINS 'bc'", {"a": "acbd"}, {}),
        ("a = TRUE", {"a": "True"}, {"a": "yes"}),
        ("a = FALSE", {"a": "false"}, {"a": "true"}),
        ("a", {"a": "true"}, {"a": "1"}),
        ("NOT a", {"a": "false"}, {}),
        ("NOT a = 3", {"a": "4"}, {"a": "3"}),
        ("NOT a = 3 AND b = 1", {"a": "4", "b": "1"}, {"a": "4", "b": "2"}),
        ("a = 1 OR b = 1 AND c = 1", {"a": "1"}, {"b": "1"}),
        ("(a = 1 OR b = 1) AND c = 1", {"a": "1", "c": "1"}, {"a": "1"}),
        ("TRUE", {}, None),
        ("a = 1 OR TRUE", {}, None),
        ("1 = 1", {}, None),
        ("(a) = (3)", {"a": "3"}, {"a": "4"}),
        ("notable = 1 AND index = 2 AND order_ = 3", {"notable": "1", "index": "2", "order_": "3"}, {}),
        ("\n a\t=\r\n1 ", {"a": "1"}, {}),
        ("$a_1 = 1", {"$a_1": "1"}, {"a_1": "1"}),
        ("\"trace-id\" = 'x'", {"trace-id": "x"}, {"trace": "x"}),
        ("\"and\" = 'x'", {"and": "x"}, {}),
        ("grüße = 'x'", None, None),
    ],
)
def test_what_a_filter_means(text: str, yes: dict[str, str] | None, no: dict[str, str] | None) -> None:
    if yes is None and no is None:
        with pytest.raises(InvalidArgumentError):
            parse_filter(text)
    if yes is not None:
        assert matches(text, **yes)
    if no is not None:
        assert not matches(text, **no)


def test_names_of_properties_are_case_sensitive() -> None:
    assert matches("Price = 1", Price="1")
    assert not matches("Price = 1", price="1")


@pytest.mark.parametrize(
    "number",
    ["", " 1", "1 ", "1_000", "0x10", "1d", "NaN", "Infinity", "--1", "\u0661", "1" * 65, "1e", ".", "1,5"],
)
def test_a_text_that_is_no_number_is_unknown(number: str) -> None:
    assert not matches("a > -1", a=number)
    assert not matches("NOT a > -1", a=number)
    assert not matches("a <> 7", a=number)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "at its end: here could stand a property, a number, a text in single quotes or ("),
        ("price >", "at its end: here could stand"),
        ("price > > 10", 'at character 9, "> 10": here could stand a property'),
        ("price != 3", 'at character 7, "!= 3": write <> and not !='),
        ("price == 3", 'at character 7, "== 3": write = and not =='),
        ("a = 'EU", 'at character 5, "\'EU": this text has no end'),
        ('"a = 1', 'at character 1, ""a = 1": this name has no end'),
        ("a LIKE 'x%'", "write CONTAINS, STARTSWITH or ENDSWITH and not LIKE"),
        ("a && b", "write AND and not &&"),
        ("a || b", "write OR and not ||"),
        ("a = 3 b", 'at character 7, "b": here could stand'),
        ("a = 3)", 'at character 6, ")": here could stand the end'),
        ("(a = 3", "at its end: here could stand"),
        ("a = NULL", 'at character 3, "= NULL": nothing is equal to NULL, or larger: write IS NULL'),
        ("a > 'x'", "> compares numbers: compare a text with = or <>"),
        ("a < TRUE", "< compares numbers: compare a boolean with = or <>"),
        ("a BETWEEN 'a' AND 'b'", "BETWEEN compares numbers: compare a text with = or <>"),
        ("a BETWEEN 5 AND 1", "no value is between 5 and 1: write the smaller number first"),
        ("a IN (1)", 'at character 7, "1)": here could stand a text in single quotes'),
        ("a IN ()", "here could stand a text in single quotes"),
        ("'x' IN ('x')", "IN needs a property on its left"),
        ("1 IS NULL", "IS needs a property on its left"),
        ("a CONTAINS ''", "every text has an empty part"),
        ("a CONTAINS b", "here could stand a text in single quotes"),
        ("3 = 'x'", "the two values are of different kinds"),
        ("(a = 3) = 4", "and no condition"),
        ("a = 3 = 4", "at character 7"),
        ("'x'", "a value alone is no condition"),
        ("a AND 3", "a value alone is no condition"),
        ("a = @", 'at character 5, "@": a filter cannot have this character'),
        ("a; DROP TABLE b", 'at character 2, "; DROP TABLE b"'),
        ("and = 3", "at character 1"),
        ("a = 1 -- b", "at character 7"),
        (f"a = {'1' * 65}", "this number is too long"),
        ("x" * (MAX_FILTER_CHARACTERS + 1), "at most 4,096 characters, and this one has 4,097"),
        ("a IN (" + ", ".join(f"'{n}'" for n in range(MAX_TERMS + 1)) + ")", "at most 256 comparisons"),
        (" OR ".join(["a"] * (MAX_TERMS + 1)), "at most 256 comparisons"),
        ("(a AND (b OR " * MAX_DEPTH + "c" + "))" * MAX_DEPTH, "stand inside each other"),
    ],
)
def test_a_mistake_is_named_with_its_place_and_the_way_out(text: str, told: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        parse_filter(text)
    assert told in str(caught.value)
    assert len(str(caught.value)) < 400


def test_the_bounds_themselves_are_allowed() -> None:
    assert parse_filter(" OR ".join(["a"] * MAX_TERMS)).condition.terms == MAX_TERMS
    text = "a"
    for _ in range((MAX_DEPTH - 1) // 2):
        text = f"a AND (b OR ({text}))"
    assert parse_filter(text).condition.depth == MAX_DEPTH - 1
    assert parse_filter("a".ljust(MAX_FILTER_CHARACTERS))
    assert parse_filter("NOT " * 1000 + "a") == parse_filter("a")
    assert parse_filter("(" * 2000 + "a" + ")" * 2000) == parse_filter("a")


def test_filters_are_equal_if_they_differ_only_in_blanks_and_case() -> None:
    assert parse_filter("a > 1 and b in ('x','y')") == parse_filter("  a>1 AND b  IN ('y', 'x')")
    assert parse_filter("a > 1") != parse_filter("A > 1")
    assert parse_filter("a > 1").names == {"a"}
    assert parse_filter("a > b AND c IS NULL OR d CONTAINS 'x' AND NOT e IN ('f')").names == set("abcde")


@given(st.text(st.sampled_from(" ()'\"=<>!,.+-0123456789abeE_$&|\n") | st.characters(), max_size=200))
def test_no_text_ends_in_another_error(text: str) -> None:
    try:
        parse_filter(text)
    except InvalidArgumentError as error:
        assert str(error)  # noqa: PT017


WORDS = [
    "NOT",
    "AND",
    "OR",
    "(",
    ")",
    ",",
    "=",
    "<>",
    ">=",
    "a",
    "b",
    "'x'",
    "1",
    "-2.5",
    "IS",
    "NULL",
    "IN",
    "BETWEEN",
    "CONTAINS",
    "TRUE",
    "FALSE",
    '"q"',
]


@given(st.lists(st.sampled_from(WORDS), max_size=40).map(" ".join))
def test_no_order_of_words_ends_in_another_error(text: str) -> None:
    try:
        parsed = parse_filter(text)
    except InvalidArgumentError:
        return
    assert parsed.matches(Properties(2, {"a": ["1", None], "b": ["x", "true"]})) is not None


@pytest.mark.parametrize(
    "text",
    [
        "'" * MAX_FILTER_CHARACTERS,
        "''" * 2000 + "x",
        "(" * MAX_FILTER_CHARACTERS,
        "1" * MAX_FILTER_CHARACTERS,
        "1." * 2000,
        "NOT " * 1024,
        '"' * MAX_FILTER_CHARACTERS,
        "a AND " * 680 + "b",
    ],
)
def test_hostile_texts_take_no_time(text: str) -> None:
    parse_filter("a = 1")  # the parser is made once
    spent_s = []
    for _ in range(3):  # a garbage collection of all that other tests left can take seconds
        begun_s = time.thread_time()
        with contextlib.suppress(InvalidArgumentError):
            parse_filter(text)
        spent_s.append(time.thread_time() - begun_s)
    assert min(spent_s) < 0.25
