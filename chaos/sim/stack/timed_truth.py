"""Computes from the committed entries what must become of each message with a delivery time, and compares it with what
the cluster does and with what clients are told.

    waits ──> delivered    once, in its queue, not before the clocks of a majority have passed its time
          ──> cancelled    never delivered; a client that was told True can rely on it
          ──> dropped      when its topic was deleted in its shard, and its time has come

The model follows the entries of each shard by itself. It asks no node, except for the wall clocks, which belong to the
world.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from chaos.sim.stack.node import START_MS, StackNode
from chaos.sim.stack.roster import Rosters
from chaos.sim.stack.workload_history import name_of
from ledger.batch import Batch, copied_identities, fired_column, timed_column
from ledger.timed import TimedHandle
from ledger.v1 import command_pb2
from raft.core.quorum import majority
from store import EntryKind, Header

Fail = Callable[[str, str], None]
# Between two messages of another node, a leader counts that node's clock on by its own, which may run 10 % fast.
CLOCK_ERROR_MS = 3_000


class TimedFate(Enum):
    WAITS = "waits"
    DELIVERED = "was delivered"
    CANCELLED = "was cancelled"
    DROPPED = "was dropped"


@dataclass(slots=True)
class TimedEntry:
    """One message with a delivery time, in ms since 1970."""

    name: bytes
    topic_id: int
    queue: int
    time_ms: int
    fate: TimedFate = TimedFate.WAITS
    # When it was delivered, in seconds of the run.
    at_s: float = 0.0


class TimedTruth:
    """The messages with delivery times of one run. `fail(invariant, what)` records a violation."""

    def __init__(
        self, fail: Fail, now_s: Callable[[], float], rosters: Rosters, nodes: Sequence[StackNode], *, is_exact: bool
    ) -> None:
        """`is_exact` is True if no clock runs fast or slow in this run."""
        self.counts = Counter[str]()
        # Each is called with the shard when entries that deliver messages are committed.
        self.on_delivery: list[Callable[[int], None]] = []
        self._fail = fail
        self._now_s = now_s
        self._rosters = rosters
        self._error_ms = 0 if is_exact else CLOCK_ERROR_MS
        # Node -> by how much its clock was ahead at most in this run.
        self._ahead = {node.node: 0 for node in nodes}
        self._nodes = nodes
        self._messages: dict[tuple[int, int], TimedEntry] = {}
        self._by_name: dict[bytes, TimedEntry] = {}
        # (topic id, queue, delivery time) -> the newest identity that was delivered.
        self._last: dict[tuple[int, int, int], int] = {}
        # By shard, the cursor, and the delivered messages that it does not cover yet: identity -> delivery time.
        self._cursors: dict[int, tuple[int, int, int]] = {}
        self._open: dict[int, dict[int, int]] = {}
        # Shard and topic id of topics that the shard has deleted.
        self._deleted: set[tuple[int, int]] = set()
        # Messages of sends that surely failed.
        self._failed: set[bytes] = set()

    # -- entries

    def committed(self, shard: int, header: Header, body: bytes) -> None:
        """Follow the next committed entry of a shard."""
        if header.kind is EntryKind.COMMAND:
            self._command(shard, body)
        elif header.kind is EntryKind.BATCH:
            self._batch(shard, header, body)

    def _batch(self, shard: int, header: Header, body: bytes) -> None:
        timed, fired = timed_column(body), fired_column(body)
        if fired is not None:
            values = Batch(body).values()
            keys = zip(fired.identities.tolist(), fired.times_ms.tolist(), values, strict=True)
            for identity, time_ms, value in keys:
                self._deliver(shard, header, identity, time_ms, name_of(value))
            for tell in self.on_delivery:
                tell(shard)
        elif timed is not None and copied_identities(body) is None:
            waiting = zip(timed.times_ms.tolist(), Batch(body).values(), strict=True)
            for identity, (time_ms, value) in enumerate(waiting, header.base_offset):
                self._wait(shard, identity, TimedEntry(name_of(value), timed.topic_id, timed.queue, time_ms))

    def _wait(self, shard: int, identity: int, entry: TimedEntry) -> None:
        if entry.name in self._by_name:
            self._fail("a timed message waits once", f"message {entry.name!r} was appended again as {identity}")
        if entry.name in self._failed:
            self._fail("failed is not committed", f"message {entry.name!r} surely failed, but waits as {identity}")
        self._messages[shard, identity] = self._by_name[entry.name] = entry
        self.counts["timed_waited"] += 1

    def _deliver(self, shard: int, header: Header, identity: int, time_ms: int, name: bytes) -> None:
        entry = self._messages.get((shard, identity))
        if entry is None:
            self._fail("delivered has waited", f"shard {shard} delivers {identity}, which never waited")
            return
        if entry.fate is not TimedFate.WAITS:
            self._fail("a timed message is delivered once", f"{entry} of shard {shard} is delivered by {header.index}")
        if (entry.topic_id, entry.queue, entry.time_ms, entry.name) != (header.topic_id, header.queue, time_ms, name):
            self._fail("delivered as it was sent", f"{entry} was delivered as {name!r} of {time_ms} in {header}")
        if (passed := self._passed_ms(shard)) < entry.time_ms:
            self._fail("never early", f"{entry} of shard {shard} came {entry.time_ms - passed} ms early")
        place = (entry.topic_id, entry.queue, entry.time_ms)
        if self._last.get(place, -1) >= identity:
            self._fail("equal times keep their order", f"{entry} came after identity {self._last[place]} of its time")
        self._last[place] = identity
        self._open.setdefault(shard, {})[identity] = time_ms
        entry.fate, entry.at_s = TimedFate.DELIVERED, self._now_s()
        self.counts["timed_delivered"] += 1

    def _command(self, shard: int, body: bytes) -> None:
        command = command_pb2.Command.FromString(body)
        match command.WhichOneof("command"):
            case "cancel_timed":
                for item in command.cancel_timed.items:
                    entry = self._messages.get((shard, item.identity))
                    if entry is not None and entry.fate is TimedFate.WAITS and entry.time_ms == item.delivery_ms:
                        entry.fate = TimedFate.CANCELLED
                        self.counts["timed_cancelled"] += 1
            case "settle_timed":
                self._settle(shard, command.settle_timed)
                for identity in command.settle_timed.settled:
                    if (entry := self._messages.get((shard, identity))) is not None and entry.fate is TimedFate.WAITS:
                        self._drop(shard, entry)
                self.counts["timed_turns"] += 1
            case "delete_topic":
                self._deleted.add((shard, command.delete_topic.topic_id))

    def _drop(self, shard: int, entry: TimedEntry) -> None:
        entry.fate = TimedFate.DROPPED
        if (shard, entry.topic_id) not in self._deleted:
            self._fail("dropped with its topic", f"{entry} of shard {shard} was dropped: its topic exists")
        self.counts["timed_dropped"] += 1

    def _settle(self, shard: int, turn: command_pb2.SettleTimed) -> None:
        """Follow the end of a turn. A turn whose cursor would go back is refused."""
        cursor = (turn.through_ms, turn.through_identity, turn.seen)
        before = self._cursors.get(shard, (0, 0, 0))
        if cursor[:2] < before[:2] or turn.seen < before[2]:
            self.counts["timed_turns_refused"] += 1
            return
        self._cursors[shard] = cursor
        waits = self._open.get(shard, {})
        self._open[shard] = {
            identity: time_ms
            for identity, time_ms in waits.items()
            if identity >= turn.seen or (time_ms, identity) > cursor[:2]
        }

    # -- clients

    def acknowledged(self, name: bytes, handle: str) -> None:
        """Compare a handle that a producer was given."""
        told = TimedHandle.parse(handle)
        entry = self._messages.get((told.shard, told.identity))
        if entry is None or (entry.name, entry.topic_id, entry.time_ms) != (name, told.topic_id, told.deliver_at_ms):
            self._fail("acknowledged is committed", f"message {name!r} was acknowledged as {told}, and that is {entry}")

    def failed(self, name: bytes) -> None:
        """Note that the send of this message surely failed."""
        self._failed.add(name)
        if name in self._by_name:
            self._fail("failed is not committed", f"message {name!r} surely failed, but {self._by_name[name]} waits")

    def cancelled(self, handle: str, *, is_cancelled: bool) -> None:
        """Compare what a client was told about its cancel."""
        told = TimedHandle.parse(handle)
        entry = self._messages.get((told.shard, told.identity))
        fate = entry.fate if entry is not None else None
        if is_cancelled and fate is not TimedFate.CANCELLED:
            self._fail("cancelled is cancelled", f"{entry} was told to be cancelled")
        # A message that is due can be in a turn that its leader could not finish.
        waits = entry is not None and fate is TimedFate.WAITS and entry.time_ms > self._passed_ms(told.shard)
        if waits and not is_cancelled:
            self._fail("not cancelled is over", f"{entry} still waits, and its cancel was answered with False")
        self.counts["timed_cancel_answers"] += 1

    # -- time

    def watch(self) -> None:
        """Note how far ahead the clocks are. Called when clocks may have leapt."""
        for node in self._nodes:
            self._ahead[node.node] = max(self._ahead[node.node], node.clock_ms)

    def next_due_s(self, shard: int) -> float | None:
        """Return the time of the run, in seconds, at which the next waiting message of the shard is due, or None."""
        now_ms = START_MS + self._now_s() * 1000
        times = [entry.time_ms for (of, _), entry in self._messages.items()
                 if of == shard and entry.fate is TimedFate.WAITS and entry.time_ms > now_ms]  # fmt: skip
        return (min(times) - START_MS) / 1000 if times else None

    def _passed_ms(self, shard: int) -> int:
        """Return the latest time that the clocks of a majority can have passed."""
        self.watch()
        voters = [node.node for node in self._rosters.of(shard).voters]
        need = majority(voters)
        ahead = sorted((self._ahead[node] for node in voters), reverse=True)[need - 1]
        # While a change of the voters is under way, other nodes may have counted.
        offset = max(ahead, sorted(self._ahead.values(), reverse=True)[need - 1])
        return START_MS + offset + int(self._now_s() * 1000) + self._error_ms

    # -- the end

    def unsettled(self) -> Iterator[str]:
        """Yield a phrase for each shard with messages that all clocks have passed and that still wait, and for each
        shard with a turn that has not ended, although it can end."""
        behind = min((node.clock_ms for node in self._nodes), default=0)
        now_ms, due = START_MS + behind + self._now_s() * 1000, Counter[int]()
        held_up = set()
        for (shard, identity), entry in self._messages.items():
            if entry.fate is TimedFate.WAITS and entry.time_ms < now_ms:
                due[shard] += 1
            elif entry.fate is TimedFate.WAITS and (entry.time_ms, identity) <= self._cursors.get(shard, (0, 0, 0))[:2]:
                held_up.add(shard)  # the clocks went back: a cursor that moves would settle this message
        for shard, count in sorted(due.items()):
            if count:
                yield f"shard {shard} has {count} messages that are due"
        for shard, delivered in sorted(self._open.items()):
            if delivered and shard not in held_up:
                yield f"shard {shard} has {len(delivered)} delivered messages that no turn has settled"
