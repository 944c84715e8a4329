"""A replay judges the leases of shared groups from the entries of the log, without the tables of the state machine."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from ledger.batch import encode
from ledger.retries import FROM, dead_letter_topic
from ledger.state.command_encoding import encode_command
from ledger.state.commands import ChangeLeases, QueueLeases
from ledger.state.consumer_group_table import TopicQueueId
from ledger.state.feature_levels import SHARED_GROUPS
from ledger.state.lease_table import ChangeKind, LeaseChange, LeaseResults
from ledger.state.lease_window import LeaseWindow
from ledger.v1 import command_pb2
from ledger.validation.judging.violation import ViolationKind
from ledger.validation.replay.replay import PlacedMisfit
from ledger.validation.spans.continuity import BROKER
from store import EntryDraft, EntryKind
from tests.ledger.validation.stopped_cluster import ORDERS, TIME_MS, Writer
from tests.ledger.validation.test_steps import replayed, states_at

GROUP, CREATED = "billing", 3
MESSAGES = 40
ACK, PUT_OFF, GIVE_BACK, EXTEND, LEASE, SKIP = ChangeKind
K = ViolationKind


@dataclass
class LeaseLog:
    """A log with 40 messages in each of two queues, and leases of the group `billing`, whose lease time the test sets.
    The state is kept at each change."""

    path: Path
    writer: Writer = field(init=False)
    time_ms: int = 1_000
    digests: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.writer = Writer(self.path, segment_bytes=1 << 20)
        self.writer.command(raise_feature_level=command_pb2.RaiseFeatureLevel(level=SHARED_GROUPS))
        self.writer.create_topic("orders", 2)
        self.writer.create_topic(dead_letter_topic(GROUP), 1)
        for queue in (0, 1):
            self.writer.batch([b"value"] * MESSAGES, queue=queue)

    def change(self, *changes: LeaseChange, queue: int = 0, created: int = CREATED) -> tuple[int, LeaseResults]:
        """Append the changes of one queue. Return the index of the entry, and the results of the state machine."""
        return self._change((QueueLeases(GROUP, created, TopicQueueId(ORDERS, queue), 0, changes),))

    def tick(self) -> None:
        """Append an entry that only moves the lease time."""
        self._change(())

    def _change(self, queues: tuple[QueueLeases, ...]) -> tuple[int, LeaseResults]:
        body = encode_command(ChangeLeases(queues, self.time_ms))
        header = self.writer.append(EntryDraft(EntryKind.COMMAND, body))
        results = self.writer.state.apply_command(body, header.append_time_ms, index=header.index)
        assert isinstance(results, LeaseResults)
        self._told(header.index)
        return header.index, results

    def lease(self, first: int, size: int, duration_ms: int = 1_000, queue: int = 0) -> int:
        """Lease messages, and return the index of the entry."""
        return self.change(LeaseChange(LEASE, first, size, duration_ms=duration_ms, receipt=7), queue=queue)[0]

    def command(self, **command: object) -> int:
        index = self.writer.command(**command).index
        self._told(index)
        return index

    def reset(self, offset: int, queue: int = 0) -> int:
        place = command_pb2.ResetOffset(topic_id=ORDERS, queue=queue, offset=offset)
        return self.command(reset_offsets=command_pb2.ResetOffsets(consumer_group=GROUP, offsets=[place]))

    def move_dead(self, offset: int) -> None:
        """Append a copy of a message of queue 0 to the dead letters."""
        topic = self.writer.state.topics.named(dead_letter_topic(GROUP))
        assert topic is not None
        end = self.writer.state.next_offset(topic.topic_id, 0)
        body = encode(
            [b"value"], topic_id=topic.topic_id, queue=0, producer_id=BROKER, epoch=0, first_sequence=end,
            base_timestamp_ms=TIME_MS, headers=[[(FROM, b"%d:0:%d" % (ORDERS, offset))]],
        )  # fmt: skip
        header = self.writer.append(EntryDraft(EntryKind.BATCH, body, topic.topic_id, 0, end, 1))
        self.writer.apply(header, body)
        self.writer.state.apply_move(GROUP, ORDERS, 0, offset)
        self._told(header.index)

    def _told(self, index: int) -> None:
        self.digests[index] = self.writer.state.digest()

    def told(self) -> list[PlacedMisfit]:
        """Return what the replay tells of the log."""
        self.writer.stop()
        found = replayed(self.path, tuple(self.digests), 8192)
        assert found.is_known
        assert states_at(found, tuple(self.digests)) == self.digests
        return found.told

    def kinds(self) -> list[tuple[ViolationKind, int, int]]:
        """Return kind, index and offset of what the replay tells."""
        return [(each.kind, each.index, each.offset) for each in self.told()]


@pytest.fixture
def log(tmp_path: Path) -> LeaseLog:
    return LeaseLog(tmp_path / "node-1")


def acknowledge(first: int, size: int, lease: int, resets: int = 0) -> LeaseChange:
    return LeaseChange(ACK, first, size, lease, resets)


def test_a_log_of_a_right_leader_is_valid(log: LeaseLog) -> None:
    first = log.lease(0, 10)
    log.change(acknowledge(0, 3, first), acknowledge(5, 1, first), LeaseChange(EXTEND, 6, 2, first, 0, 5_000))
    log.change(LeaseChange(PUT_OFF, 3, 1, first, 0, 300), LeaseChange(GIVE_BACK, 4, 1, first))
    second = log.lease(4, 1)
    log.time_ms += 300
    log.lease(3, 1)
    log.time_ms += 1_000
    log.lease(8, 2)
    log.change(LeaseChange(SKIP, 10, 5), LeaseChange(LEASE, 15, 2, duration_ms=10))
    log.change(acknowledge(4, 1, second))
    log.lease(0, 5, queue=1)
    log.reset(2)
    log.lease(2, 4)
    log.move_dead(2)
    log.change(LeaseChange(SKIP, 3, 37))
    log.command(forget_consumer_group=command_pb2.ForgetConsumerGroup(consumer_group=GROUP))
    log.change(created=CREATED + 1)
    log.change(LeaseChange(LEASE, 0, 3, duration_ms=50), created=CREATED + 1)
    log.command(delete_topic=command_pb2.DeleteTopic(topic_id=ORDERS))
    assert log.told() == []


def test_a_message_that_another_lease_holds_is_leased(log: LeaseLog) -> None:
    first = log.lease(0, 10)
    log.time_ms += 999
    at = log.lease(9, 2)
    (told,) = log.told()
    assert (told.kind, told.index, told.topic_id, told.queue, told.offset) == (K.LEASED_TWICE, at, ORDERS, 0, 9)
    (until,) = [part for part in getattr(told.reason, "parts", ()) if "holds" in str(part)]
    assert f"the lease of entry {first} holds it until the lease time 2000, which is 1 ms later" in str(until)


def test_a_lease_ends_at_its_end(log: LeaseLog) -> None:
    log.lease(0, 10)
    log.time_ms += 1_000
    log.lease(9, 2)
    assert log.told() == []


def test_the_lease_time_never_goes_back(log: LeaseLog) -> None:
    log.lease(0, 1, duration_ms=100)
    log.time_ms += 100
    log.tick()
    log.time_ms -= 100
    log.lease(0, 1)
    assert log.told() == []


@pytest.mark.parametrize("settling", ["acknowledged", "skipped", "dead", "passed"])
def test_a_settled_message_is_leased(log: LeaseLog, settling: str) -> None:
    held = log.lease(0, 10)
    offset = 0 if settling == "passed" else 5
    if settling == "skipped":
        log.change(LeaseChange(SKIP, offset, 1))
    elif settling == "dead":
        log.move_dead(offset)
    else:
        log.change(acknowledge(offset, 1, held))
    log.time_ms += 60_000
    at = log.lease(offset, 1)
    assert log.kinds() == [(K.LEASED_TWICE, at, offset)]


def test_a_message_is_leased_before_its_delay_is_over(log: LeaseLog) -> None:
    held = log.lease(0, 2)
    log.change(LeaseChange(PUT_OFF, 1, 1, held, 0, 500))
    log.time_ms += 499
    at = log.lease(1, 1)
    assert log.kinds() == [(K.LEASED_TWICE, at, 1)]


def test_one_entry_leases_a_message_twice(log: LeaseLog) -> None:
    lease = LeaseChange(LEASE, 4, 2, duration_ms=10)
    at, results = log.change(lease, lease)
    assert results.queues == ((2, 0),)
    assert log.kinds() == [(K.LEASED_TWICE, at, 4)]


def test_changes_of_members_count_before_the_leases_of_their_entry(log: LeaseLog) -> None:
    """The leader chooses what is free after the last entry, so a member's change can be in time all the same."""
    held = log.lease(0, 3, duration_ms=100)
    log.time_ms += 100
    again = LeaseChange(LEASE, 0, 3, duration_ms=100)
    _, results = log.change(acknowledge(0, 1, held), LeaseChange(EXTEND, 1, 2, held, 0, 100), again)
    assert results.queues == ((1, 2, 0),)
    assert log.told() == []


