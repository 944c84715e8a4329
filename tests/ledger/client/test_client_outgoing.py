"""Messages of all forms become checked columns, and each message gets the queue that send() would choose."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.client.producer.outgoing import ANY_QUEUE, OutgoingColumns, OutgoingMessage, columns_of
from ledger.client.producer.slices import by_queue, in_turns
from ledger.errors import InvalidArgumentError, MessageTooLargeError, UnknownQueueError
from ledger.hashing import hashes_of_keys, key_hash, queue_of


def columns(messages: list[Any], **shared: Any) -> OutgoingColumns:
    return columns_of(messages, 1000, **{"key": None, "tag": None, "queue": None, **shared})


def places(columns: OutgoingColumns) -> np.ndarray[Any, Any]:
    return np.arange(len(columns.values))


@given(st.lists(st.tuples(st.none() | st.binary() | st.text(max_size=5), st.binary()), min_size=1), st.integers(1, 7))
def test_a_pair_goes_where_its_key_goes(pairs: list[tuple[bytes | str | None, bytes]], queues: int) -> None:
    made = columns(pairs)
    keys = [key.encode() if isinstance(key, str) else key for key, _ in pairs]
    assert made.values == [value for _, value in pairs]
    assert made.keys == keys
    assert list(made.lengths) == [len(value) + len(key or b"") for key, (_, value) in zip(keys, pairs, strict=True)]
    expected = [ANY_QUEUE if key is None else queue_of(key, queues) for key in keys]
    assert list(made.queues_of(places(made), queues)) == expected


def test_messages_of_all_forms_may_be_mixed() -> None:
    messages = [
        b"plain",
        ("k", b"pair"),
        OutgoingMessage(b"full", b"own", "paid", {"h": b"1"}, timestamp_ms=7, queue=2),
    ]
    made = columns(messages, key=b"shared", tag="new")
    assert made.values == [b"plain", b"pair", b"full"]
    assert made.keys == [b"shared", b"k", b"own"]
    assert made.tags == ["new", "new", "paid"]
    assert made.headers == [(), (), (("h", b"1"),)]
    assert made.timestamps_ms == [None, None, 7]
    assert list(made.queues_of(places(made), 3)) == [queue_of(b"shared", 3), queue_of(b"k", 3), 2]


@pytest.mark.parametrize(
    ("message", "error"),
    [
        (("k", "text"), InvalidArgumentError),
        ((1, b"value"), InvalidArgumentError),
        ((bytearray(b"k"), b"value"), InvalidArgumentError),
        (("k", b"value", b"more"), InvalidArgumentError),
        (("k", bytes(1001)), MessageTooLargeError),
        ((bytes(1024 * 1024 + 1), b""), MessageTooLargeError),
        (OutgoingMessage(bytes(1001)), MessageTooLargeError),
        (OutgoingMessage(b"", queue=-1), InvalidArgumentError),
        (OutgoingMessage(b"", tag=""), InvalidArgumentError),
        ("text", InvalidArgumentError),
        (None, InvalidArgumentError),
    ],
)
def test_a_wrong_message_is_refused(message: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        columns([("k", b"fine"), message] if isinstance(message, tuple) else [message])


def test_a_queue_that_the_topic_does_not_have_is_refused() -> None:
    made = columns([OutgoingMessage(b"a", queue=3), b"b"])
    assert list(made.queues_of(places(made), 4)) == [3, ANY_QUEUE]
    with pytest.raises(UnknownQueueError):
        made.queues_of(places(made), 3)


@given(st.lists(st.binary()))
def test_hashes_of_many_keys_are_those_of_each_key(keys: list[bytes]) -> None:
    assert hashes_of_keys(keys).tolist() == [key_hash(key) for key in keys]


@given(st.lists(st.integers(-1, 5), min_size=1))
def test_messages_are_sorted_by_queue_and_keep_their_order(queues: list[int]) -> None:
    found = {queues[group[0]]: group.tolist() for group in by_queue(np.array(queues))}
    assert found == {queue: [at for at, one in enumerate(queues) if one == queue] for queue in set(queues)}


def test_iterators_take_turns() -> None:
    assert list(in_turns([iter("abc"), iter("1"), iter("xy")])) == ["a", "1", "x", "b", "y", "c"]


def test_each_message_has_its_own_look_up_keys_or_those_of_the_call() -> None:
    own = OutgoingMessage(b"own", look_up_keys=["order-17", b"ann", "order-17"])
    none = OutgoingMessage(b"none", look_up_keys=())
    made = columns([b"plain", ("k", b"pair"), own, none], look_up_keys=(b"import-3",))
    assert made.look_up_keys == [(b"import-3",), (b"import-3",), (b"order-17", b"ann"), ()]
    assert list(made.lengths) == [5 + 8 + 12, 4 + 1 + 8 + 12, 3 + 8 + 3 + 2 * 12, 4]
    assert columns([("k", b"pair")], look_up_keys=(b"import-3",)).look_up_keys == [(b"import-3",)]
    assert columns([("k", b"pair"), b"plain"]).look_up_keys is None
    piece, _ = made.piece(2, None)  # type: ignore[arg-type]  # no receipt is needed
    assert piece.look_up_keys == (b"order-17", b"ann")


def test_too_many_look_up_keys_are_refused_before_a_message_is_sent() -> None:
    with pytest.raises(InvalidArgumentError, match="17 look-up keys; the limit is 16"):
        columns([b"fine", OutgoingMessage(b"", look_up_keys=[str(number) for number in range(17)])])
