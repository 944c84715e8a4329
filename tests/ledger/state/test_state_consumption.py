"""Tests the state of consumption with random commands in random order.

Invariants must hold after every command. A second state that is sometimes encoded and decoded must always equal the
first state.
"""

from __future__ import annotations

import contextlib
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from ledger.errors import LedgerError
from ledger.state import CommittedBatch, State
from ledger.state.consumer_group_table import ConsumerGroup, OwnedQueue, TopicQueueId
from ledger.state.progress_table import ConsumedQueue, QueueProgress
from ledger.v1 import command_pb2

QUEUES = [TopicQueueId(topic_id, queue) for topic_id in (1, 2) for queue in (0, 1)]
ENDS = {queue: 12 if queue.queue == 0 else 0 for queue in QUEUES}
NAMES = st.sampled_from(["billing", "audit"])
MEMBERS = st.sampled_from(["a", "b", "c"])
SUBSCRIPTIONS = st.dictionaries(st.sampled_from([1, 2]), st.sampled_from([1, 2]))
SOME_QUEUES = st.lists(st.sampled_from(QUEUES), min_size=1, unique=True)
OFFSETS = st.integers(-1, 13)
# By how much an epoch, a generation or a reset counter of a request is out of date.
LATENESS = st.sampled_from([0, 0, 0, 1, 5])

Views = dict[tuple[str, str], tuple[int, list[OwnedQueue]]]


