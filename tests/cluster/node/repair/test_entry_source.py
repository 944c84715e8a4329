"""The answers to a node that requests entries for a repair: entries, or a reason that names the answering node."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cluster.node.repair.entry_source import MOST_BYTES, EntryReader
from cluster.node.repair.repair_retries import FIRST_S, LONGEST_S, TELL_EVERY_S, RepairRetries
from raft.v1 import raft_pb2
from store import CommitLog, EntryDraft, EntryKind, LogSettings, MemoryDisk

SEGMENT_BYTES = 4 << 20
LAST = 60
BODY = 50_000


@pytest.fixture
def log() -> CommitLog:
    log = CommitLog.open(MemoryDisk(), Path("/log"), LogSettings(segment_bytes=SEGMENT_BYTES))
    for _ in range(LAST):
        log.append([EntryDraft(EntryKind.BATCH, bytes(BODY))], term=1, commit=0, now_ms=0)
    return log


@pytest.fixture
def reader(log: CommitLog) -> EntryReader:
    return EntryReader("orders", 0, 2, SEGMENT_BYTES, log.reading, commit=50, is_damaged=False)


def request(log: CommitLog, prev_index: int, **other: Any) -> raft_pb2.ReadEntriesRequest:
    fields = {
        "cluster": "orders",
        "sender": 1,
        "receiver": 2,
        "segment_bytes": SEGMENT_BYTES,
        "prev_index": prev_index,
        "prev_chain": log.reading.tail_at(prev_index).chain if prev_index <= LAST else 0,
        "max_bytes": MOST_BYTES,
    }
    return raft_pb2.ReadEntriesRequest(**{**fields, **other})


def test_what_follows_in_pieces_that_are_bounded(reader: EntryReader, log: CommitLog) -> None:
    answer = reader.answer(request(log, 3, max_bytes=1 << 31))
    assert (answer.refusal, answer.commit, answer.first_index) == ("", 50, 1)
    assert MOST_BYTES - BODY - 100 < len(answer.entries) <= MOST_BYTES
    headers = log.examine(answer.entries, 3)
    assert headers[0].index == 4
    assert len(log.examine(reader.answer(request(log, 3, max_bytes=1)).entries, 3)) == 1


def test_at_its_end_it_gives_nothing_and_refuses_nothing(reader: EntryReader, log: CommitLog) -> None:
    answer = reader.answer(request(log, LAST))
    assert (answer.entries, answer.refusal) == (b"", "")


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        ({"cluster": "another"}, "node 2 belongs to cluster 'orders', not to cluster 'another'"),
        ({"receiver": 3}, "this is node 2, not node 3"),
        ({"shard": 1}, "node 2 has no shard 1"),
        ({"segment_bytes": 1 << 20}, "node 2 has segment_bytes 4194304, not 1048576"),
        ({"prev_chain": 7}, "entry 3 on node 2 differs"),
        ({"prev_index": LAST + 1}, f"the log of node 2 ends with entry {LAST}"),
    ],
)
def test_who_asks_for_something_else_is_refused(
    reader: EntryReader, log: CommitLog, other: dict[str, Any], reason: str
) -> None:
    answer = reader.answer(request(log, **{"prev_index": 3, **other}))
    assert (answer.entries, answer.refusal) == (b"", reason)
    assert answer.differs == ("prev_chain" in other)


def test_behind_its_own_damage_it_has_nothing(reader: EntryReader, log: CommitLog) -> None:
    damaged = replace(reader, is_damaged=True)
    assert damaged.answer(request(log, LAST)).refusal == f"the log of node 2 is damaged after entry {LAST}"
    assert damaged.answer(request(log, LAST - 1)).entries


def test_what_is_marked_as_damaged_is_not_given(reader: EntryReader, log: CommitLog) -> None:
    requests = {prev: request(log, prev, max_bytes=1) for prev in range(3, 8)}
    log.reading.mark_damaged(range(5, 7))
    refusals = {prev: reader.answer(each).refusal for prev, each in requests.items()}
    # The chains of 5 and 6 are not to be believed.
    assert [prev for prev, refusal in refusals.items() if "is damaged between the positions" in refusal] == [4, 5, 6]
    log.reading.mark_whole()
    assert all(reader.answer(each).entries for each in requests.values())


def test_waits_grow_up_to_a_bound_and_only_news_is_told() -> None:
    retries = RepairRetries()
    waits = [retries.next_s() for _ in range(20)]
    assert waits[0] == FIRST_S
    assert waits == sorted(waits)
    assert waits[-1] == LONGEST_S
    assert retries.should_log("node 2 does not answer")
    assert not retries.should_log("node 2 does not answer")
    assert retries.should_log("node 3 does not answer")
    while not retries.should_log("node 3 does not answer"):
        waits.append(retries.next_s())
    assert sum(waits[20:]) >= TELL_EVERY_S
