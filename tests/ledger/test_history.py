"""Tests histories: a written history is read again, and the error for a wrong line names file and line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ledger.history import (
    AdminRequest,
    Assign,
    Cancel,
    Close,
    Decide,
    Delivery,
    EndRequest,
    HistoryError,
    HistoryWriter,
    LeaseRequest,
    Open,
    Operation,
    OperationOutcome,
    Poll,
    Prepare,
    ProgressReport,
    Reveal,
    Schedule,
    Send,
    SharedReceive,
    read_history,
    to_line,
)

P = "00000000000000ff"
OPERATIONS: list[Operation] = [
    Open(1, P, 1),
    Send(1, OperationOutcome.OK, "t", 0, True, 5, P, 0, 7, [1, 2], [10, 20], None, 2, 3),
    Send(1, OperationOutcome.UNKNOWN, "t", 0, False, None, P, 0, 9, [3], [30], "DeliveryTimeoutError", 2, 3),
    Poll(2, "t", 0, [5, 6], [P, P], [0, 0], [7, 8], [1, 2], 0, False, 4, 5),
    Assign(2, "t", 0, 5, 4),
    ProgressReport(3, "g", "t", 0, 7, 4, 5),
    AdminRequest(4, "create topic t", OperationOutcome.FAIL, "TopicExistsError", 1, 2),
    Close(1, P, 9),
    Schedule(1, OperationOutcome.OK, "t", 0, 3, 1, 7, P, 0, 2, [9, 8], [1, 2], [10, 20], None, 5, 2, 3),
    Schedule(1, OperationOutcome.FAIL, "t", 0, -1, -1, None, "", 0, -1, [9], [1], [10], "BusyError", 5, 2, 3),
    Cancel(1, OperationOutcome.FAIL, 3, 7, 9, None, 2, 3),
    Delivery(2, "t", 0, [5, 6], [7, 8], [9, 8], [9, 9], [1, 2], 4, 5),
    Prepare(1, OperationOutcome.OK, "5be0", "t", 0, 3, 7, 1, 10, None, 2, 3),
    Prepare(1, OperationOutcome.UNKNOWN, "5be0", "t", 0, -1, None, 1, 10, "DeliveryTimeoutError", 2, 3),
    Decide(1, "5be0", True, 4),
    EndRequest(1, OperationOutcome.OK, "5be0", True, None, 4, 5),
    Reveal(2, "t", 0, [5, 6], [3, 3], [7, 7], [7, 8], [1, 2], 4, 5),
    SharedReceive(2, "s", True, "t", 0, [5, 6], [0, 9], 3_000, 4, 5),
    LeaseRequest(2, OperationOutcome.OK, "extend", "s", "t", 0, 5, 3_000, None, 4, 5),
]


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "history"
    with HistoryWriter(path) as writer:
        for operation in OPERATIONS:
            writer.write(operation)
        assert list(read_history(path)) == OPERATIONS  # also before it is closed


def test_a_line_that_was_not_written_to_its_end_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "history"
    path.write_text(to_line(OPERATIONS[0]) + to_line(OPERATIONS[1])[:-20])
    assert list(read_history(path)) == OPERATIONS[:1]


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("nonsense", "is no operation"),
        ('{"op":"send"}', "missing, or not known: bound, crcs"),
        ('{"op":"jump","process":1}', "is no operation"),
        ('{"op":"close","process":1,"producer":"a","start":1,"more":2}', "more"),
        ('{"op":"admin","process":1,"what":"x","outcome":"fine","error":null,"start":1,"end":2}', "'fine'"),
    ],
)
def test_what_is_wrong_is_named_by_its_line(tmp_path: Path, line: str, what: str) -> None:
    path = tmp_path / "history"
    path.write_text(to_line(OPERATIONS[0]) + line + "\n")
    with pytest.raises(HistoryError, match=what) as refused:
        list(read_history(path))
    assert f"{path}:2:" in str(refused.value)


@pytest.mark.parametrize(
    ("operation", "field", "value", "what"),
    [
        (1, "offset", "x", "\"offset\" is 'x', and not a whole number"),
        (1, "offset", 1 << 53, "not a whole number from 0 to 2^53 - 1"),
        (1, "offset", True, '"offset" is True'),
        (1, "offset", None, "a send has an offset if, and only if, its outcome is ok"),
        (2, "offset", 3, "a send has an offset if, and only if, its outcome is ok"),
        (1, "sequence", -1, "a send has a sequence if, and only if, it has a producer"),
        (1, "crcs", [1, 1 << 32], "a list of CRCs of 32 bits"),
        (1, "crcs", [1], "crcs, sizes have different lengths"),
        (1, "sizes", None, '"sizes" is None'),
        (1, "topic", ["t"], '"topic" is ["t"], and not a text'.replace('"t"', "'t'")),
        (1, "producer", "zz", "16 hexadecimal digits"),
        (1, "end", 1, "it ends before it starts"),
        (1, "end", 10**30, '"end" is 10000'),
        (3, "offsets", [1.5, 2], "a list of whole numbers"),
        (3, "producers", [[1], P], "producers' ids"),
        (3, "sequences", [7], "have different lengths"),
        (3, "final", 1, "true or false"),
        (4, "queue", {}, '"queue" is {}'),
        (5, "group", None, '"group" is None'),
        (7, "producer", "", "a producer has no id"),
        (8, "identity", None, "a schedule has an identity if, and only if, its outcome is ok"),
        (9, "identity", 3, "a schedule has an identity if, and only if, its outcome is ok"),
        (8, "sequence", -1, "a schedule has a sequence if, and only if, it has a producer"),
        (8, "times_ms", [9], "times_ms, crcs, sizes have different lengths"),
        (8, "shard", -2, "-1 or a whole number"),
        (8, "waits_in", None, "-1 or a whole number"),
        (8, "clock_ms", -1, "a whole number from 0"),
        (10, "identity", None, "a whole number from 0"),
        (10, "time_ms", "9", "a whole number from 0"),
        (11, "identities", [7], "have different lengths"),
        (11, "appended_ms", [-1, 9], "a list of whole numbers"),
        (12, "number", None, "a prepare has a number if, and only if, its outcome is ok"),
        (12, "transaction", "5BE0", "a name of up to 64"),
        (13, "number", 7, "a prepare has a number if, and only if, its outcome is ok"),
        (14, "commit", 1, "true or false"),
        (15, "transaction", "", "a name of up to 64"),
        (16, "halves", [7], "have different lengths"),
        (16, "shards", [3, 1 << 32], "a list of whole numbers"),
        (17, "keys", [0], "have different lengths"),
        (17, "by_key", 1, "true or false"),
        (17, "lease_ms", -1, "a whole number up to"),
        (18, "what", "lend", "what is 'lend': ack, nack, extend"),
        (18, "ms", 86_400_001, "a whole number up to"),
    ],
)
def test_a_value_that_cannot_be_is_named(tmp_path: Path, operation: int, field: str, value: object, what: str) -> None:
    path = tmp_path / "history"
    path.write_text(json.dumps({**json.loads(to_line(OPERATIONS[operation])), field: value}) + "\n")
    with pytest.raises(HistoryError) as refused:
        list(read_history(path))
    assert str(refused.value).startswith(f"{path}:1: {OPERATIONS[operation].op}: ")
    assert what in str(refused.value)


def test_a_line_of_many_brackets_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "history"
    path.write_text("[" * 100_000 + "\n")
    with pytest.raises(HistoryError, match="is no operation"):
        list(read_history(path))


def test_a_file_that_cannot_be_had(tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match="cannot be written"):
        HistoryWriter(tmp_path / "none" / "history")
    with pytest.raises(HistoryError, match="cannot be read"):
        list(read_history(tmp_path / "none"))
