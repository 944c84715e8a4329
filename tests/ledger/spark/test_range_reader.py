"""Reading a range: what a node cannot give another one gives, and what is gone is told, or passed over on demand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future

import pyarrow as pa
import pytest

from ledger.batch import encode
from ledger.errors import CorruptBatchError, LedgerError, OffsetTooLowError, StorageFailedError, UnavailableError
from ledger.spark.source import range_reader
from ledger.spark.source.connection import Fetched
from ledger.spark.source.options import ReadOptions, read_options
from ledger.spark.source.range_reader import read_range
from ledger.spark.source.ranges import OffsetRange
from ledger.v1 import broker_pb2

SCHEMA = pa.schema([("offset", pa.int64()), ("value", pa.binary()), ("replica", pa.string())])
COUNT = 5
"""Messages of a batch."""


def batch(number: int) -> bytes:
    values = [b"%d" % offset for offset in range(COUNT * number, COUNT * number + COUNT)]
    place = {"topic_id": 1, "queue": 0, "producer_id": 2, "epoch": 0, "first_sequence": 0, "base_timestamp_ms": 0}
    return encode(values, **place)  # type: ignore[arg-type]


Answer = Callable[[int, int], LedgerError | bytes]
"""Of a node (0: the leader) to an offset: an error, or the batch that holds it."""


class Nodes:
    """Stands for a connection, and records which node was asked for which offsets."""

    def __init__(self, answer: Answer) -> None:
        self.asked: list[tuple[int, int]] = []
        self._answer = answer

    def fetch(
        self, wanted: OffsetRange, offset: int, node: int | None, tag_hashes: Sequence[int], timeout_ms: float
    ) -> Future[Fetched]:
        self.asked.append((node or 0, offset))
        future: Future[Fetched] = Future()
        answer = self._answer(node or 0, offset)
        if isinstance(answer, LedgerError):
            future.set_exception(answer)
            return future
        base = offset - offset % COUNT
        given = broker_pb2.FetchedBatch(base_offset=base, term=1, body=answer)
        future.set_result(Fetched(node or 7, broker_pb2.FetchedQueue(batches=[given], next_offset=base + COUNT)))
        return future


def whole(_: int, offset: int) -> bytes:
    return batch(offset // COUNT)


def read(
    monkeypatch: pytest.MonkeyPatch, answer: Answer, *, nodes: tuple[int, ...] = (), start: int = 0, **options: str
) -> tuple[list[tuple[int, bytes, str]], Nodes]:
    connection = Nodes(answer)
    monkeypatch.setattr(range_reader, "connection_to", lambda _: connection)
    given: ReadOptions = read_options({"servers": "localhost:1", "subscribe": "orders", **options})
    wanted = OffsetRange("orders", 1, 0, 0, start, 18, nodes)
    rows = [row for each in read_range(wanted, given, SCHEMA) for row in each.to_pylist()]
    return [(row["offset"], row["value"], row["replica"]) for row in rows], connection


def messages(start: int, replica: str) -> list[tuple[int, bytes, str]]:
    return [(offset, b"%d" % offset, replica) for offset in range(start, 18)]


def test_exactly_the_range_comes_from_the_leader(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, connection = read(monkeypatch, whole, start=3)
    assert rows == messages(3, "7")
    assert connection.asked == [(0, 3), (0, 5), (0, 10), (0, 15)]


@pytest.mark.parametrize("error", [UnavailableError("down"), StorageFailedError("damaged"), b"damaged"])
def test_what_one_replica_cannot_give_another_one_gives(
    monkeypatch: pytest.MonkeyPatch, error: LedgerError | bytes
) -> None:
    def answer(node: int, offset: int) -> LedgerError | bytes:
        if node == 2 and offset >= 5:
            return error if isinstance(error, LedgerError) else whole(node, offset)[:-8] + b"damaged!"
        return whole(node, offset)

    rows, connection = read(monkeypatch, answer, nodes=(2, 3))
    assert [row[:2] for row in rows] == [row[:2] for row in messages(0, "")]
    assert (2, 5) in connection.asked
    assert (3, 5) in connection.asked


def test_where_no_replica_can_give_it_that_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnavailableError, match=r'Queue 0 of topic "orders".*offset 0.*\(2, 3\).*down'):
        read(monkeypatch, lambda *_: UnavailableError("down"), nodes=(2, 3))
    with pytest.raises(CorruptBatchError, match="offset 0"):
        read(monkeypatch, lambda *_: batch(0)[:-8] + b"damaged!")


def dropped(_: int, offset: int) -> LedgerError | bytes:
    return OffsetTooLowError("kept no longer", first_offset=10) if offset < 10 else whole(0, offset)


def test_what_is_dropped_while_it_is_read_fails_or_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(OffsetTooLowError, match="kept no longer"):
        read(monkeypatch, dropped)
    assert read(monkeypatch, dropped, failOnDataLoss="false")[0] == messages(10, "7")


def test_a_replica_that_does_not_answer_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each question to it costs 2 s."""

    def answer(node: int, offset: int) -> LedgerError | bytes:
        return UnavailableError("down") if node == 2 else whole(node, offset)

    rows, connection = read(monkeypatch, answer, nodes=(2, 3))
    assert rows == messages(0, "3")
    assert connection.asked == [(2, 0), (3, 0), (3, 5), (3, 10), (3, 15)]


def test_each_replica_is_asked_again_when_the_others_fail_later(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(node: int, offset: int) -> LedgerError | bytes:
        return UnavailableError("down") if node == (2 if offset < 10 else 3) else whole(node, offset)

    rows, connection = read(monkeypatch, answer, nodes=(2, 3))
    assert [row[2] for row in rows] == ["3"] * 10 + ["2"] * 8
    assert connection.asked == [(2, 0), (3, 0), (3, 5), (3, 10), (2, 10), (2, 15)]
