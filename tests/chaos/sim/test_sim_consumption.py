"""The simulator's invariants of consumer groups: each notices a violation and accepts correct behaviour."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from chaos.sim.consumers.consumption_history import ConsumptionHistory, MemberHistory
from chaos.sim.consumers.consumption_plan import NEVER, GroupPlan, Style
from chaos.sim.consumers.consumption_truth import COMPARED_EVERY, ConsumptionTruth
from chaos.sim.consumers.member_ear import MemberEar
from ledger.batch import encode
from ledger.errors import ConsumerFencedError, to_wire
from ledger.retries import moved_headers
from ledger.state import CommittedBatch, State, TopicQueueId
from ledger.v1 import command_pb2
from ledger.v1 import consumer_group_pb2 as pb2
from ledgermq import Message
from store import EntryKind, Header

TOPIC, RETRY = 1, 2
ORDERS, QUEUE = "orders", (TOPIC, 0)


def plan(**changes: Any) -> GroupPlan:
    values: dict[str, Any] = {
        "seed": 1, "name": "g", "topics": (ORDERS,), "style": Style.PULL, "members": 1, "strategy": "average",
        "tags": None, "start": "earliest", "session_timeout_ms": 1_500, "release_timeout_ms": 1_000,
        "max_attempts": 3, "concurrency": 1,
    }  # fmt: skip
    return GroupPlan(**(values | changes))


@dataclass
class Log:
    """Entries that one node applies, with the violations found. `a` and `b` own the queue under epochs 3 and 5."""

    wrong: list[str] = field(default_factory=list)
    state: State = field(default_factory=State)
    now: float = 0.0
    index: int = 0

    def __post_init__(self) -> None:
        self.truth = ConsumptionTruth(self._fail)
        self.plan = plan()
        self.history = ConsumptionHistory(self._fail, lambda: self.now, self.truth, {"g": self.plan})
        for name in (ORDERS, "%RETRY%g"):
            self.command(create_topic=command_pb2.CreateTopic(name=name, queues=1))
        self.truth.shares[0].issued.update(
            {("g", TopicQueueId(TOPIC, 0), epoch): member for epoch, member in ((3, "a"), (5, "b"))}
        )

    def _fail(self, invariant: str, what: str) -> None:
        self.wrong.append(invariant)

    def command(self, **command: Any) -> Any:
        body = command_pb2.Command(**command).SerializeToString()
        result = self.state.apply_command(body, 0, index=self.index + 1)
        self._applied(EntryKind.COMMAND, body)
        return result

    def batch(
        self, values: list[bytes], topic: int = TOPIC, moved_from: int | None = None, settles: bool = True
    ) -> None:
        """Apply a batch. `moved_from`: the offset from which the message was moved, in the queue of orders."""
        base, headers = self.state.next_offset(topic, 0), None
        if moved_from is not None:
            here, before = f"{ORDERS}:0:{moved_from}", f"{TOPIC}:0:{moved_from}"
            headers = [moved_headers([], here=here, came_from=before, attempt=1)]
            if settles:
                self.state.apply_move("g", TOPIC, 0, moved_from)
        body = encode(
            values, topic_id=topic, queue=0, producer_id=0, epoch=0, first_sequence=base, base_timestamp_ms=0,
            headers=headers,
        )  # fmt: skip
        self.state.apply_batch(CommittedBatch(
            topic_id=topic, queue=0, base_offset=base, count=len(values), append_time_ms=0, index=self.index + 1,
            term=1, producer_id=0, epoch=0, first_sequence=base,
        ))  # fmt: skip
        self._applied(EntryKind.BATCH, body, topic)

    def _applied(self, kind: EntryKind, body: bytes, topic: int = 0) -> None:
        self.index += 1
        header = cast(Header, SimpleNamespace(index=self.index, kind=kind, topic_id=topic, queue=0))
        self.truth.applied(0, header, body, self.state)

    def claim(self, epoch: int) -> None:
        queues = [command_pb2.ClaimedQueue(topic_id=TOPIC, queue=0, epoch=epoch, start_offset=0)]
        self.command(claim_queues=command_pb2.ClaimQueues(consumer_group="g", queues=queues))

    def acknowledge(self, epoch: int, offset: int, *, resets: int = 0) -> None:
        offsets = [command_pb2.AcknowledgedOffset(topic_id=TOPIC, queue=0, epoch=epoch, resets=resets, offset=offset)]
        self.command(acknowledge_offsets=command_pb2.AcknowledgeOffsets(consumer_group="g", offsets=offsets))

    def reset(self, offset: int) -> None:
        offsets = [command_pb2.ResetOffset(topic_id=TOPIC, queue=0, offset=offset)]
        self.command(reset_offsets=command_pb2.ResetOffsets(consumer_group="g", offsets=offsets))

    # -- members

    def member(self, name: str, epoch: int, offset: int = 0) -> MemberHistory:
        """A member that has claimed the queue and continues at this offset."""
        ear = MemberEar(lambda: self.now)
        member = self.history.member(self.plan, 1, ear)
        ear.asked(pb2.JoinRequest(member=name))
        self.attends(member, epoch)
        self.claim(epoch)
        self.claimed(member, epoch, offset)
        return member

    def claimed(self, member: MemberHistory, epoch: int, offset: int) -> None:
        """Let the member learn that its claim was accepted."""
        asked = pb2.ClaimRequest(queues=[pb2.QueueClaim(topic_id=TOPIC, queue=0, epoch=epoch)])
        ((_, progress),) = self.state.consumption.progress.of("g")
        answer = pb2.QueueProgress(offset=offset, resets=progress.resets)
        member.ear.answered(asked, pb2.ClaimResponse(queues=[answer]))

    def attends(self, member: MemberHistory, epoch: int | None, *, leaving: bool = False) -> None:
        """Let the member learn its epoch for the queue; None: it does not own the queue."""
        queues = [pb2.OwnedQueue(topic_id=TOPIC, queue=0, epoch=epoch, leaving=leaving)] if epoch is not None else []
        member.ear.answered(pb2.AwaitAssignmentRequest(), pb2.AwaitAssignmentResponse(version=1, queues=queues))

    def hand(self, member: MemberHistory, offset: int, *, finish: bool = True) -> None:
        message = Message(ORDERS, 0, offset, 0, 0, None, b"%d:" % offset, None, (), 1)
        self.history.handed(member, message)
        if finish:
            self.history.finished(member, message)


@pytest.fixture
def log() -> Log:
    log = Log()
    log.batch([b"0:", b"1:", b"2:", b"3:"])
    return log


def asks_to_move(member: MemberHistory, offset: int, epoch: int, *, resets: int = 0) -> None:
    member.ear.asked(
        pb2.MoveRequest(consumer_group="g", topic_id=TOPIC, queue=0, epoch=epoch, resets=resets, offset=offset)
    )


def refused(member: MemberHistory, epoch: int) -> None:
    """Apply an acknowledgement under a claim from before any reset."""
    asked = pb2.AcknowledgeRequest(queues=[pb2.QueueAcknowledgement(topic_id=TOPIC, queue=0, epoch=epoch, offset=1)])
    refusal = pb2.QueueProgress(error=to_wire(ConsumerFencedError("fenced")))
    member.ear.answered(asked, pb2.AcknowledgeResponse(queues=[refusal]))


# -- what the log says


def test_what_goes_well_is_let_pass(log: Log) -> None:
    a = log.member("a", 3)
    log.hand(a, 0)
    log.hand(a, 1, finish=False)
    asks_to_move(a, 1, 3)
    log.batch([b"1:"], RETRY, moved_from=1)
    log.hand(a, 2)
    log.acknowledge(3, 3)
    assert log.wrong == []
    stand = log.truth.stand("g", ORDERS, 0)
    assert stand is not None
    assert stand.offset == 3


def test_an_acknowledgement_of_what_nobody_has_finished_is_noticed(log: Log) -> None:
    a = log.member("a", 3)
    log.hand(a, 0)
    log.hand(a, 1, finish=False)
    log.acknowledge(3, 1)
    assert log.wrong == []
    log.acknowledge(3, 2)
    assert log.wrong == ["acknowledged is finished"]


def test_what_is_not_wanted_or_kept_no_longer_may_be_passed(log: Log) -> None:
    log.history.first_offset = lambda topic, queue: 3
    log.member("a", 3)
    log.acknowledge(3, 3)
    assert log.wrong == []
    log.acknowledge(3, 4)
    assert log.wrong == ["acknowledged is finished"]


def test_a_fenced_acknowledgement_that_counts_is_noticed(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    a = log.member("a", 3)
    log.hand(a, 0)
    log.member("b", 5)
    log.acknowledge(3, 1)
    assert (log.wrong, log.truth.counts["fenced"]) == ([], 1)
    progress = log.state.consumption.progress
    monkeypatch.setattr(progress, "_owned", lambda key, epoch, resets: progress.get(key))
    log.acknowledge(3, 1)
    assert log.wrong == ["progress is what the log says"]


def test_what_a_claim_from_before_a_reset_acknowledges_is_noticed_where_it_counts(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    a = log.member("a", 3)
    log.hand(a, 0)
    log.reset(0)
    log.claim(3)
    log.acknowledge(3, 1, resets=0)
    assert (log.wrong, log.truth.counts["fenced"]) == ([], 1)
    progress = log.state.consumption.progress
    monkeypatch.setattr(progress, "_owned", lambda key, epoch, resets: progress.get(key))
    log.acknowledge(3, 1, resets=0)
    assert log.wrong == ["progress is what the log says"]


def test_what_a_reset_passes_over_before_anybody_has_claimed_need_not_be_delivered(log: Log) -> None:
    log.reset(2)
    assert log.wrong == []
    stand = log.truth.stand("g", ORDERS, 0)
    assert stand is not None
    assert stand.skipped == {0, 1}


def test_an_offset_that_falls_without_a_reset_is_noticed(log: Log) -> None:
    a = log.member("a", 3)
    for offset in range(3):
        log.hand(a, offset)
    log.acknowledge(3, 3)
    log.reset(1)
    assert log.wrong == []
    ((_, progress),) = log.state.consumption.progress.of("g")
    progress.offset = 0
    log.claim(3)
    assert log.wrong == ["progress is what the log says"]


def test_a_node_that_has_forgotten_what_was_moved_is_noticed(log: Log) -> None:
    a = log.member("a", 3)
    asks_to_move(a, 1, 3)
    log.batch([b"1:"], RETRY, moved_from=1)
    while log.index % COMPARED_EVERY:
        log.claim(3)
    header = cast(Header, SimpleNamespace(index=log.index, kind=EntryKind.NO_OP))
    log.truth.applied(0, header, b"", State.decode(log.state.encode()))
    assert log.wrong == []
    other = State.decode(log.state.encode())
    ((_, progress),) = other.consumption.progress.of("g")
    progress.settled = []
    log.truth.applied(0, header, b"", other)
    assert log.wrong == ["progress is the same on all nodes"]


def test_an_epoch_that_no_coordinator_gave_is_noticed(log: Log) -> None:
    log.claim(4)
    assert log.wrong == ["epochs come from the coordinator"]


def test_a_message_in_two_places_is_noticed(log: Log) -> None:
    a = log.member("a", 3)
    asks_to_move(a, 1, 3)
    log.batch([b"1:"], RETRY, moved_from=1)
    assert log.wrong == []
    log.batch([b"1:"], RETRY, moved_from=1)
    assert log.wrong == ["in exactly one place"]


def test_a_message_that_is_moved_and_stays_is_noticed(log: Log) -> None:
    asks_to_move(log.member("a", 3), 1, 3)
    log.batch([b"1:"], RETRY, moved_from=1, settles=False)
    assert log.wrong == ["progress is what the log says"]


def test_another_message_than_the_one_that_was_moved_is_noticed(log: Log) -> None:
    asks_to_move(log.member("a", 3), 1, 3)
    log.batch([b"2:"], RETRY, moved_from=1)
    assert "in exactly one place" in log.wrong


def test_a_move_for_somebody_who_is_fenced_is_noticed(log: Log) -> None:
    asks_to_move(log.member("a", 3), 1, 3)
    log.member("b", 5)
    log.batch([b"1:"], RETRY, moved_from=1)
    assert log.wrong == ["moved by its owner"]


def test_after_a_reset_a_message_may_be_moved_once_more(log: Log) -> None:
    a = log.member("a", 3)
    asks_to_move(a, 1, 3)
    log.batch([b"1:"], RETRY, moved_from=1)
    log.reset(0)
    log.claim(3)
    asks_to_move(a, 1, 3, resets=1)
    log.batch([b"1:"], RETRY, moved_from=1)
    assert log.wrong == []


# -- who owns what


def joined(log: Log, *members: str) -> None:
    for member in members:
        subscriptions = [command_pb2.QueueCount(topic_id=TOPIC, queues=1)]
        wanted = command_pb2.JoinConsumerGroup(
            consumer_group="g", member=member, strategy="average", session_timeout_ms=1_500, subscriptions=subscriptions
        )
        log.command(join_consumer_group=wanted)


def assigned(log: Log, member: str) -> None:
    group = log.state.consumption.groups.get("g")
    assert group is not None
    targets = [command_pb2.QueueTarget(topic_id=TOPIC, queue=0, member=member)]
    wanted = command_pb2.AssignQueues(consumer_group="g", generation=group.generation, targets=targets)
    log.command(assign_queues=wanted)


def test_a_queue_goes_on_when_its_owner_has_let_it_go_or_left(log: Log) -> None:
    joined(log, "a", "b")
    assigned(log, "a")
    assigned(log, "b")
    queues = [command_pb2.OwnedEpoch(topic_id=TOPIC, queue=0, epoch=log.index - 1)]
    log.command(release_queues=command_pb2.ReleaseQueues(consumer_group="g", member="a", queues=queues))
    assigned(log, "a")
    log.command(leave_consumer_group=command_pb2.LeaveConsumerGroup(consumer_group="g", members=["b"]))
    group = log.state.consumption.groups.get("g")
    assert group is not None
    assert group.shares[TopicQueueId(TOPIC, 0)].owner == "a"
    assert log.wrong == []


def test_a_queue_that_goes_on_before_its_owner_has_let_it_go_is_noticed(log: Log) -> None:
    joined(log, "a", "b")
    assigned(log, "a")
    group = log.state.consumption.groups.get("g")
    assert group is not None
    share = group.shares[TopicQueueId(TOPIC, 0)]
    share.owner, share.epoch = "b", log.index + 1
    assigned(log, "b")
    assert log.wrong == ["one owner"]


# -- what members are handed


def test_a_member_that_was_told_that_its_queue_is_anothers_is_handed_nothing_more(log: Log) -> None:
    a = log.member("a", 3)
    log.hand(a, 0)
    log.attends(a, None)
    log.hand(a, 1)  # at the same moment
    assert log.wrong == []
    log.now = 0.001
    log.hand(a, 2)
    assert log.wrong == ["nothing behind a fence"]


def test_a_member_that_was_refused_is_handed_nothing_more(log: Log) -> None:
    a = log.member("a", 3)
    refused(a, 3)
    log.now = 0.001
    log.hand(a, 0)
    assert log.wrong == ["nothing behind a fence"]


def test_a_refusal_of_a_claim_that_a_reset_has_ended_does_not_end_the_next_one(log: Log) -> None:
    a = log.member("a", 3)
    log.reset(0)
    log.claim(3)
    log.claimed(a, 3, 0)
    refused(a, 3)
    log.now = 0.001
    log.hand(a, 0)
    assert log.wrong == []


def test_messages_out_of_order_are_noticed(log: Log) -> None:
    a = log.member("a", 3)
    log.hand(a, 1)
    log.hand(a, 0)
    assert log.wrong == ["in order"]


def test_an_orderly_listener_tries_a_message_again_before_the_next(log: Log) -> None:
    log.plan = plan(style=Style.ORDERLY)
    a = log.member("a", 3)
    log.hand(a, 0, finish=False)
    log.hand(a, 0)
    assert log.wrong == []
    log.hand(a, 1, finish=False)
    log.hand(a, 2)
    assert log.wrong == ["in order"]


def test_a_message_that_was_finished_comes_again_only_for_a_reason(log: Log) -> None:
    a = log.member("a", 3)
    log.hand(a, 0)
    b = log.member("b", 5)
    log.hand(b, 0)
    assert log.wrong == ["normally once"]


def test_what_a_member_finishes_after_a_reset_that_it_has_not_heard_of_comes_again(log: Log) -> None:
    a = log.member("a", 3, offset=2)
    log.reset(0)
    log.hand(a, 2)
    log.claim(3)
    log.hand(a, 3)  # it has not heard of this either
    log.claimed(a, 3, 0)
    for offset in (0, 1, 2, 3):
        log.hand(a, offset)
    assert log.wrong == []
    log.claimed(a, 3, 2)
    log.hand(a, 2)  # now there is no reason
    assert log.wrong == ["normally once"]


def test_what_was_acknowledged_before_its_member_left_does_not_come_again(log: Log) -> None:
    a = log.member("a", 3)
    log.hand(a, 0)
    asked = pb2.AcknowledgeRequest(queues=[pb2.QueueAcknowledgement(topic_id=TOPIC, queue=0, epoch=3, offset=1)])
    a.ear.answered(asked, pb2.AcknowledgeResponse(queues=[pb2.QueueProgress(offset=1)]))
    a.ear.asked(pb2.LeaveRequest())
    log.truth.shares[0].ended["g", TopicQueueId(TOPIC, 0), 3] = "leave_consumer_group"
    log.hand(log.member("b", 5), 0)
    assert log.wrong == ["normally once"]


@pytest.mark.parametrize("reason", ["crash", "unfinished", "reset", "renewed", "kept", "silent", "unacknowledged"])
def test_the_reasons_for_which_a_message_comes_again(log: Log, reason: str) -> None:
    a = log.member("a", 3)
    log.hand(a, 0, finish=reason != "unfinished")
    if reason in ("crash", "silent", "unacknowledged"):
        log.truth.shares[0].ended["g", TopicQueueId(TOPIC, 0), 3] = "leave_consumer_group"
    match reason:
        case "crash":
            a.trouble = "crash"
        case "unacknowledged":
            a.ear.asked(pb2.LeaveRequest())
        case "reset":
            log.reset(0)
        case "renewed":
            log.truth.shares[0].ended["g", TopicQueueId(TOPIC, 0), 3] = "renew_queues"
        case "kept":
            log.attends(a, 3, leaving=True)
            log.now = 1.0
            a.ear.asked(pb2.ReleaseRequest(queues=[pb2.QueueEpoch(topic_id=TOPIC, queue=0, epoch=3)]))
    log.hand(log.member("b", 5), 0)
    assert log.wrong == []
    assert log.history.counts[f"again_{reason}"] == 1


def test_a_queue_that_is_let_go_too_early_is_noticed(log: Log) -> None:
    a = log.member("a", 3)
    log.hand(a, 0, finish=False)
    log.attends(a, 3, leaving=True)
    log.now = 0.5
    a.ear.asked(pb2.ReleaseRequest(queues=[pb2.QueueEpoch(topic_id=TOPIC, queue=0, epoch=3)]))
    assert log.wrong == ["finished before it is let go"]


def test_another_message_than_the_committed_one_is_noticed(log: Log) -> None:
    a = log.member("a", 3)
    log.history.handed(a, Message(ORDERS, 0, 1, 0, 0, None, b"2:", None, (), 1))
    assert log.wrong == ["delivered is committed"]


def test_some_messages_fail_for_ever_and_most_never() -> None:
    failures = [plan().failures_of(b"%d" % number) for number in range(2_000)]
    assert 10 < failures.count(NEVER) < 100
    assert failures.count(0) > 1_700
    assert {*failures} == {0, 1, 2, NEVER}
