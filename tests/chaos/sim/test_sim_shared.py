"""The simulator's judgement of shared groups: what it must call wrong, and a run in which leaders die under leases."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from chaos.sim.campaign.run import run
from chaos.sim.campaign.swarm import Wishes, draw
from chaos.sim.stack.shared_truth import GROUP, MAX_ATTEMPTS, SharedTruth
from ledger.batch import encode
from ledger.client.shared.shared_message import MessageLease
from ledger.retries import dead_letter_topic, moved_headers
from ledger.state import State
from ledger.v1 import command_pb2
from store import EntryKind, Header

ORDERS, DEAD, DELETED = 1, 2, 3
NAMES = {ORDERS: "orders", DEAD: dead_letter_topic(GROUP), DELETED: "doomed2"}
ACKNOWLEDGE, PUT_OFF, LEASE, SKIP = 1, 2, 5, 6


class Log:
    """The log of shard 0, as the model sees it, and what the model calls wrong."""

    def __init__(self, *, by_key: bool = False, filters: bool = False) -> None:
        self.wrong: list[str] = []
        self.now_s = 10.0
        # By how much the leader's lease time is ahead of the simulated time.
        self.ahead_s = 0.0
        # How long an entry takes to be committed.
        self.commit_s = 0.0
        self.truth = SharedTruth(
            lambda invariant, _: self.wrong.append(invariant),
            lambda: self.now_s,
            lambda topic, queue: 0,
            by_key=by_key,
            filters=filters,
        )
        self.index = 0
        topics = SimpleNamespace(get=lambda topic_id: SimpleNamespace(name=NAMES[topic_id]))
        self._state = cast(State, SimpleNamespace(topics=topics))

    def send(self, *keys: str) -> None:
        self._batch(ORDERS, [b"x"] * len(keys), keys=[key.encode() for key in keys])

    def send_tagged(self, *tags: str | None) -> None:
        self._batch(ORDERS, [b"x"] * len(tags), tags=list(tags), keys=[b"k"] * len(tags))

    def dead(self, offset: int) -> None:
        headers = moved_headers([], here="orders:0:0", came_from=f"{ORDERS}:0:{offset}", attempt=3)
        self._batch(DEAD, [b"x"], headers=[headers])

    def change(self, kind: int, first: int, size: int = 1, *, lease: int = 0, ms: int = 10_000) -> int:
        """Append a change of leases, and return the index of its entry."""
        change = command_pb2.LeaseChange(kind=kind, first=first, size=size, lease=lease, duration_ms=ms)
        queue = command_pb2.QueueLeases(consumer_group=GROUP, topic_id=ORDERS, changes=[change])
        time_ms = round((self.now_s + self.ahead_s) * 1000)
        command = command_pb2.Command(change_leases=command_pb2.ChangeLeases(queues=[queue], time_ms=time_ms))
        self._entry(EntryKind.COMMAND, 0, command.SerializeToString())
        return self.index

    def _batch(self, topic_id: int, values: list[bytes], **columns: Any) -> None:
        body = encode(
            values, topic_id=topic_id, queue=0, producer_id=1, epoch=0, first_sequence=0, base_timestamp_ms=0, **columns
        )
        self._entry(EntryKind.BATCH, topic_id, body)

    def _entry(self, kind: EntryKind, topic_id: int, body: bytes) -> None:
        self.index += 1
        header = cast(Header, SimpleNamespace(kind=kind, topic_id=topic_id, queue=0, index=self.index, term=1))
        self.truth.appended(0, [header])
        self.now_s += self.commit_s
        self.truth.applied(0, header, body, self._state)

    def told(self, offset: int, entry: int) -> list[MessageLease]:
        return [MessageLease(0, ORDERS, 0, offset, entry, 0)]


@pytest.fixture
def log() -> Log:
    log = Log()
    log.send("a", "b", "a")
    return log


def test_messages_that_are_leased_and_settled_as_they_should(log: Log) -> None:
    entry = log.change(LEASE, 0, 3)
    log.truth.received(log.told(1, entry))
    log.change(ACKNOWLEDGE, 0, 2, lease=entry)
    log.truth.acknowledged(log.told(1, entry))
    log.now_s += 10
    log.change(LEASE, 2)
    assert list(log.truth.unsettled()) == ["1 messages of (0, 1, 0) are open for the shared group"]
    log.change(ACKNOWLEDGE, 2, lease=log.index)
    assert list(log.truth.unsettled()) == []
    assert log.wrong == []


def test_a_lease_that_does_not_count_changes_nothing(log: Log) -> None:
    log.change(LEASE, 0)
    log.now_s += 3
    again = log.change(LEASE, 0)
    assert log.wrong == []
    log.truth.received(log.told(0, again))
    assert log.wrong == ["a lease that was told is in the log"]


@pytest.mark.parametrize("kind", [LEASE, PUT_OFF])
def test_a_message_that_is_leased_early_because_the_lease_time_leapt(log: Log, kind: int) -> None:
    first = log.change(LEASE, 0, ms=20_000)
    if kind == PUT_OFF:
        log.change(PUT_OFF, 0, lease=first, ms=20_000)
    log.now_s += 2
    log.ahead_s = 100
    log.change(LEASE, 0)
    assert log.wrong == ["no message twice within its lease"]


def test_a_lease_counts_from_the_moment_at_which_its_entry_was_made(log: Log) -> None:
    log.commit_s = 4.0
    log.change(LEASE, 0, ms=5_000)
    log.now_s += 1
    log.change(LEASE, 0)
    assert log.wrong == []
    assert log.truth.counts["shared_leases"] == 2
    log.now_s += 1
    log.ahead_s = 1.0
    log.change(LEASE, 1, ms=5_000)
    log.ahead_s = 1.1
    log.now_s += 0.9
    log.change(LEASE, 1)
    assert log.wrong == ["no message twice within its lease"]


def test_an_acknowledgement_that_was_told_and_is_not_so(log: Log) -> None:
    entry = log.change(LEASE, 0)
    log.change(ACKNOWLEDGE, 0, lease=entry + 7)
    log.truth.acknowledged(log.told(0, entry))
    assert log.wrong == ["acknowledged is settled"]


def test_a_key_that_is_handed_out_before_its_turn() -> None:
    log = Log(by_key=True)
    log.send("a", "b", "a")
    log.change(LEASE, 0, 2)
    assert log.wrong == []
    log.change(LEASE, 2)
    assert log.wrong == ["one key is one after another"]


def test_a_dead_letter_of_a_message_that_was_not_tried_so_often(log: Log) -> None:
    for _ in range(MAX_ATTEMPTS):
        log.change(LEASE, 0)
        log.now_s += 10
    log.dead(0)
    assert log.wrong == []
    log.dead(0)
    log.dead(1)
    assert log.wrong == ["what is dead was open and tried"] * 2


def test_messages_of_a_topic_that_no_member_reads_need_not_be_settled(log: Log) -> None:
    log._batch(DELETED, [b"x"])
    assert list(log.truth.unsettled()) == ["3 messages of (0, 1, 0) are open for the shared group"]


def test_messages_that_are_passed_over(log: Log) -> None:
    log.change(SKIP, 0, 2)
    assert log.wrong == ["nothing is passed over"]


def test_messages_that_do_not_match_the_filter_are_passed_over_and_not_handed_out() -> None:
    log = Log(filters=True, by_key=True)
    log.send_tagged("t", None, "t", None)
    log.change(SKIP, 0)
    log.change(LEASE, 1)
    assert log.wrong == []
    log.change(LEASE, 2)
    assert log.wrong.pop() == "one key is one after another"
    assert log.wrong.pop() == "only what matches is handed out"
    log.change(SKIP, 2, 2)
    assert log.wrong == ["nothing is passed over"]


@pytest.mark.long
@pytest.mark.parametrize(("seed", "by_key"), [(11, False), (1, True)])
def test_a_run_with_a_filter_is_right(seed: int, by_key: bool) -> None:
    wishes = Wishes(world="stack", minutes=0.4, faults=("leader_ends_under_leases",))
    options = draw(seed, wishes)
    assert (options.shared_filters, options.shared_by_key) == (True, by_key)
    found = run(seed, wishes)
    assert found.reason == ""
    assert found.figures["shared_acknowledged"] > 50
    assert found.figures["shared_unmatched_entries"] > 20


@pytest.mark.long
@pytest.mark.parametrize("kind", ["leader_ends_under_leases", "clocks_leap_under_leases"])
def test_a_fault_under_leases_has_an_effect_and_other_leaders_respect_the_leases(kind: str) -> None:
    found = run(11, Wishes(world="stack", minutes=0.4, faults=(kind,)))
    assert found.reason == ""
    assert found.happened[kind] > 0
    assert found.figures["shared_leases"] > 100
