"""Message ids in the replicated state: what is remembered, for how long, and how many."""

from __future__ import annotations

import random
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.errors import InternalError
from ledger.hashing import message_id_hash
from ledger.state import State, message_ids
from ledger.state.command_encoding import encode_command
from ledger.state.commands import Command, CreateTopic, RaiseFeatureLevel
from ledger.state.feature_levels import MESSAGE_IDS
from ledger.state.message_ids import MAX_REMEMBERED, REMEMBER_MS, MessageIds

ORDERS, PAYMENTS = 1, 2


def hashes(*names: str) -> list[bytes]:
    return [message_id_hash(name.encode()) for name in names]


def found(ids: MessageIds, topic_id: int, now_ms: int, *names: str) -> dict[str, tuple[int, int]]:
    """Return queue and offset of the ids that are remembered."""
    known = ids.known(topic_id, hashes(*names), now_ms)
    return {names[place]: (record.queue, record.offset) for place, record in known}


def test_an_id_is_remembered_for_its_topic_and_time() -> None:
    ids = MessageIds()
    ids.remember(ORDERS, hashes("a", "b"), (ORDERS, 3), 10, 1_000)
    assert found(ids, ORDERS, 1_000, "a", "b", "c") == {"a": (3, 10), "b": (3, 11)}
    assert found(ids, PAYMENTS, 1_000, "a") == {}
    assert found(ids, ORDERS, 1_000 + REMEMBER_MS - 1, "a") == {"a": (3, 10)}
    assert found(ids, ORDERS, 1_000 + REMEMBER_MS, "a") == {}
    # After this time the id may be used again, and the new place counts.
    ids.remember(ORDERS, hashes("a"), (ORDERS, 3), 50, 1_000 + REMEMBER_MS)
    assert found(ids, ORDERS, 1_000 + REMEMBER_MS, "a", "b") == {"a": (3, 50)}
    assert len(ids) == 1


def test_the_oldest_ids_go_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message_ids, "MAX_REMEMBERED", 3)
    ids = MessageIds()
    for number, name in enumerate("abcd"):
        ids.remember(ORDERS, hashes(name), (ORDERS, 0), number, 1_000)
        assert name in found(ids, ORDERS, 1_000, name)
    assert set(found(ids, ORDERS, 1_000, *"abcd")) == set("bcd")


@given(st.lists(st.tuples(st.integers(0, 60_000), st.lists(st.integers(0, 30), min_size=1, max_size=5, unique=True))))
def test_it_is_a_dict_with_times(batches: list[tuple[int, list[int]]]) -> None:
    """A naive model, a table whose index is built late, and a table that was encoded agree."""
    ids, late = MessageIds(), MessageIds()
    late._positions = None  # as after a start
    model: dict[str, tuple[int, int]] = {}
    now_ms = offset = 0
    for wait_ms, numbers in batches:
        now_ms += wait_ms
        names = [str(number) for number in numbers]
        for each in (ids, late):
            each.remember(ORDERS, hashes(*names), (ORDERS, 0), offset, now_ms)
        for number, name in enumerate(names):
            model[name] = (offset + number, now_ms)
        offset += len(names)
    expected = {name: (0, at) for name, (at, time_ms) in model.items() if time_ms + REMEMBER_MS > now_ms}
    everything = [str(number) for number in range(31)]
    for each in (ids, late, MessageIds(ids.encoded())):
        assert found(each, ORDERS, now_ms, *everything) == expected
    assert ids.encoded() == late.encoded()


def test_forgotten_records_take_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message_ids, "_REMOVE_BYTES", 440)
    ids = MessageIds()
    for number in range(1_000):
        ids.remember(ORDERS, hashes(str(number)), (ORDERS, 0), number, number * REMEMBER_MS // 4)
        assert found(ids, ORDERS, number * REMEMBER_MS // 4, str(number)) == {str(number): (0, number)}
    assert len(ids) == 4
    assert len(ids._data) <= 440 + 4 * 44
    assert ids._positions is not None
    assert len(ids._positions) == 4


def test_a_snapshot_with_all_ids_is_quick() -> None:
    """The target is 5 ms of a turn; this bound only finds what grows with the number of Python objects."""
    ids = MessageIds()
    for first in range(0, MAX_REMEMBERED, 1_000):
        ids.remember(ORDERS, [random.randbytes(16) for _ in range(1_000)], (ORDERS, 0), first, 1_000)
    assert len(ids) == MAX_REMEMBERED
    began = time.process_time()
    data = ids.encoded()
    assert time.process_time() - began < 0.05
    assert len(MessageIds(data)) == MAX_REMEMBERED


def test_the_state_keeps_them() -> None:
    state = State()
    with pytest.raises(InternalError, match=f"has message ids below feature level {MESSAGE_IDS}"):
        state.check_message_ids(7)
    commands: list[Command] = [RaiseFeatureLevel(MESSAGE_IDS), CreateTopic("orders", 1)]
    for index, command in enumerate(commands, 1):
        state.apply_command(encode_command(command), 1, index=index)
    state.check_message_ids(7)
    empty = state.digest()
    state.apply_message_ids(ORDERS, hashes("a"), (ORDERS, 0), 0, 1_000)
    assert state.digest() != empty
    twin = State.decode(state.encode())
    assert twin.digest() == state.digest()
    assert found(twin.message_ids, ORDERS, 1_000, "a") == {"a": (0, 0)}


@pytest.mark.parametrize("size", [1, 43, 45])
def test_damaged_records_are_refused(size: int) -> None:
    with pytest.raises(InternalError, match="bytes of message ids: fetch it again"):
        MessageIds(bytes(size))
