"""Records the requests and responses of a member of a consumer group.

    `OverheardChannel` is the channel between a member and a node, and records each request and response.

A member is allowed to use a queue from the response that assigns the queue to the response that ends the assignment.
Therefore the checks must know which responses have reached the member, and at what time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from chaos.sim.engine.network import Network
from chaos.sim.engine.node_life import Life
from chaos.sim.engine.rpc import Metadata, SimChannel, StreamCall, UnaryCall
from ledger.errors import ConsumerFencedError, LedgerError, OffsetTooLowError, UnknownMemberError, from_wire
from ledger.v1 import consumer_group_pb2 as pb2

# (topic id, queue).
QueueId = tuple[int, int]


@dataclass(frozen=True, slots=True)
class SeenClaim:
    """A claim of a queue that the queue's shard accepted. The member continues to read the queue at `offset`."""

    epoch: int
    resets: int
    offset: int
    settled: frozenset[int]


class MemberEar:
    """Records the requests and responses of one member process. The function `now` returns the simulated time in
    seconds."""

    def __init__(self, now: Callable[[], float]) -> None:
        # Names under which it joined, in order. The last one is its current name.
        self.names: dict[str, None] = {}
        # Whether it has asked to leave.
        self.leaves = False
        # The last claim of each queue.
        self.claims: dict[QueueId, SeenClaim] = {}
        # Acknowledged offset of each queue, as the member was told.
        self.acknowledged: dict[QueueId, int] = {}
        # When the member first learned that its last claim of a queue is no longer valid.
        self.void_since: dict[QueueId, float] = {}
        # When the member first learned that it must release a queue.
        self.leaving_since: dict[QueueId, float] = {}
        # Called when the member learns that a message was moved or no longer exists.
        self.on_moved: Callable[[int, int, int], None] = lambda topic_id, queue, offset: None
        # Called when the member asks to release a queue that it owned under this epoch.
        self.on_release: Callable[[int, int, int], None] = lambda topic_id, queue, epoch: None
        # Called when the member asks to move a message.
        self.on_move: Callable[[pb2.MoveRequest], None] = lambda request: None
        # The coordinator's last assignment: queue -> epoch.
        self._view: dict[QueueId, int] = {}
        self._now = now

    def asked(self, request: Any) -> None:
        match request:
            case pb2.JoinRequest():
                self.names[request.member] = None
            case pb2.LeaveRequest():
                self.leaves = True
            case pb2.MoveRequest():
                self.on_move(request)
            case pb2.ReleaseRequest():
                for each in request.queues:
                    self.on_release(each.topic_id, each.queue, each.epoch)
            case _:
                pass

    def answered(self, request: Any, response: Any) -> None:
        match request:
            case pb2.AwaitAssignmentRequest():
                self._attended(response)
            case pb2.ClaimRequest():
                self._claimed(request, response)
            case pb2.AcknowledgeRequest():
                for each, progress in zip(request.queues, response.queues, strict=False):
                    if progress.HasField("error"):
                        self._refused(each, from_wire(progress.error))
                    else:
                        self.acknowledged[each.topic_id, each.queue] = each.offset
            case pb2.MoveRequest():
                error = from_wire(response.error) if response.HasField("error") else None
                if error is None or isinstance(error, OffsetTooLowError):  # the message was trimmed
                    self.on_moved(request.topic_id, request.queue, request.offset)
                else:
                    self._refused(request, error)
            case _:
                pass

    def _attended(self, response: pb2.AwaitAssignmentResponse) -> None:
        if response.HasField("error") and not isinstance(from_wire(response.error), UnknownMemberError):
            return
        view = {(each.topic_id, each.queue): each for each in response.queues}
        self._view = {queue: each.epoch for queue, each in view.items()}
        for queue, claim in self.claims.items():
            if self._view.get(queue) != claim.epoch:
                self.void_since.setdefault(queue, self._now())
        leaving = [queue for queue, each in view.items() if each.leaving]
        self.leaving_since = {queue: self.leaving_since.get(queue, self._now()) for queue in leaving}

    def _claimed(self, request: pb2.ClaimRequest, response: pb2.ClaimResponse) -> None:
        for each, progress in zip(request.queues, response.queues, strict=False):
            if progress.HasField("error"):
                continue
            queue = (each.topic_id, each.queue)
            self.claims[queue] = SeenClaim(each.epoch, progress.resets, progress.offset, frozenset(progress.settled))
            self.void_since.pop(queue, None)
            if self._view.get(queue) != each.epoch:  # the member had learned so before the response
                self.void_since[queue] = self._now()

    def _refused(self, told: pb2.QueueAcknowledgement | pb2.MoveRequest, error: LedgerError) -> None:
        queue = (told.topic_id, told.queue)
        claim, by = self.claims.get(queue), (told.epoch, told.resets)
        if isinstance(error, ConsumerFencedError) and claim is not None and (claim.epoch, claim.resets) == by:
            self.void_since.setdefault(queue, self._now())


class OverheardChannel(SimChannel):
    """A channel that records the calls of a member and their responses in a `MemberEar`."""

    def __init__(
        self, life: Life, network: Network, client: int, node: int, server: Callable[[], Any], ear: MemberEar
    ) -> None:
        super().__init__(life, network, client, node, server)
        self._ear = ear
        # Requests by number of the call.
        self._asked: dict[int, Any] = {}

    def begin(self, call: UnaryCall | StreamCall, method: str, request: Any, metadata: Metadata = ()) -> int:
        self._ear.asked(request)
        number = super().begin(call, method, request, metadata)
        self._asked[number] = request
        return number

    def _answered(self, number: int, response: Any) -> None:
        call = self._calls.get(number)
        if call is not None and not call.has_ended:  # otherwise the client has given up and does not see the response
            self._ear.answered(self._asked[number], response)
        super()._answered(number, response)

    def forget(self, number: int) -> None:
        self._asked.pop(number, None)
        super().forget(number)

    def give_up(self, number: int) -> None:
        self._asked.pop(number, None)
        super().give_up(number)
