"""Tests of the handles of messages with delivery times."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.errors import InvalidArgumentError
from ledger.timed import MAX_DELIVERY_MS, MAX_IDENTITY, TimedHandle, WaitingMessages, moment

HANDLES = st.builds(
    TimedHandle,
    st.integers(0, (1 << 32) - 1),
    st.integers(0, (1 << 32) - 1),
    st.integers(0, MAX_IDENTITY),
    st.integers(0, MAX_DELIVERY_MS),
)
HANDLE = TimedHandle(3, 2, 1_000, 1_800_000_000_000)


@given(HANDLES)
def test_a_handle_comes_back_from_its_text(handle: TimedHandle) -> None:
    text = str(handle)
    assert TimedHandle.parse(text) == handle
    assert len(text) == 39
    assert text.isprintable()
    assert " " not in text


@given(HANDLES, st.integers(0, 38), st.characters())
def test_a_changed_handle_is_refused(handle: TimedHandle, place: int, character: str) -> None:
    text = str(handle)
    changed = text[:place] + character + text[place + 1 :]
    if changed != text:
        with pytest.raises(InvalidArgumentError, match="is not the handle"):
            TimedHandle.parse(changed)


TEXT = str(HANDLE)
NO_HANDLES: list[object] = [
    *("", "t1_", f"t2{TEXT[2:]}", TEXT[:-1], f"{TEXT}A", f" {TEXT}", "é" * 39, f"t1_{'A' * 36}", f"t1_{'é' * 36}"),
    *(str(TimedHandle(1, 1, 1 << 63, 5)), str(TimedHandle(1, 1, 1, MAX_DELIVERY_MS + 1))),
    *(7, None, TEXT.encode()),
]


@pytest.mark.parametrize("text", NO_HANDLES)
def test_what_is_no_handle_is_refused(text: object) -> None:
    with pytest.raises(InvalidArgumentError, match="is not the handle"):
        TimedHandle.parse(text)


@given(st.text(max_size=60))
def test_hostile_text_is_refused(text: str) -> None:
    for hostile in (text, f"t1_{text}", f"t1_{text:A<36}"):
        with pytest.raises(InvalidArgumentError, match="is not the handle"):
            TimedHandle.parse(hostile)


def test_each_waiting_message_has_its_own_handle() -> None:
    waiting = WaitingMessages(3, 2, 1_000, [1_800_000_000_000, 5])
    assert waiting.handle(0) == str(HANDLE)
    assert TimedHandle.parse(waiting.handle(1)) == TimedHandle(3, 2, 1_001, 5)
    assert waiting.deliver_at(1) == moment(5)
    assert waiting.deliver_at(0).isoformat() == "2027-01-15T08:00:00+00:00"
