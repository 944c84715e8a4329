"""What users write into forms: times, places and queues."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from cluster.console.form_values import moment_of, queues_of, reset_target
from cluster.console.pages.dead_letters_page import chosen, places_of, places_text
from ledger.errors import InvalidArgumentError

NOW_MS = 1_800_000_000_000
NOW = datetime.fromtimestamp(NOW_MS / 1000, UTC)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("10m", NOW_MS / 1000 - 600),
        ("2h", NOW_MS / 1000 - 7_200),
        ("999999999d", 0),
        ("1500000000000", 1_500_000_000),
        ("1970-01-01T00:01", 60),
        ("1970-01-01T01:00:00+01:00", 0),
    ],
)
def test_times_are_read(text: str, seconds: float) -> None:
    moment = moment_of(f" {text} ", NOW_MS)
    assert moment.timestamp() == seconds
    assert moment.utcoffset() is not None


@pytest.mark.parametrize("text", ["", "soon", "1969-12-31", "9" * 18, "٣m", "<b>", "1e3", "-5m", "0001-01-01"])
def test_other_texts_are_no_times(text: str) -> None:
    with pytest.raises(InvalidArgumentError, match="is not a time"):
        moment_of(text, NOW_MS)


def test_a_reset_goes_to_a_place_of_the_form() -> None:
    assert reset_target({"to": "earliest", "time": "x"}, NOW_MS) == "earliest"
    assert reset_target({"to": "latest"}, NOW_MS) == "latest"
    assert reset_target({"to": "offset", "offset": " 17 "}, NOW_MS) == 17
    assert reset_target({"to": "time", "time": "0s"}, NOW_MS) == NOW
    for fields in ({}, {"to": "<b>"}, {"to": "offset", "offset": "-1"}, {"to": "offset"}, {"to": "time"}):
        with pytest.raises(InvalidArgumentError):
            reset_target(fields, NOW_MS)


def test_queues_are_read() -> None:
    assert queues_of("  ") is None
    assert queues_of("3") == [3]
    assert queues_of("7, 0-2 ,1") == [0, 1, 2, 7]


@pytest.mark.parametrize("text", ["x", "1-", "-1", "3-1", "1,,2", "0-99999999", "²"])
def test_other_texts_name_no_queues(text: str) -> None:
    with pytest.raises(InvalidArgumentError, match="names no queues"):
        queues_of(text)


def test_places_among_dead_letters_survive_an_address() -> None:
    places = {0: 17, 12: 0, 2: 10**12}
    assert places_of(places_text(places)) == places
    assert places_of("") == {}
    for text in ("1", "a-1", "1-²", ".", "1-" + "9" * 19, ".".join(f"{queue}-1" for queue in range(2_000))):
        with pytest.raises(InvalidArgumentError):
            places_of(text)


def test_chosen_letters_are_read() -> None:
    assert chosen({"what": "some", "letter-1-7": "yes", "letter-0-9": "yes"}) == [(0, 9), (1, 7)]
    for form in ({}, {"letter-1": "yes"}, {"letter-a-b": "yes"}, {f"letter-0-{n}": "yes" for n in range(51)}):
        with pytest.raises(InvalidArgumentError):
            chosen(form)
