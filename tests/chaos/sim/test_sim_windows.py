"""The simulator's copy of the windows of a shared group: what it must call wrong, and windows that are equal to it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from chaos.sim.stack.shared_truth import GROUP
from chaos.sim.stack.window_truth import WindowTruth
from ledger.batch import encode
from ledger.client.shared.shared_message import MessageLease, SharedMessage
from ledger.retries import dead_letter_topic, moved_headers
from ledger.state import State, TopicQueueId
from ledger.state.lease_table import ChangeKind, LeaseChange, LeaseTable
from ledger.v1 import command_pb2
from store import EntryKind, Header

ORDERS, DEAD = 1, 2
QUEUE = TopicQueueId(ORDERS, 0)
END = 6


class Log:
    """The log of shard 0 with six messages, two nodes that apply it, and what the model calls wrong."""

    def __init__(self) -> None:
        self.wrong: list[str] = []
        self.leads = True
        self.truth = WindowTruth(lambda invariant, _: self.wrong.append(invariant), self.leader)
        self.nodes = LeaseTable(), LeaseTable()
        self.time_ms = 1_000
        self.index = 0

    def leader(self, shard: int) -> Any:
        """Return the replica of the leader, which is the second node and counts its own lease time."""
        state = SimpleNamespace(shared=SimpleNamespace(leases=self.nodes[1]))
        return SimpleNamespace(state=state, knows_the_end=self.leads, lease_time_ms=self.time_ms)

    def change(self, kind: ChangeKind, first: int, size: int = 1, **fields: int) -> int:
        """Append a change of leases, and let both nodes apply it. Return the index of its entry."""
        self.index += 1
        change = LeaseChange(kind, first, size, **fields)
        for leases in self.nodes:
            leases.advance(self.time_ms)
            leases.change(leases.open(GROUP, 1, QUEUE, 0), [change], index=self.index, end=END)
        wire = command_pb2.QueueLeases(
            consumer_group=GROUP, topic_id=ORDERS,
            changes=[command_pb2.LeaseChange(kind=kind, first=first, size=size, **fields)],
        )  # fmt: skip
        changes = command_pb2.ChangeLeases(time_ms=self.time_ms, queues=[wire])
        self._entry(EntryKind.COMMAND, command_pb2.Command(change_leases=changes).SerializeToString(), 0)
        return self.index

    def lease(self, first: int, size: int = 1, receipt: int = 5) -> int:
        """Lease messages for ten seconds."""
        return self.change(ChangeKind.LEASE, first, size, duration_ms=10_000, receipt=receipt)

    def dead(self, offset: int) -> None:
        self.index += 1
        for leases in self.nodes:
            leases.settle(GROUP, QUEUE, offset)
        headers = moved_headers([], here="orders:0:0", came_from=f"{ORDERS}:0:{offset}", attempt=3)
        body = encode(
            [b"x"], headers=[headers], topic_id=DEAD, queue=0, producer_id=1, epoch=0, first_sequence=0,
            base_timestamp_ms=0,
        )  # fmt: skip
        self._entry(EntryKind.BATCH, body, DEAD)

    def _entry(self, kind: EntryKind, body: bytes, topic_id: int) -> None:
        header = cast(Header, SimpleNamespace(kind=kind, index=self.index, topic_id=topic_id))
        names = {ORDERS: "orders", DEAD: dead_letter_topic(GROUP)}
        topics = {each: SimpleNamespace(name=name) for each, name in names.items()}
        for leases in self.nodes:
            state: Any = SimpleNamespace(
                topics=topics, shared=SimpleNamespace(leases=leases), next_offset=lambda *queue: END
            )
            self.truth.applied(0, header, body, cast(State, state))


def told(entry: int, left_s: float) -> list[SharedMessage[bytes]]:
    """Return a message as a member receives it at second 100 of its clock."""
    made: SharedMessage[bytes] = SharedMessage("orders", 0, 0, 0, 0, None, b"x", None, (), 0)
    made.lease, made.ends_s = MessageLease(0, ORDERS, 0, 0, entry, 0), 100.0 + left_s
    return [made]


@pytest.fixture
def log() -> Log:
    return Log()


def test_windows_that_are_as_the_log_says(log: Log) -> None:
    first = log.lease(0, 3)
    log.change(ChangeKind.ACKNOWLEDGE, 0, lease=first)
    log.change(ChangeKind.PUT_OFF, 1, lease=first, duration_ms=300)
    log.change(ChangeKind.EXTEND, 2, lease=first, duration_ms=20_000)
    assert log.lease(1, receipt=6)  # refused: it was put off
    log.time_ms += 300
    second = log.lease(1, receipt=6)
    log.change(ChangeKind.GIVE_BACK, 1, lease=second)
    log.change(ChangeKind.ACKNOWLEDGE, 1, lease=first)  # the lease is over
    log.lease(5, 2, receipt=7)  # refused: beyond the end of the queue
    log.lease(4, receipt=7)
    log.change(ChangeKind.SKIP, 0, 2)
    log.dead(2)
    log.dead(4)
    window = log.nodes[0].window(GROUP, QUEUE)
    assert window is not None
    assert (window.begin, window.end) == (3, 5)
    log.truth.received(told(first, 10.0), 100.0)
    assert log.wrong == []
    assert log.truth.counts["shared_windows_compared"] == log.truth.counts["shared_windows_compared_again"] == log.index


@pytest.mark.parametrize("node", [0, 1])
def test_a_node_with_another_window(log: Log, node: int) -> None:
    entry = log.lease(0, 2)
    window = log.nodes[node].window(GROUP, QUEUE)
    assert window is not None
    window.slots["attempts"][1] = 7
    log.change(ChangeKind.ACKNOWLEDGE, 0, lease=entry)
    first = ["leases are what the log says"] if node == 0 else []
    assert log.wrong == [*first, "leases are the same on all nodes"]


def test_a_node_without_windows(log: Log) -> None:
    log.lease(0, 2)
    log.nodes[1].forget(GROUP)
    log.lease(2, receipt=6)
    assert log.wrong == ["leases are the same on all nodes"]


def test_a_repeated_receive_that_gets_other_messages(log: Log) -> None:
    log.lease(0, 2)
    log.lease(3)
    assert log.wrong == ["a repeated receive gets the same"]


def test_a_receive_that_is_repeated_after_its_lease_may_get_others(log: Log) -> None:
    log.lease(0, 2)
    log.time_ms += 10_000
    log.lease(0, 2)
    log.lease(3, receipt=6)
    assert log.wrong == []


def test_a_lease_that_is_told_to_be_longer_than_it_is(log: Log) -> None:
    entry = log.lease(0)
    log.truth.received(told(entry, 10.5), 100.0)
    log.truth.received(told(entry + 1, 1.0), 100.0)
    assert log.wrong == ["no lease is told to be longer than it is"] * 2
    extended = log.change(ChangeKind.EXTEND, 0, lease=entry, duration_ms=20_000)
    assert extended > entry
    log.truth.received(told(entry, 10.5), 100.0)
    assert len(log.wrong) == 2


BELIEF = "a member believes in its lease only while the leader does"


def test_what_a_member_believes_is_compared_with_the_leader_at_the_same_moment(log: Log) -> None:
    entry = log.lease(0)
    log.time_ms += 4_000
    log.truth.believed(told(entry, 6.0), 100.0)
    assert log.wrong == []
    log.truth.believed(told(entry, 6.002), 100.0)
    assert log.wrong == [BELIEF]
    log.change(ChangeKind.EXTEND, 0, lease=entry, duration_ms=20_000)
    log.truth.believed(told(entry, 20.0), 100.0)
    assert log.wrong == [BELIEF]
    assert log.truth.counts["shared_beliefs_compared"] == 3


def test_a_member_that_believes_in_a_lease_that_another_member_has(log: Log) -> None:
    entry = log.lease(0)
    log.time_ms += 10_000
    log.lease(0, receipt=6)
    log.truth.believed(told(entry, 0.0), 100.0)
    assert log.wrong == []
    log.truth.believed(told(entry, 0.002), 100.0)
    assert log.wrong == [BELIEF]


def test_without_a_leader_or_an_open_message_there_is_nothing_to_compare(log: Log) -> None:
    entry = log.lease(0, 2)
    log.leads = False
    log.truth.believed(told(entry, 99.0), 100.0)
    log.leads = True
    log.change(ChangeKind.ACKNOWLEDGE, 0, lease=entry)
    log.truth.believed(told(entry, 99.0), 100.0)
    assert log.wrong == []
    assert log.truth.counts["shared_beliefs_compared"] == 0


def test_in_runs_with_wrong_clocks_nothing_is_compared(log: Log) -> None:
    truth = WindowTruth(lambda invariant, _: log.wrong.append(invariant), log.leader, is_exact=False)
    truth.believed(told(log.lease(0), 99.0), 100.0)
    assert (log.wrong, truth.counts["shared_beliefs_compared"]) == ([], 0)
