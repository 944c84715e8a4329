"""Records each message that a member of a consumer group receives. At the moment of its receipt, each message is
compared with the log, and with the responses that the member has received before.

    handed out ──> finished ──> acknowledged            (by the log: consumption_truth.py)
        └──> cannot be consumed ──> moved

Each delivery of a message to a member belongs to the claim by which the member owns the queue. Under one claim, a
member must receive the messages of the queue in order, and each message once. After a new claim of the queue, a second
delivery of a message is allowed only if the simulator knows a valid reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from chaos.sim.consumers.consumption_plan import GroupPlan, Style
from chaos.sim.consumers.consumption_truth import ConsumptionTruth, Stand, StoredMessage
from chaos.sim.consumers.member_ear import MemberEar, QueueId, SeenClaim
from chaos.sim.stack.workload_history import MessagePlace, name_of
from ledger.client.records import Message
from ledger.state.coordinator_table import EPOCHS_OF_A_NUMBER
from ledger.state.progress_table import ConsumedQueue
from ledger.v1 import consumer_group_pb2 as pb2

Fail = Callable[[str, str], None]
_NO_CLAIM = SeenClaim(0, 0, 0, frozenset())


@dataclass(slots=True)
class MemberQueue:
    """Records the messages that one member has received from one queue since the member claimed the queue."""

    claim: SeenClaim
    # Offset of the last message that it received.
    last: int = -1
    # How often the member has tried that message.
    tries: int = 0
    in_hand: dict[int, None] = field(default_factory=dict)
    # The member kept the queue until its time to release it was over, so its messages in hand are not known.
    was_kept: bool = False


@dataclass(slots=True)
class MemberHistory:
    """Records what one process of a member did and received."""

    plan: GroupPlan
    number: int
    ear: MemberEar
    # The fault that hit the member, because of which the coordinator may remove it.
    trouble: str = ""
    queues: dict[QueueId, MemberQueue] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"member {self.number} of {self.plan.name}"


@dataclass(slots=True)
class HandOut:
    """Describes the last delivery of a message to a consumer group."""

    member: MemberHistory
    view: MemberQueue
    era: int
    finished: bool = False


class ConsumptionHistory:
    """Records the histories of all members of consumer groups, and checks each event."""

    def __init__(self, fail: Fail, now: Callable[[], float], truth: ConsumptionTruth, plans: Mapping[str, GroupPlan]):
        """The function `now` returns the simulated time in seconds."""
        self.counts: Counter[str] = Counter()
        # Returns the largest first offset of a queue on any node.
        self.first_offset: Callable[[str, int], int] = lambda topic, queue: 0
        self._fail = fail
        self._now = now
        self._truth = truth
        self._plans = plans
        self._hand_outs: dict[tuple[str, MessagePlace], HandOut] = {}
        # (consumer group, message) that any member has finished.
        self._finished: set[tuple[str, MessagePlace]] = set()
        # (queue, offset) of messages that a member asked to move -> the claims (epoch, resets) under which it asked.
        self._asked: dict[tuple[ConsumedQueue, int], set[tuple[int, int]]] = {}
        truth.may_pass = self._may_pass
        truth.may_move = lambda key, offset, epoch, resets: (epoch, resets) in self._asked.get((key, offset), ())

    def member(self, plan: GroupPlan, number: int, ear: MemberEar) -> MemberHistory:
        """Start and return the history of a new member process."""
        member = MemberHistory(plan, number, ear)
        ear.on_moved = lambda topic_id, queue, offset: self._moved(member, (topic_id, queue), offset)
        ear.on_move = self._asks_to_move
        ear.on_release = lambda topic_id, queue, epoch: self._lets_go(member, (topic_id, queue), epoch)
        return member

    # -- events of members

    def handed(self, member: MemberHistory, message: Message) -> int:
        """Record that a member received this message. Return the number of this attempt by this member: 1, 2, ..."""
        place = MessagePlace(message.topic, message.queue, message.offset)
        self.counts["handed"] += 1
        self._check_record(member, place, message)
        queue = (self._truth.topic_ids[message.topic], message.queue)
        claim = member.ear.claims.get(queue, _NO_CLAIM)
        self._check_fence(member, place, queue, claim)
        view = member.queues.get(queue)
        if view is None or view.claim is not claim:
            view = member.queues[queue] = MemberQueue(claim)
        self._check_order(member, place, view)
        self._check_repeat(member, place, view)
        view.tries = view.tries + 1 if message.offset == view.last else 1
        view.last = message.offset
        view.in_hand[message.offset] = None
        return view.tries

    def finished(self, member: MemberHistory, message: Message) -> None:
        """Record that the member has finished the message."""
        place = MessagePlace(message.topic, message.queue, message.offset)
        self._finished.add((member.plan.name, place))
        hand_out = self._hand_outs[member.plan.name, place]
        if hand_out.member is member:
            hand_out.finished = True
        view = member.queues.get((self._truth.topic_ids[place.topic], place.queue))
        if view is not None:
            view.in_hand.pop(place.offset, None)

    def _check_record(self, member: MemberHistory, place: MessagePlace, message: Message) -> None:
        records = self._truth.records(place.topic, place.queue)
        record = records[place.offset] if place.offset < len(records) else None
        if record is None or record.name != name_of(message.value):
            self._fail("delivered is committed", f"{member} received {message.value[:40]!r} at {place}, not {record}")
        elif not member.plan.wants(record.tag):
            self._fail("what is filtered stays away", f"{member} received {place} with tag {record.tag}")

    def _check_fence(self, member: MemberHistory, place: MessagePlace, queue: QueueId, claim: SeenClaim) -> None:
        void_since = member.ear.void_since.get(queue)
        if claim is _NO_CLAIM:
            self._fail("nothing without a claim", f"{member} received {place} without a claim")
        elif void_since is not None and void_since < self._now():
            self._fail(
                "nothing behind a fence",
                f"{member} received {place} under epoch {claim.epoch}, but learned at {void_since * 1000:.0f} ms "
                "that this claim is no longer valid",
            )

    def _check_order(self, member: MemberHistory, place: MessagePlace, view: MemberQueue) -> None:
        if place.offset < view.claim.offset or place.offset in view.claim.settled:
            self._fail("what is settled stays away", f"{member} received {place}, but its claim began at {view.claim}")
        if member.plan.style is not Style.ORDERLY:
            if place.offset <= view.last:
                self._fail("in order", f"{member} received {place} after offset {view.last}")
        elif place.offset < view.last or (place.offset > view.last and view.last in view.in_hand):
            self._fail("in order", f"{member} received {place} before it had finished offset {view.last}")
        elif place.offset == view.last and view.last not in view.in_hand:
            self._fail("in order", f"{member} received {place} again after it had finished it")

    def _check_repeat(self, member: MemberHistory, place: MessagePlace, view: MemberQueue) -> None:
        key, stand = (member.plan.name, place), self._stand(member.plan.name, place)
        before, era = self._hand_outs.get(key), stand.era
        if before is not None and before.view is not view:
            self.counts["handed_again"] += 1
            if view.claim.epoch < before.view.claim.epoch:  # the member does not know yet that it is fenced
                self.counts["again_fenced"] += 1
                return
            reason = self._reason(before, place, era) or _moved(before, view)
            self.counts[f"again_{reason}"] += 1
            if not reason:
                had = f"{before.member} had finished under epoch {before.view.claim.epoch}"
                self._fail("normally once", f"{member} received {place}, which {had}")
        # A claim from before a reset, of which the member has not heard yet, belongs to the era before the reset.
        self._hand_outs[key] = HandOut(member, view, era if view.claim.resets == stand.resets else era - 1)

    def _reason(self, before: HandOut, place: MessagePlace, era: int) -> str:
        """Return the reason why another delivery of a message is allowed after its last delivery `before`. Return
        "" if no valid reason exists."""
        member, queue = before.member, (self._truth.topic_ids[place.topic], place.queue)
        if not before.finished:
            return "unfinished"
        if before.era != era:
            return "reset"
        if before.view.was_kept:
            return "kept"
        ended = self._truth.ended(member.plan.name, queue, before.view.claim.epoch)
        if ended == "renew_queues":  # for a reset that may have failed; the member heard of it later
            return "renewed"
        if ended != "leave_consumer_group":
            return ""
        if member.trouble or not member.ear.leaves:  # the coordinator removed the member
            return member.trouble or "silent"
        return "" if place.offset < member.ear.acknowledged.get(queue, 0) else "unacknowledged"

    def _stand(self, consumer_group: str, place: MessagePlace) -> Stand:
        stand = self._truth.stand(consumer_group, place.topic, place.queue)
        assert stand is not None, "a member can receive messages only of a claimed queue"
        return stand

    # -- called by the truth

    def _may_pass(self, key: ConsumedQueue, place: MessagePlace, record: StoredMessage) -> bool:
        plan = self._plans.get(key.consumer_group)
        return (
            plan is None
            or (key.consumer_group, place) in self._finished
            or not plan.wants(record.tag)
            or place.offset < self.first_offset(place.topic, place.queue)
        )

    def _asks_to_move(self, wanted: pb2.MoveRequest) -> None:
        key = ConsumedQueue(wanted.consumer_group, wanted.topic_id, wanted.queue)
        self._asked.setdefault((key, wanted.offset), set()).add((wanted.epoch, wanted.resets))

    def _moved(self, member: MemberHistory, queue: QueueId, offset: int) -> None:
        if (view := member.queues.get(queue)) is not None:
            view.in_hand.pop(offset, None)

    def _lets_go(self, member: MemberHistory, queue: QueueId, epoch: int) -> None:
        view, since = member.queues.get(queue), member.ear.leaving_since.get(queue)
        if view is None or view.claim.epoch != epoch or since is None or queue in member.ear.void_since:
            return
        if (self._now() - since) * 1000 >= member.plan.release_timeout_ms:
            view.was_kept = True
        elif view.in_hand and not member.trouble:
            had = f"with {list(view.in_hand)[:5]} in hand"
            self._fail("finished before it is let go", f"{member} releases {queue} {had}")

    def was_handed(self, consumer_group: str, place: MessagePlace) -> bool:
        """Return True if any member of the consumer group has ever received the message."""
        return (consumer_group, place) in self._hand_outs


def _moved(before: HandOut, view: MemberQueue) -> str:
    """Return "moved" if another coordinator gave the queue to its present owner: the owner before it could not release
    the queue. Otherwise return ""."""
    numbers = [each.claim.epoch // EPOCHS_OF_A_NUMBER for each in (before.view, view)]
    return "moved" if numbers[0] < numbers[1] else ""
