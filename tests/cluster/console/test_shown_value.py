"""Tests how bytes of strangers are shown: as JSON, text and hexadecimal, without control characters, and cut."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.console.shown_value import (
    SHOWN_BYTES,
    SHOWN_CHARACTERS,
    SHOWN_HEX_BYTES,
    line,
    shown_value,
    whole,
)

DEEP = b"[" * 900 + b"1," * 20_000 + b"1" + b"]" * 900


def is_harmless(text: str) -> bool:
    return all(each.isprintable() or each in "\n\t \u00a0" or each.isspace() for each in text)


@given(st.binary(max_size=300) | st.text().map(lambda text: text.encode(errors="surrogatepass")))
def test_no_form_shows_a_character_that_acts(data: bytes) -> None:
    for form in ("", "json", "text", "hex"):
        shown = shown_value(data, form)
        assert not any(ord(each) < 32 and each not in "\n\t" for each in shown.text)
        assert not set(shown.text) & set("\x7f\x9b\u202e\u2066\u200f\ufeff\u2028\ud800")
        assert shown.size == len(data)
    assert "\n" not in line(data)
    assert not set(line(data) + whole(data)) & set("\x00\x1b\x7f\x9b\u202e")


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda each: st.lists(each) | st.dictionaries(st.text(), each),
        max_leaves=20,
    ).filter(lambda each: isinstance(each, dict | list))
)
def test_laid_out_json_has_the_same_content(value: object) -> None:
    shown = shown_value(json.dumps(value).encode())
    assert shown.form == "json"
    if is_harmless(shown.text) and "\\" not in shown.text:
        assert json.loads(shown.text) == value


def test_numbers_are_shown_as_they_were_written() -> None:
    shown = shown_value(b'{"a":1.50,"b":[1e400,-0,12345678901234567890.10],"c":' + b"9" * 6_000 + b"}")
    assert "1.50" in shown.text
    assert "1e400" in shown.text
    assert "-0" in shown.text
    assert "12345678901234567890.10" in shown.text
    assert "9" * 6_000 in shown.text


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b'{"a":1,"a":2}', "the same name twice"),
        (b"[NaN]", "NaN is no JSON"),
        (b"[" * 60_000, "too deep"),
        (b'"text"', "no JSON object or list"),
        (b"\xff", "'utf-8' codec"),
        (b"{" * 5, "Expecting property name"),
        (b"[" + b" " * SHOWN_BYTES + b"]", "larger than 64 KiB"),
    ],
)
def test_what_is_no_json_is_shown_as_text_with_the_reason(value: bytes, reason: str) -> None:
    shown = shown_value(value, "json")
    assert shown.form == "text"
    assert reason in shown.note


def test_a_short_value_with_a_long_layout_is_cut() -> None:
    began_s = time.monotonic()
    shown = shown_value(DEEP)
    assert (shown.form, shown.is_cut, len(shown.text)) == ("json", True, SHOWN_CHARACTERS)
    assert time.monotonic() - began_s < 2


def test_long_values_are_cut() -> None:
    shown = shown_value(b"x" * (4 << 20))
    assert (shown.form, shown.is_cut, len(shown.text), shown.size) == ("text", True, SHOWN_BYTES, 4 << 20)
    shown = shown_value(b"\xff" * (4 << 20))
    assert (shown.form, shown.is_cut) == ("hex", True)
    assert shown.text.splitlines()[-1].startswith(f"{SHOWN_HEX_BYTES - 16:08x}  ff ff")


def test_a_character_that_the_cut_splits_does_not_make_the_text_binary() -> None:
    shown = shown_value(b"x" * (SHOWN_BYTES - 1) + "é".encode() * 10)
    assert shown.form == "text"


def test_hexadecimal_rows_have_the_bytes_and_the_letters() -> None:
    assert shown_value(b"<b>\x00\xff" + b"A" * 12, "hex").text == (
        "00000000  3c 62 3e 00 ff 41 41 41 41 41 41 41 41 41 41 41  <b>..AAAAAAAAAAA\n"
        "00000010  41                                               A"
    )


def test_a_line_is_short() -> None:
    assert line(b"a\nb\tc") == "a\\nb\\tc"
    assert len(line(b"x" * 1_000)) == 120
    assert line(b"x" * 1_000).endswith("…")
    assert line(None) == ""
