"""Checks the consumer groups at the end of a run. At the end, no message waits for a retry that is already due, each
queue has one owner, and each message has an outcome.

A message has an outcome if the consumer group received the message, or if the group's filter rejected the message. A
message also has an outcome if the consumer group began to read only behind this message. A message also has an outcome
if a reset skipped the message, or if a trim removed the message. A message that always fails must be in the dead
letters exactly once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence

from chaos.sim.consumers.consumption_history import ConsumptionHistory
from chaos.sim.consumers.consumption_plan import NEVER, GroupPlan
from chaos.sim.consumers.consumption_truth import ConsumptionTruth, Stand, StoredMessage
from chaos.sim.stack.workload_history import MessagePlace
from ledger.broker.broker_replica import BrokerReplica
from ledger.broker.consumer_groups.delays import Delays
from ledger.retries import dead_letter_topic, retry_topic
from ledger.state import ConsumerGroup, Topic, TopicQueueId
from ledger.state.progress_table import ConsumedQueue


def unsettled(
    plan: GroupPlan,
    members: Collection[str],
    leaders: Sequence[BrokerReplica],
    delays: Mapping[int, Delays],
) -> Iterator[str]:
    """Return one phrase for each condition that a consumer group with the members `members` does not meet yet.
    `leaders` has the leader of each shard, that of shard 0 first. `delays` maps a shard to its retry delays."""
    topics = leaders[0].state
    place = topics.coordinators.get(plan.name)
    coordinator = next(leader for leader in leaders if leader.shard == (0 if place is None else place.shard))
    group = coordinator.state.consumption.groups.get(plan.name)
    if group is None or set(group.members) != set(members):
        yield f"{plan.name} has members {sorted(group.members) if group else []} instead of {sorted(members)}"
        return
    if group.assigned != group.generation:
        yield f"{plan.name} has no assignment"
    retries = retry_topic(plan.name)
    for name in (*plan.topics, retries):
        topic = topics.topics.named(name)
        if topic is None:
            yield f"topic {name} does not exist"
            continue
        for leader in leaders:
            for queue in [queue for queue, where in enumerate(topic.shards) if where == leader.shard]:
                yield from _unsettled_queue(plan, group, topic, queue, leader, delays[leader.shard])


def _unsettled_queue(
    plan: GroupPlan, group: ConsumerGroup, topic: Topic, queue: int, leader: BrokerReplica, delays: Delays
) -> Iterator[str]:
    share = group.shares.get(TopicQueueId(topic.topic_id, queue))
    if share is None or share.owner not in group.members or share.target != share.owner:
        yield f"{topic.name}/{queue} of {plan.name} has an unfinished share: {share}"
    progress = leader.state.consumption.progress.get(ConsumedQueue(plan.name, topic.topic_id, queue))
    due = delays.due(leader, topic.topic_id, queue)
    end = leader.state.next_offset(topic.topic_id, queue) if due is None else due.end_offset
    if progress is None or progress.offset < end:
        yield f"{plan.name} is at offset {progress.offset if progress else 'none'} of {end} in {topic.name}/{queue}"


class ConsumptionEnd:
    """Checks the consumer groups at the end of a run, after `unsettled` has returned no phrase for any consumer
    group."""

    def __init__(self, truth: ConsumptionTruth, history: ConsumptionHistory, counts: Counter[str]) -> None:
        self._truth = truth
        self._history = history
        self._counts = counts

    def wrong(self, plan: GroupPlan) -> Iterator[tuple[str, str]]:
        """Return each violated invariant of a consumer group with a description of the violation."""
        dead = Counter(record.origin for _, record, _ in self._messages(plan, dead_letter_topic(plan.name)))
        waiting = {record.origin for _, record, gone in self._messages(plan, retry_topic(plan.name)) if gone}
        for topic in plan.topics:
            for place, record, _ in self._messages(plan, topic):
                stand = self._truth.stand(plan.name, place.topic, place.queue)
                assert stand is not None, "a queue with settled messages must have been claimed"
                if not self._history.was_handed(plan.name, place) and not self._excused(plan, place, record, stand):
                    yield "delivered at least once", f"{place} was never received by {plan.name}"
                yield from self._wrongly_dead(plan, place, record, stand, dead[place], place in waiting)

    def _messages(self, plan: GroupPlan, topic: str) -> Iterator[tuple[MessagePlace, StoredMessage, bool]]:
        """Return the messages of a topic, each with a flag. The flag is True if the consumer group is allowed to
        end without receiving the message. A consumer group is allowed to end without a message if the group's
        offset is not after the message, or if a reset or a trim of the log skipped the message."""
        for queue in self._truth.queues(topic):
            stand = self._truth.stand(plan.name, topic, queue)
            for offset, record in enumerate(self._truth.records(topic, queue)):
                place = MessagePlace(topic, queue, offset)
                yield place, record, stand is None or offset >= stand.offset or self._missed(place, stand)

    def _missed(self, place: MessagePlace, stand: Stand) -> bool:
        """Return True if the consumer group possibly skipped the message because of a reset or a trim of the log."""
        return place.offset in stand.skipped or place.offset < self._history.first_offset(place.topic, place.queue)

    def _excused(self, plan: GroupPlan, place: MessagePlace, record: StoredMessage, stand: Stand) -> bool:
        reasons = {
            "not_wanted": not plan.wants(record.tag),
            "before_the_start": plan.start == "latest" and place.offset < stand.began,
            "set_over": place.offset in stand.skipped,
            "kept_no_longer": place.offset < self._history.first_offset(place.topic, place.queue),
        }
        reason = next((name for name, holds in reasons.items() if holds), "")
        self._counts[reason or "missing"] += 1
        return bool(reason)

    def _wrongly_dead(
        self, plan: GroupPlan, place: MessagePlace, record: StoredMessage, stand: Stand, copies: int, waits: bool
    ) -> Iterator[tuple[str, str]]:
        if plan.failures_of(record.name) != NEVER:
            if copies:
                yield "dead letters", f"{place} is in the dead letters of {plan.name} but could have been consumed"
        elif copies > 1 and not stand.era:
            yield "dead letters", f"{place} is in the dead letters of {plan.name} {copies} times"
        elif not copies and self._history.was_handed(plan.name, place) and not waits and not self._missed(place, stand):
            yield "dead letters", f"{place} always fails for {plan.name} but is not in its dead letters"