class ConsumptionOfTwoStates(RuleBasedStateMachine):
    """Applies the same commands to two states. The second state is encoded and decoded at random times."""

    def __init__(self) -> None:
        super().__init__()
        self.index = 0
        self.state, self.twin = State(), State()
        # By consumer group and member: the member's version and view after the previous entry.
        self.views: Views = {}
        # By consumer group and queue: the last owner of the queue, and its epoch.
        self.owners: dict[tuple[str, TopicQueueId], tuple[str, int]] = {}
        self.offsets: dict[ConsumedQueue, int] = {}

    @initialize()
    def topics(self) -> None:
        for topic_id, name in ((1, "orders"), (2, "payments")):
            self.apply(create_topic=command_pb2.CreateTopic(name=name, queues=2))
            for state in (self.state, self.twin):
                state.apply_batch(CommittedBatch(
                    topic_id=topic_id, queue=0, base_offset=0, count=12, append_time_ms=1_000, index=self.index,
                    term=1, producer_id=1, epoch=0, first_sequence=0,
                ))  # fmt: skip

    def apply(self, **command: Any) -> None:
        self.index += 1
        body = command_pb2.Command(**command).SerializeToString()
        mine, other = (state.apply_command(body, 1_000, index=self.index) for state in (self.state, self.twin))
        assert repr(mine) == repr(other)

    def group(self, name: str) -> ConsumerGroup | None:
        return self.state.consumption.groups.get(name)

    def epoch(self, name: str, queue: TopicQueueId) -> int:
        group = self.group(name)
        share = None if group is None else group.shares.get(queue)
        return 0 if share is None else share.epoch

    def resets(self, name: str, queue: TopicQueueId) -> int:
        progress = self.state.consumption.progress.get(ConsumedQueue(name, *queue))
        return 0 if progress is None else progress.resets

    # -- commands

    @rule()
    def the_other_goes_through_its_bytes(self) -> None:
        self.twin = State.decode(self.twin.encode())

    @rule(name=NAMES, member=MEMBERS, subscriptions=SUBSCRIPTIONS, configured=SOME_QUEUES, room=st.sampled_from("ns"))
    def join(
        self, name: str, member: str, subscriptions: dict[int, int], configured: list[TopicQueueId], room: str
    ) -> None:
        self.apply(
            join_consumer_group=command_pb2.JoinConsumerGroup(
                consumer_group=name,
                member=member,
                client_id=f"client of {member}",
                strategy="by_configuration",
                room=room,
                session_timeout_ms=10_000,
                subscriptions=[
                    command_pb2.QueueCount(topic_id=topic_id, queues=queues)
                    for topic_id, queues in subscriptions.items()
                ],
                configured=[command_pb2.QueueRef(topic_id=queue.topic_id, queue=queue.queue) for queue in configured],
            )
        )

    @rule(name=NAMES, members=st.lists(MEMBERS, unique=True))
    def leave(self, name: str, members: list[str]) -> None:
        self.apply(leave_consumer_group=command_pb2.LeaveConsumerGroup(consumer_group=name, members=members))

    @rule(name=NAMES, queues=SOME_QUEUES, chosen=st.integers(0, 80), late=LATENESS)
    def assign(self, name: str, queues: list[TopicQueueId], chosen: int, late: int) -> None:
        group = self.group(name)
        targets = []
        for queue in queues if group is not None else []:
            assert group is not None
            chosen, member = divmod(chosen, len(group.members))
            targets.append(
                command_pb2.QueueTarget(
                    topic_id=queue.topic_id, queue=queue.queue, member=sorted(group.members)[member]
                )
            )
        generation = 1 if group is None else max(group.generation - late, 0)
        self.apply(assign_queues=command_pb2.AssignQueues(consumer_group=name, generation=generation, targets=targets))

    @rule(name=NAMES, member=MEMBERS, queues=SOME_QUEUES, late=LATENESS)
    def release(self, name: str, member: str, queues: list[TopicQueueId], late: int) -> None:
        released = [
            command_pb2.OwnedEpoch(
                topic_id=queue.topic_id, queue=queue.queue, epoch=max(self.epoch(name, queue) - late, 0)
            )
            for queue in queues
        ]
        self.apply(release_queues=command_pb2.ReleaseQueues(consumer_group=name, member=member, queues=released))

    @rule(name=NAMES, queues=SOME_QUEUES, late=LATENESS, start=OFFSETS)
    def claim(self, name: str, queues: list[TopicQueueId], late: int, start: int) -> None:
        claimed = [
            command_pb2.ClaimedQueue(
                topic_id=queue.topic_id,
                queue=queue.queue,
                epoch=max(self.epoch(name, queue) - late, 0),
                start_offset=start,
            )
            for queue in queues
        ]
        self.apply(claim_queues=command_pb2.ClaimQueues(consumer_group=name, queues=claimed))

    @rule(name=NAMES, queues=SOME_QUEUES, late=LATENESS, missed=LATENESS, offset=OFFSETS)
    def acknowledge(self, name: str, queues: list[TopicQueueId], late: int, missed: int, offset: int) -> None:
        """Acknowledge the offset in all these queues. `late` makes the epoch out of date, and `missed` is the number of
        resets that the member does not know of.
        """
        offsets = [
            command_pb2.AcknowledgedOffset(
                topic_id=queue.topic_id,
                queue=queue.queue,
                epoch=max(self.epoch(name, queue) - late, 0),
                resets=max(self.resets(name, queue) - missed, 0),
                offset=offset,
            )
            for queue in queues
        ]
        self.apply(acknowledge_offsets=command_pb2.AcknowledgeOffsets(consumer_group=name, offsets=offsets))

    @rule(name=NAMES, queue=st.sampled_from(QUEUES), offset=OFFSETS)
    def settle(self, name: str, queue: TopicQueueId, offset: int) -> None:
        key, epoch = ConsumedQueue(name, *queue), self.epoch(name, queue)
        if offset >= ENDS[queue]:
            return  # the queue has no such message
        for state in (self.state, self.twin):
            progress = state.consumption.progress
            with contextlib.suppress(LedgerError):  # the digests show whether both states refused
                if progress.may_settle(key, epoch, self.resets(name, queue), offset):
                    progress.settle(key, offset)

    @rule(name=NAMES, queues=SOME_QUEUES, offset=OFFSETS)
    def reset(self, name: str, queues: list[TopicQueueId], offset: int) -> None:
        offsets = [command_pb2.ResetOffset(topic_id=each.topic_id, queue=each.queue, offset=offset) for each in queues]
        self.apply(reset_offsets=command_pb2.ResetOffsets(consumer_group=name, offsets=offsets))
        for queue in queues:
            if offset <= ENDS[queue]:
                self.offsets[ConsumedQueue(name, *queue)] = max(offset, 0)

    @rule(name=NAMES, queues=SOME_QUEUES)
    def renew(self, name: str, queues: list[TopicQueueId]) -> None:
        renewed = [command_pb2.QueueRef(topic_id=each.topic_id, queue=each.queue) for each in queues]
        self.apply(renew_queues=command_pb2.RenewQueues(consumer_group=name, queues=renewed))

    @rule(name=NAMES)
    def forget(self, name: str) -> None:
        self.apply(forget_consumer_group=command_pb2.ForgetConsumerGroup(consumer_group=name))
        if self.group(name) is None:
            assert self.state.consumption.progress.of(name) == []
            self.offsets = {key: offset for key, offset in self.offsets.items() if key.consumer_group != name}

    # -- invariants

    @invariant()
    def both_are_the_same(self) -> None:
        assert self.twin.digest() == self.state.digest()
        assert views(self.twin) == views(self.state)
        mine, other = self.state.consumption, self.twin.consumption
        assert list(map(vars, other.groups)) == list(map(vars, mine.groups))
        assert list(other.progress) == list(mine.progress)

    @invariant()
    def owned_queues_agree_with_shares(self) -> None:
        """The queues that a member owns are those whose share names the member as owner. Therefore a queue has at most
        one owner.
        """
        for group in self.state.consumption.groups:
            for name, member in group.members.items():
                assert set(member.owned) == {queue for queue, share in group.shares.items() if share.owner == name}
            assert {share.owner for share in group.shares.values()} <= {"", *group.members}

    @invariant()
    def every_new_owner_has_a_larger_epoch(self) -> None:
        for group in self.state.consumption.groups:
            for queue, share in group.shares.items():
                before = self.owners.get((group.name, queue), ("", 0))
                if share.owner and (share.owner, share.epoch) != before:
                    assert share.epoch == self.index > before[1]
                    self.owners[group.name, queue] = (share.owner, share.epoch)

    @invariant()
    def versions_change_exactly_with_views(self) -> None:
        now = views(self.state)
        for key, (version, view) in now.items():
            before = self.views.get(key)
            if before is None or before[1] != view:
                assert version == self.index
            else:
                assert version == before[0]
        self.views = now

    @invariant()
    def offsets_rise_within_the_queue(self) -> None:
        for key, progress in self.state.consumption.progress:
            assert self.offsets.get(key, 0) <= progress.offset <= ENDS[TopicQueueId(key.topic_id, key.queue)]
            assert_settled_is_ahead(progress)
            self.offsets[key] = progress.offset


def views(state: State) -> Views:
    return {
        (group.name, name): (member.version, group.view(name))
        for group in state.consumption.groups
        for name, member in group.members.items()
    }


def assert_settled_is_ahead(progress: QueueProgress) -> None:
    assert progress.settled == sorted(set(progress.settled))
    assert all(offset > progress.offset for offset in progress.settled)


TestConsumptionOfTwoStates = ConsumptionOfTwoStates.TestCase
TestConsumptionOfTwoStates.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
