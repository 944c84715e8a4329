"""The ids of transactions."""

from __future__ import annotations

import pytest

from ledger.errors import InvalidArgumentError
from ledger.transactions import MAX_HALF, TransactionId, TransactionOutcome


@pytest.mark.parametrize("known", [TransactionId(1, 0, 0), TransactionId(0xFFFF_FFFF, 4095, MAX_HALF)])
def test_an_id_comes_back_from_its_text(known: TransactionId) -> None:
    text = str(known)
    assert text.startswith("x1_")
    assert TransactionId.parse(text) == known


def test_any_changed_letter_is_refused() -> None:
    text = str(TransactionId(7, 3, 123_456))
    for place in range(len(text)):
        other = "A" if text[place] != "A" else "B"
        with pytest.raises(InvalidArgumentError, match="is not the id of a transaction"):
            TransactionId.parse(text[:place] + other + text[place + 1 :])


@pytest.mark.parametrize("wrong", ["", "x1_", "t1_AAAA", None, 7, "x1_" + "*" * 28, str(TransactionId(1, 1, 1)) + "A"])
def test_other_things_are_refused(wrong: object) -> None:
    with pytest.raises(InvalidArgumentError, match="is not the id of a transaction"):
        TransactionId.parse(wrong)


def test_every_outcome_has_a_phrase() -> None:
    assert [outcome.phrase for outcome in TransactionOutcome] == [
        "committed",
        "rolled back",
        "moved to the dead letters of its producer group",
    ]
