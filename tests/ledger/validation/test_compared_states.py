"""Which replica's state is taken for the right one, when the states of replicas differ. Both engines use this code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ledger.validation.judging.judging import ShardJudge
from ledger.validation.judging.violation import Violation, ViolationKind
from ledger.validation.judging.windows import DivergedRange
from ledger.validation.replay.replay import Replayed
from ledger.validation.sources.replica import LogReplica
from ledger.validation.spans.joining import JoinedLog
from store import LogTail

# A state and the configuration, as digests.
RIGHT, WRONG = (7, 1), (8, 1)


def log_of(number: int, first: int, last: int) -> JoinedLog:
    """Return the log of node `number`, with the entries from `first` to `last`."""
    replica = LogReplica(
        number=number,
        source=f"node-{number}",
        shard=0,
        node=number,
        cluster="test",
        segments=(),
        segment_bytes=8192,
        largest_entry=4096,
        start=LogTail(first - 1, 1, 64 * first, 0, 1),
        base=f"node-{number}/snapshots/{first - 1:020}" if first > 1 else None,
    )
    return JoinedLog(replica, first, LogTail(last, 1, 64 * last, 0, 1), known_commit=last - 1)


REFERENCE = log_of(1, 5_000, 9_000)


def judged(
    states: Mapping[int, Mapping[int, tuple[int, int]]], *logs: JoinedLog, divergences: tuple[DivergedRange, ...] = ()
) -> list[Violation]:
    """Return the violations. `states` has the states by the number of the replica and the index."""
    numbers = [log.replica.number for log in logs]
    replayed = {number: Replayed(number, states=dict(states.get(number, {}))) for number in numbers}
    counted = dict.fromkeys(numbers, (0, 0, 0))
    return list(ShardJudge(0, logs, replayed, divergences, counted, {}).judge().violations)


def test_a_wrong_snapshot_is_told_although_the_log_of_the_reference_begins_later() -> None:
    logs = (REFERENCE, log_of(2, 1, 1_000), log_of(3, 201, 1_000))
    (wrong,) = judged({2: {200: RIGHT}, 3: {200: WRONG}}, *logs)
    assert (wrong.kind, wrong.source, wrong.index) == (ViolationKind.STALE_SNAPSHOT, "node-3", 200)
    assert wrong.path == "node-3/snapshots/00000000000000000200"
    assert wrong.reason == "the state at entry 200 differs from that of node-2"


def test_the_replayed_state_is_right_even_if_the_other_log_is_longer() -> None:
    logs = (REFERENCE, log_of(2, 1, 900), log_of(3, 201, 1_000))
    (wrong,) = judged({2: {200: RIGHT}, 3: {200: WRONG}}, *logs)
    assert wrong.source == "node-3"


def test_the_state_of_most_replicas_is_right() -> None:
    logs = (REFERENCE, log_of(2, 1, 2_000), log_of(3, 1, 1_000), log_of(4, 1, 1_000))
    (wrong,) = judged({2: {900: WRONG}, 3: {900: RIGHT}, 4: {900: RIGHT}}, *logs)
    assert (wrong.kind, wrong.source) == (ViolationKind.STATE_DIFFERS, "node-2")
    assert wrong.reason == "the state at entry 900 differs from that of node-3"


def test_the_state_of_the_reference_is_right_where_it_has_one() -> None:
    reference = log_of(1, 1, 9_000)
    told = judged(
        {1: {900: RIGHT}, 2: {900: WRONG}, 3: {900: WRONG}}, reference, log_of(2, 1, 1_000), log_of(3, 1, 999)
    )
    assert [(each.source, each.reason[-6:]) for each in told] == [("node-2", "node-1"), ("node-3", "node-1")]


def test_states_after_a_divergence_are_not_compared() -> None:
    """Raft replaces the tail of one of the two logs, so their states may differ."""
    logs = tuple(replace(log, known_commit=0) for log in (log_of(2, 1, 1_000), log_of(3, 1, 1_000)))
    tail = DivergedRange(2, 3, 1_000, 1_000, "a", "b", 0, last_term=1, first_last_term=2)
    states = {2: {1_000: RIGHT}, 3: {1_000: WRONG}}
    assert judged(states, REFERENCE, *logs, divergences=(tail,)) == []
    assert len(judged(states, REFERENCE, *logs)) == 1
