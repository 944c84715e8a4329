"""Computes from the applied entries who has which message of the shared group, and compares it with what members were
told.

The model knows each message by itself: it has no windows and no arrays. It follows the entries of each shard in their
order, once, when the first node applies them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from chaos.sim.requests.request_truth import REPLIES, REQUESTS
from chaos.sim.stack.shared_filter import is_wanted
from chaos.sim.stack.workload_history import COPY, DOOMED
from ledger.batch import Batch
from ledger.client.shared.shared_message import MessageLease
from ledger.retries import dead_letter_topic, place_before
from ledger.state import State
from ledger.v1 import command_pb2
from store import EntryKind, Header

GROUP = "sharers"
MAX_ATTEMPTS = 3
Fail = Callable[[str, str], None]
# (shard, topic id, queue)
QueueKey = tuple[int, int, int]
# The state counts whole milliseconds.
ERROR_S = 0.002
# In runs whose steady clocks are too fast or too slow, a lease may end early by this share of its length.
ERROR_SHARE = 0.1


@dataclass(slots=True)
class SharedMessageFate:
    """What is known of one message."""

    key: bytes | None
    # Whether it matches the filter of the group.
    is_wanted: bool = True
    # The lease time from which on it may be leased.
    free_ms: int = 0
    lease: int = 0
    attempts: int = 0
    # How it ended: "acknowledged", "dead", "skipped", or "unmatched" by the filter. Empty: it is open.
    end: str = ""
    # Until when nobody may get it, in simulated seconds.
    until_s: float = 0.0
    # The entries that leased it.
    leases: set[int] = field(default_factory=set)


class SharedTruth:
    """The messages of one run. `fail(invariant, what)` records a violation, and `time()` is the simulated time in
    seconds. `first_offset(topic, queue)` is the first offset that the log still has."""

    def __init__(
        self,
        fail: Fail,
        time: Callable[[], float],
        first_offset: Callable[[str, int], int],
        *,
        by_key: bool,
        filters: bool = False,
        is_exact: bool = True,
    ) -> None:
        """`filters`: the group has the filter of shared_filter.py. `is_exact`: the steady clocks of all nodes are
        right."""
        self.by_key = by_key
        self.filters = filters
        self._error_share = 0.0 if is_exact else ERROR_SHARE
        self.counts = Counter[str]()
        # These functions are called with the shard when a lease counts.
        self.on_lease: list[Callable[[int], None]] = []
        self._fail = fail
        self._time = time
        self._first_offset = first_offset
        self._next_index: dict[int, int] = {}
        # By shard: the lease time of its state.
        self._lease_ms: dict[int, int] = {}
        # (shard, term, index) of an entry that is not applied -> when a leader appended it, in simulated seconds.
        self._appended_s: dict[tuple[int, int, int], float] = {}
        # The simulated time at which a leader appended the entry that is applied now.
        self._made_s = 0.0
        self._queues: dict[QueueKey, list[SharedMessageFate]] = {}
        self._names: dict[int, str] = {}
        # Queues in which the group has begun.
        self._begun: dict[QueueKey, None] = {}

    # -- members

    def received(self, leases: Iterable[MessageLease]) -> None:
        """Compare messages that a member got."""
        for lease in leases:
            fate = self._fate((lease.shard, lease.topic_id, lease.queue), lease.offset)
            if fate is None or lease.entry not in fate.leases:
                self._fail("a lease that was told is in the log", f"{lease} was told, and its message is {fate}")
            self.counts["shared_received"] += 1

    def acknowledged(self, leases: Iterable[MessageLease]) -> None:
        """Compare messages whose acknowledgement was told as a success."""
        for lease in leases:
            fate = self._fate((lease.shard, lease.topic_id, lease.queue), lease.offset)
            if fate is None or fate.end != "acknowledged":
                self._fail("acknowledged is settled", f"{lease} was acknowledged, and its message is {fate}")
            self.counts["shared_acknowledged"] += 1

    # -- entries

    def appended(self, shard: int, headers: Sequence[Header]) -> None:
        """Note when a leader appends commands. Changes of leases are made in the same moment."""
        for header in headers:
            if header.kind is EntryKind.COMMAND:
                self._appended_s[shard, header.term, header.index] = self._time()

    def applied(self, shard: int, header: Header, body: bytes, state: State) -> None:
        """Follow the next entry of a shard. `state` is the state of the node that has applied it."""
        if header.index < self._next_index.get(shard, 0):
            return
        self._next_index[shard] = header.index + 1
        if header.kind is EntryKind.BATCH:
            topic = state.topics.get(header.topic_id)
            if topic is not None:
                self._names[header.topic_id] = topic.name
                self._batch(shard, header, Batch(body), topic.name)
        elif header.kind is EntryKind.COMMAND:
            self._made_s = self._appended_s.pop((shard, header.term, header.index), self._time())
            command = command_pb2.Command.FromString(body)
            if command.HasField("delete_topic"):
                self._forget(shard, command.delete_topic.topic_id)
            if command.HasField("change_leases"):
                self._lease_ms[shard] = max(self._lease_ms.get(shard, 0), command.change_leases.time_ms)
                for queue in command.change_leases.queues:
                    self._change(shard, header, queue)

    def _forget(self, shard: int, topic_id: int) -> None:
        """Forget the messages of a deleted topic."""
        for place in [place for place in self._queues if place[:2] == (shard, topic_id)]:
            del self._queues[place]

    def _batch(self, shard: int, header: Header, batch: Batch, name: str) -> None:
        if name == dead_letter_topic(GROUP):
            place = place_before(batch.headers()[0])
            fate = None if place is None else self._fate((shard, *place[:2]), place[2])
            if fate is None or fate.end or fate.attempts < MAX_ATTEMPTS:
                self._fail("what is dead was open and tried", f"{header} moves {place}, which is {fate}")
            else:
                self._end(fate, "dead")
        if not name.startswith(("%", DOOMED, COPY)) and name not in (REQUESTS, REPLIES):
            queue = self._queues.setdefault((shard, header.topic_id, header.queue), [])
            queue += [
                SharedMessageFate(key, not self.filters or is_wanted(tag, look_up_keys))
                for key, tag, look_up_keys in zip(batch.keys(), batch.tags(), batch.look_up_keys(), strict=True)
            ]

    def _change(self, shard: int, header: Header, wanted: command_pb2.QueueLeases) -> None:
        if wanted.consumer_group != GROUP:
            return
        place = (shard, wanted.topic_id, wanted.queue)
        queue = self._queues.setdefault(place, [])
        if place not in self._begun:
            self._begun[place] = None
            for fate in queue[: wanted.start_offset]:
                self._end(fate, "skipped")
        for change in wanted.changes:
            some = queue[change.first : change.first + change.size]
            match change.kind:
                case 5:
                    self._lease(place, header, change, some)
                case 6:
                    self._skip(place, change, some)
                case _:
                    self._of_holder(self._lease_ms[shard], change, some)

    def _lease(
        self, place: QueueKey, header: Header, change: command_pb2.LeaseChange, some: list[SharedMessageFate]
    ) -> None:
        now_ms = self._lease_ms[place[0]]
        if len(some) < change.size or any(fate.end or fate.free_ms > now_ms for fate in some):
            self.counts["shared_leases_refused"] += 1
            return
        for offset, fate in enumerate(some, change.first):
            if self._made_s < fate.until_s:
                told = f"message {offset} of {place} is leased {fate.until_s - self._made_s:.3f} s early"
                self._fail("no message twice within its lease", told)
            if not fate.is_wanted:
                self._fail("only what matches is handed out", f"message {offset} of {place} does not match the filter")
            if self.by_key and fate.key is not None and self._is_behind(place, offset, fate.key):
                self._fail("one key is one after another", f"message {offset} of {place} was leased before another")
            fate.free_ms, fate.lease = now_ms + change.duration_ms, header.index
            fate.until_s = self._until(change)
            fate.attempts += 1
            fate.leases.add(header.index)
        self.counts["shared_leases"] += len(some)
        for call in self.on_lease:
            call(place[0])

    def _is_behind(self, place: QueueKey, offset: int, key: bytes) -> bool:
        """Return True if an earlier message with this key is open."""
        return any(not fate.end and fate.is_wanted and fate.key == key for fate in self._queues[place][:offset])

    def _skip(self, place: QueueKey, change: command_pb2.LeaseChange, some: list[SharedMessageFate]) -> None:
        first = self._first_offset(self._names.get(place[1], ""), place[2])
        kept = some[max(0, first - change.first) :]
        if any(fate.is_wanted for fate in kept) or change.first + change.size > max(first, change.first + len(some)):
            self._fail("nothing is passed over", f"{place} has messages from {first} on, and {change} skips some")
        for fate in some:
            if not fate.end:
                self._end(fate, "skipped" if fate.is_wanted else "unmatched")

    def _of_holder(self, now_ms: int, change: command_pb2.LeaseChange, some: list[SharedMessageFate]) -> None:
        for fate in some:
            if fate.end or not fate.lease or fate.lease != change.lease:
                continue
            match change.kind:
                case 1:
                    self._end(fate, "acknowledged")
                case 2:
                    fate.free_ms, fate.lease, fate.until_s = now_ms + change.duration_ms, 0, self._until(change)
                case 3:
                    fate.free_ms, fate.lease, fate.until_s = now_ms, 0, 0.0
                    fate.attempts -= 1
                case 4:
                    fate.free_ms = now_ms + change.duration_ms
                    fate.until_s = self._until(change)

    def _until(self, change: command_pb2.LeaseChange) -> float:
        """Return the simulated time in seconds before which nobody may get the messages. It counts from the entry."""
        return self._made_s + change.duration_ms / 1000 * (1 - self._error_share) - ERROR_S

    def _end(self, fate: SharedMessageFate, end: str) -> None:
        fate.end, fate.lease = end, 0
        self.counts[f"shared_{end}_entries"] += 1

    def _fate(self, place: QueueKey, offset: int) -> SharedMessageFate | None:
        queue = self._queues.get(place, [])
        return queue[offset] if 0 <= offset < len(queue) else None

    # -- the end

    def unsettled(self) -> Iterator[str]:
        """Yield a phrase for each queue with messages that are open."""
        for place, queue in sorted(self._queues.items()):
            first = self._first_offset(self._names.get(place[1], ""), place[2])
            open_messages = sum(not fate.end for fate in queue[first:])
            if open_messages:
                yield f"{open_messages} messages of {place} are open for the shared group"