def test_a_reset_that_the_leader_did_not_know_of_is_no_fault(log: LeaseLog) -> None:
    log.lease(0, 3)
    log.reset(20)
    log.tick()
    log.lease(3, 2)
    at = log.lease(5, 2)
    assert log.kinds() == [(K.LEASED_TWICE, at, 5)], "now the leader knows"


@pytest.mark.parametrize("seed", range(6))
def test_the_record_agrees_with_the_state_machine_about_any_changes(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    log = LeaseLog(tmp_path / "node-1")
    leases, resets = [0], 0
    for _ in range(250):
        log.time_ms += chance.choice((0, 1, 40, 400))
        drawn = chance.random()
        if drawn < 0.02:
            log.reset(chance.randrange(MESSAGES + 5))
            resets += 1
        elif drawn < 0.05:
            log.move_dead(chance.randrange(MESSAGES))
        elif drawn < 0.06:
            log.command(forget_consumer_group=command_pb2.ForgetConsumerGroup(consumer_group=GROUP))
            resets = 0
        else:
            changes = [
                LeaseChange(
                    chance.choice((LEASE, LEASE, LEASE, *ChangeKind)),
                    chance.randrange(MESSAGES), chance.randint(1, 6), chance.choice(leases[-6:]),
                    max(0, resets - chance.randrange(2)), chance.choice((0, 50, 500)), chance.getrandbits(64),
                )
                for _ in range(chance.randint(0, 4))
            ]  # fmt: skip
            leases.append(log.change(*changes, queue=int(chance.random() < 0.2))[0])
    kinds = {each.kind for each in log.told()}
    assert kinds <= {K.LEASED_TWICE}


def grants_held_messages(window: LeaseWindow, first: int, count: int, lease: object, now_ms: int) -> int:
    return _LEASE(window, first, count, lease, 1 << 50)  # type: ignore[arg-type]


def forgets_attempts(window: LeaseWindow, first: int, count: int, lease: object, now_ms: int) -> int:
    changed = _LEASE(window, first, count, lease, now_ms)  # type: ignore[arg-type]
    slots = window.slots[first - window.begin :][:changed]
    slots["attempts"] = np.minimum(slots["attempts"], 1)
    return changed


def settles_for_any_lease(window: LeaseWindow, first: int, count: int, lease: int) -> int:
    slot = window.slot(first)
    return _ACKNOWLEDGE(window, first, count, 0 if slot is None else int(slot["lease"]))


def extends_nothing(window: LeaseWindow, first: int, count: int, lease: int, end_ms: int) -> int:
    return _EXTEND(window, first, count, lease, int(window.slots["free_ms"].max()))


_LEASE, _ACKNOWLEDGE, _EXTEND = LeaseWindow.lease, LeaseWindow.acknowledge, LeaseWindow.extend


@pytest.mark.parametrize(
    ("method", "planted", "kind"),
    [
        ("lease", grants_held_messages, K.LEASED_TWICE),
        ("lease", forgets_attempts, K.LEASES_DIFFER),
        ("acknowledge", settles_for_any_lease, K.LEASES_DIFFER),
        ("extend", extends_nothing, K.LEASES_DIFFER),
    ],
)
def test_a_fault_of_the_state_machine_is_told(
    log: LeaseLog, monkeypatch: pytest.MonkeyPatch, method: str, planted: Callable[..., int], kind: ViolationKind
) -> None:
    """All replicas have the fault, and so has the replay: their states are equal."""
    monkeypatch.setattr(LeaseWindow, method, planted)
    first = log.lease(0, 5)
    log.time_ms += 1_000
    second = log.lease(0, 5)
    log.change(LeaseChange(EXTEND, 1, 1, second, 0, 5_000))
    log.change(acknowledge(2, 1, first))
    log.change(LeaseChange(LEASE, 3, 1, duration_ms=10))
    log.change(acknowledge(4, 1, second))
    kinds = [each.kind for each in log.told()]
    assert kind in kinds
    monkeypatch.undo()
