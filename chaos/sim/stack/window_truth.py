"""Compares the windows of the shared group on all nodes with a simple copy that follows the entries.

    first node that applies an entry    its windows are equal to the copy
    each other node, after this entry   its windows are equal to those of the first node

`shared_truth.py` judges what members get. This module judges the state from which leaders choose, also that of
followers and of nodes that began with a checkpoint or a snapshot. It also compares how long a member believes that its
leases last with what the leader believes at the same moment.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

import xxhash

from chaos.sim.stack.lease_twin import LeaseTwin
from chaos.sim.stack.shared_truth import GROUP
from ledger.batch import Batch
from ledger.broker.broker_replica import BrokerReplica
from ledger.client.shared.shared_message import MessageLease, SharedMessage
from ledger.retries import dead_letter_topic, place_before
from ledger.state import State, TopicQueueId
from ledger.state.lease_table import ChangeKind
from ledger.v1 import command_pb2
from store import EntryKind, Header

Fail = Callable[[str, str], None]
# What a member is told of the length of its lease, in seconds: more only by rounding.
ROUNDING_S = 0.01
# An error of arithmetic with numbers of seconds.
FLOAT_S = 1e-6
# Returns the replica of the leader of a shard, or None.
LeaderOf = Callable[[int], BrokerReplica | None]


class WindowTruth:
    """The windows of one run. `fail(invariant, what)` records a violation."""

    def __init__(self, fail: Fail, leader: LeaderOf = lambda shard: None, *, is_exact: bool = True) -> None:
        """`is_exact`: the steady clocks of all nodes are right."""
        self.counts = Counter[str]()
        self._fail = fail
        self._leader = leader
        self._is_exact = is_exact
        self._next_index: dict[int, int] = {}
        # By shard: the lease time of its state.
        self._now_ms: dict[int, int] = {}
        self._twins: dict[tuple[int, TopicQueueId], LeaseTwin] = {}
        # (shard, index) -> a digest of the windows of the first node after the entry.
        self._windows: dict[tuple[int, int], int] = {}
        # (shard, index of an entry) -> the length of its leases, in seconds.
        self._lengths_s: dict[tuple[int, int], float] = {}

    # -- members

    def received(self, messages: Iterable[SharedMessage[bytes]], now_s: float) -> None:
        """Compare how long a member is told that its leases still last. `now_s` is the time of the member's clock, in
        seconds."""
        for message in messages:
            length_s = self._lengths_s.get((message.lease.shard, message.lease.entry))
            left_s = message.ends_s - now_s
            if length_s is None or left_s > length_s + ROUNDING_S:
                told = f"{message.lease} lasts {left_s:.3f} s by the clock of its member, and was granted {length_s} s"
                self._fail("no lease is told to be longer than it is", told)

    def believed(self, messages: Iterable[SharedMessage[bytes]], now_s: float) -> None:
        """Compare how long a member whose clock is right believes that its leases last with the leader, in this
        moment. `now_s` is the time of the member's clock, in seconds."""
        for message in messages if self._is_exact else ():
            left_s, leader_left_s = message.ends_s - now_s, self._leader_left_s(message.lease)
            if leader_left_s is None:
                continue
            self.counts["shared_beliefs_compared"] += 1
            if left_s > max(0.0, leader_left_s) + FLOAT_S:
                told = f"{message.lease} lasts {left_s:.4f} s for its member, and {leader_left_s:.4f} s for the leader"
                self._fail("a member believes in its lease only while the leader does", told)

    def _leader_left_s(self, lease: MessageLease) -> float | None:
        """Return how long a lease lasts for the leader of its shard: 0 if another receive has the message. None: the
        shard has no leader now, or the message was settled or reset."""
        replica = self._leader(lease.shard)
        if replica is None or not replica.knows_the_end:
            return None
        window = replica.state.shared.leases.window(GROUP, TopicQueueId(lease.topic_id, lease.queue))
        slot = None if window is None else window.slot(lease.offset)
        if window is None or slot is None or slot["is_settled"] or window.resets != lease.resets:
            return None
        return (int(slot["free_ms"]) - replica.lease_time_ms) / 1000 if int(slot["lease"]) == lease.entry else 0.0

    # -- entries

    def applied(self, shard: int, header: Header, body: bytes, state: State) -> None:
        """Follow an entry that a node has applied. `state` is the state of this node."""
        is_new = header.index >= self._next_index.get(shard, 0)
        if is_new:
            self._next_index[shard] = header.index + 1
        if header.kind is EntryKind.BATCH:
            topic = state.topics.get(header.topic_id)
            if topic is None or topic.name != dead_letter_topic(GROUP):
                return
            if is_new:
                self._move_dead(shard, Batch(body))
        elif header.kind is EntryKind.COMMAND:
            command = command_pb2.Command.FromString(body)
            if not command.HasField("change_leases"):
                return
            if is_new:
                self._change_all(shard, header, command.change_leases, state)
        else:
            return
        self._compare(shard, header.index, state, is_new=is_new)

    def _move_dead(self, shard: int, batch: Batch) -> None:
        for headers in batch.headers():
            if (place := place_before(headers)) is not None:
                twin = self._twins.get((shard, TopicQueueId(*place[:2])))
                if twin is not None:
                    twin.settle(place[2])

    def _change_all(self, shard: int, header: Header, changes: command_pb2.ChangeLeases, state: State) -> None:
        self._now_ms[shard] = max(self._now_ms.get(shard, 0), changes.time_ms)
        for wanted in changes.queues:
            queue = TopicQueueId(wanted.topic_id, wanted.queue)
            if wanted.consumer_group != GROUP:
                continue
            end = state.next_offset(*queue)
            twin = self._twins.setdefault((shard, queue), LeaseTwin(min(wanted.start_offset, end)))
            for change in wanted.changes:
                self._change(shard, header, twin, change, end)

    def _change(self, shard: int, header: Header, twin: LeaseTwin, change: command_pb2.LeaseChange, end: int) -> None:
        offsets, now_ms = range(change.first, change.first + change.size), self._now_ms[shard]
        match change.kind:
            case ChangeKind.LEASE:
                if offsets.stop > end or not all(twin.can_lease(offset, now_ms) for offset in offsets):
                    return
                self._check_attempt(shard, header, change)
                self._lengths_s[shard, header.index] = max(
                    self._lengths_s.get((shard, header.index), 0.0), change.duration_ms / 1000
                )
                for offset in offsets:
                    twin.lease(offset, header.index, now_ms + change.duration_ms, change.receipt)
            case ChangeKind.SKIP:
                for offset in offsets if offsets.stop <= end else ():
                    twin.settle(offset)
            case _:
                for offset in offsets:
                    twin.change(change, offset, now_ms)
                if change.kind == ChangeKind.EXTEND:
                    key = (shard, change.lease)
                    self._lengths_s[key] = max(self._lengths_s.get(key, 0.0), change.duration_ms / 1000)

    def _check_attempt(self, shard: int, header: Header, change: command_pb2.LeaseChange) -> None:
        """Check that a receive gets no more messages while it has some from an earlier entry of this shard: a receive
        that is sent again gets the same messages, and no attempt is counted."""
        for (of, queue), twin in self._twins.items():
            if of != shard:
                continue
            held = [
                offset for offset, entry in twin.held_by(change.receipt, self._now_ms[shard]) if entry != header.index
            ]
            if held:
                told = f"entry {header.index} of shard {shard} leases {change.first}, and the receive has {held[:5]}"
                self._fail("a repeated receive gets the same", f"{told} of {queue}")

    # -- nodes

    def _compare(self, shard: int, index: int, state: State, *, is_new: bool) -> None:
        fingerprint = xxhash.xxh3_64()
        for queue in sorted(queue for of, queue in self._twins if of == shard):
            window = state.shared.leases.window(GROUP, queue)
            if is_new and (wrong := self._twins[shard, queue].differs(window)):
                self._fail("leases are what the log says", f"{queue} after entry {index} of shard {shard}: {wrong}")
            if window is not None:
                fingerprint.update(f"{queue} {window.begin} {window.end} {window.resets}".encode())
                fingerprint.update(window.slots.tobytes())
        self.counts["shared_windows_compared" if is_new else "shared_windows_compared_again"] += 1
        if self._windows.setdefault((shard, index), fingerprint.intdigest()) != fingerprint.intdigest():
            told = f"after entry {index} of shard {shard}, a node has other leases than the first node"
            self._fail("leases are the same on all nodes", told)
