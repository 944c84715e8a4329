"""Tests the cursor of a consumer in one queue: its position, its fetched messages, and damaged batches."""

from __future__ import annotations

from ledger.batch import Batch, cut, encode
from ledger.client.consumer.cursor import Cursor
from ledger.client.group.group_batch import group_batch
from ledger.errors import CorruptBatchError, OffsetTooLowError


def body(*values: bytes, **columns: object) -> bytes:
    return encode(
        values,
        topic_id=1,
        queue=2,
        producer_id=1,
        epoch=0,
        first_sequence=0,
        base_timestamp_ms=1000,
        **columns,  # type: ignore[arg-type]
    )


def cursor(offset: int = 0, tags: set[str] | None = None) -> Cursor:
    return Cursor("orders", 1, 2, offset=offset, tags=tags, check_crcs=True)


def test_messages_carry_all_that_was_sent() -> None:
    here = cursor()
    here.fetched(
        0,
        7,
        body(b"a", b"", keys=[b"k", None], tags=["t", None], headers=[[("h", b"1")], []], timestamps_ms=[5, 1000]),
    )
    here.passed(2)
    first, second = here.take(10)
    assert (first.topic, first.queue, first.offset, first.term) == ("orders", 2, 0, 7)
    assert (first.value, first.key, first.tag, first.headers, first.timestamp_ms) == (
        b"a",
        b"k",
        "t",
        (("h", b"1"),),
        5,
    )
    assert (second.offset, second.value, second.key, second.tag, second.headers) == (1, b"", None, None, ())
    assert second.timestamp_ms == 1000


def test_the_position_follows_what_is_handed_out_not_what_is_fetched() -> None:
    here = cursor()
    here.fetched(0, 1, body(b"a", b"b"))
    here.fetched(2, 1, body(b"c"))
    here.passed(3)
    assert (here.position, here.fetch_offset) == (0, 3)
    assert [message.value for message in here.take(1)] == [b"a"]
    assert here.position == 1
    assert [message.value for message in here.take(5)] == [b"b", b"c"]
    assert here.position == 3
    assert not here.ready
    assert here.buffered_bytes == 0


def test_one_at_a_time() -> None:
    here = cursor()
    here.fetched(0, 1, body(b"a", b"b"))
    here.passed(2)
    assert [here.take_one(), here.position, here.take_one(), here.take_one()][1] == 1
    assert here.position == 2


def test_messages_before_the_offset_asked_for_are_left_out() -> None:
    here = cursor(offset=12)
    here.fetched(10, 1, body(b"a", b"b", b"c", b"d"))
    here.passed(14)
    assert here.position == 12
    assert [(message.offset, message.value) for message in here.take(9)] == [(12, b"c"), (13, b"d")]


def test_messages_with_other_tags_are_left_out_and_passed() -> None:
    here = cursor(tags={"x"})
    here.fetched(0, 1, body(b"a", b"b", b"c", tags=["x", "y", None]))
    here.fetched(3, 1, body(b"d", tags=["y"]))
    here.passed(4)
    assert [message.value for message in here.take(9)] == [b"a"]
    assert here.take(9) == []
    assert here.position == 4
    assert not here.ready


def cut_body(*places: int) -> bytes:
    """Return a cut of a batch of ten messages."""
    values = [b"%d" % number for number in range(10)]
    return cut(Batch(body(*values, tags=["x"] * 10)), places)


def test_messages_of_a_cut_batch_have_the_offsets_of_the_stored_batch() -> None:
    here = cursor(offset=15, tags={"x"})
    here.fetched(10, 1, cut_body(1, 6, 9))
    here.passed(20)
    assert here.position == 15
    assert [(message.offset, message.value) for message in here.take(9)] == [(16, b"6"), (19, b"9")]
    assert here.position == 20


def test_a_cut_batch_as_columns() -> None:
    here = cursor(offset=10, tags={"x"})
    here.fetched(10, 1, cut_body(1, 6, 9))
    here.passed(20)
    [batch] = here.take_batches()
    assert (batch.base_offset, batch.offsets.tolist(), batch.batch.values()) == (10, [11, 16, 19], [b"1", b"6", b"9"])


def test_a_cut_batch_for_a_group_without_what_was_moved_or_consumed() -> None:
    here = cursor(offset=12, tags={"x"})
    here.fetched(10, 1, cut_body(1, 3, 6, 9))
    here.passed(20)
    taken = here.take_block()
    assert taken is not None
    batch = group_batch("orders", 2, *taken, tags={"x"}, settled=[15, 16])
    assert batch is not None
    assert (batch.offset, batch.offsets.tolist(), batch.values()) == (13, [13, 19], [b"3", b"9"])
    assert [(message.offset, message.value) for message in batch.messages()] == [(13, b"3"), (19, b"9")]
    assert batch.to_arrow()["offset"].to_pylist() == [13, 19]
    assert group_batch("orders", 2, *taken, tags={"x"}, settled=[13, 19, 16]) is None


def test_to_seek_forgets_what_was_fetched_and_what_went_wrong() -> None:
    here = cursor()
    here.fetched(0, 1, body(b"a"))
    here.passed(1)
    here.error = OffsetTooLowError("gone")
    here.seek(5)
    assert (here.position, here.fetch_offset, here.buffered_bytes) == (5, 5, 0)
    assert not here.ready
    assert here.error is None


def test_whole_batches() -> None:
    here = cursor(offset=1)
    here.fetched(0, 1, body(b"a", b"b"), 77)
    here.passed(2)
    [whole] = here.take_batches()
    queue, base_offset, batch = whole
    assert (queue, base_offset, batch.values()) == (2, 0, [b"a", b"b"])
    assert (whole.batch, whole.append_time_ms) == (batch, 77)
    assert here.position == 2


def test_a_damaged_batch_stops_the_queue_where_it_lies() -> None:
    here = cursor()
    damaged = bytearray(body(b"b"))
    damaged[-9] ^= 1
    here.fetched(0, 1, body(b"a"))
    here.fetched(1, 1, bytes(damaged))
    here.fetched(2, 1, body(b"c"))
    here.passed(3)
    assert [message.value for message in here.take(9)] == [b"a"], (
        "the undamaged batch before the damaged one is returned"
    )
    assert isinstance(here.error, CorruptBatchError)
    assert 'offset 1 of queue 2 of topic "orders"' in here.error.message
    assert (here.position, here.ready, here.take(9), here.take_batches()) == (1, False, [], [])


def test_what_is_kept_no_longer_is_counted_and_passed_over() -> None:
    here = cursor(offset=3)
    here.skip_to(10)
    assert (here.skipped, here.position, here.fetch_offset) == (7, 10, 10)
    here.skip_to(12)
    assert (here.skipped, here.position) == (9, 12)
