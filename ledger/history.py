"""The history file: the operations of clients and their results, as JSON lines.

The checker of chaos runs and the validation job compare histories with the logs of a cluster.

    {"op":"open","process":7,"producer":"9f3c..","start":1}                                       a producer begins
    {"op":"send","process":7,"outcome":"ok","topic":"t","queue":0,"bound":true,"offset":41,"producer":"9f3c..","epoch":0,
     "sequence":12,"crcs":[3405691582],"sizes":[128],"error":null,"start":2,"end":3}
    {"op":"poll","process":8,"topic":"t","queue":0,"offsets":[41],"producers":["9f3c.."],"epochs":[0],"sequences":[12],
     "crcs":[3405691582],"node":0,"final":false,"start":4,"end":5}
    {"op":"assign","process":8,"topic":"t","queue":0,"offset":41,"start":4}                       a consumer continues
    {"op":"progress","process":8,"group":"g","topic":"t","queue":0,"offset":42,"start":6,"end":7} a group's offset
    {"op":"schedule","process":7,"outcome":"ok","topic":"t","queue":0,"shard":1,"waits_in":1,"identity":9,
     "producer":"77aa..","epoch":0,"sequence":3,"times_ms":[1800000000000],"crcs":[3405691582],"sizes":[128],
     "error":null,"clock_ms":1799999999000,"start":2,"end":3}                                     messages that wait
    {"op":"cancel","process":7,"outcome":"ok","shard":1,"identity":9,"time_ms":1800000000000,"error":null,"start":4,"end":5}
    {"op":"delivery","process":8,"topic":"t","queue":0,"offsets":[42],"identities":[10],"times_ms":[1800000000000],
     "appended_ms":[1800000000020],"crcs":[47],"start":4,"end":5}           messages of a poll that had waited
    {"op":"prepare","process":7,"outcome":"ok","transaction":"5be0..","topic":"t","queue":0,"shard":1,"number":6,
     "crc":3405691582,"size":128,"error":null,"start":2,"end":3}                                 a transaction's message
    {"op":"decide","process":7,"transaction":"5be0..","commit":true,"start":4}                    before it is told
    {"op":"end","process":7,"outcome":"ok","transaction":"5be0..","commit":true,"error":null,"start":4,"end":5}
    {"op":"reveal","process":8,"topic":"t","queue":0,"offsets":[43],"shards":[1],"numbers":[6],"halves":[6],
     "crcs":[3405691582],"start":4,"end":5}                                 messages of a poll that a commit put there
    {"op":"receive","process":10,"group":"s","by_key":false,"topic":"t","queue":0,"offsets":[43],"keys":[0],
     "lease_ms":3000,"start":4,"end":5}                                     messages that a shared group leased
    {"op":"change","process":10,"outcome":"ok","what":"ack","group":"s","topic":"t","queue":0,"offset":43,"ms":0,
     "error":null,"start":6,"end":7}                                        the end of a lease, or a longer one
    {"op":"admin","process":9,"what":"create topic t","outcome":"ok","error":null,"start":0,"end":1}
    {"op":"close","process":7,"producer":"9f3c..","start":9}                                      a producer stopped

A message is identified by the batch header that its producer wrote: producer, epoch and sequence within its queue. A
send is `ok` (committed at these offsets), `fail` (not in any log) or `unknown` (for example after a timeout). The
messages of one send have consecutive sequences and offsets.

A message with a delivery time waits in the topic `%TIMED`, and is identified by the shard and its identity, the offset
at which it waits. The batch that delivers the message names its identity.

A message of a transaction is identified by its transaction, the target queue and its CRC. The program gives each
transaction a name. The cluster names it by its decision shard and its number there. The batch that a commit puts into
the queue names these and the half batch in which the message waited. A program writes these lines itself.

Times are nanoseconds of CLOCK_MONOTONIC, so the histories of all processes of one machine use the same clock. A process
that was killed leaves no `close` line, and no line for operations that had not ended.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, TextIO, get_args

from ledger.errors import LedgerError
from ledger.history_fields import wrong_value


class HistoryError(LedgerError):
    """A history file cannot be read or written. The message names the file and, if a line is invalid, the line."""


class OperationOutcome(StrEnum):
    """The outcome of a send or of an administrator's request."""

    OK = "ok"
    FAIL = "fail"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Open:
    """The line of a history that says that a producer has started. `producer` is the producer's id, 16 hexadecimal
    digits."""

    op: ClassVar[str] = "open"
    process: int
    producer: str
    start: int


@dataclass(frozen=True, slots=True)
class Send:
    """Messages that the program gave to the producer in one call, for one queue.

    `offset` is the offset of the first message; it is None if the outcome is not ok. `producer` is the producer's id,
    and `sequence` is the sequence of the first message. If the messages got no sequence numbers, `producer` is empty
    and `sequence` is -1. Messages without sequence numbers never left the process, or with the outcome ok, they were
    not stored again because of their message ids, and `queue` and `offset` are those of the earlier messages. `bound`
    is True if the key or the program chose the queue, so that the order within the queue is guaranteed.
    """

    op: ClassVar[str] = "send"
    process: int
    outcome: OperationOutcome
    topic: str
    queue: int
    bound: bool
    offset: int | None
    producer: str
    epoch: int
    sequence: int
    crcs: list[int]
    sizes: list[int]
    error: str | None
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Poll:
    """Messages of one queue that a consumer received in one call, in the order of the queue.

    `node` is the node from which the consumer reads; 0 means that the consumer reads from leaders. `final` is True if
    the read belongs to the last phase of the run, in which every queue is read from every node to its end.
    """

    op: ClassVar[str] = "poll"
    process: int
    topic: str
    queue: int
    offsets: list[int]
    producers: list[str]
    epochs: list[int]
    sequences: list[int]
    crcs: list[int]
    node: int
    final: bool
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Schedule:
    """Messages with delivery times that the program gave to the producer in one call, for one queue.

    `queue` is the queue to which the messages will be delivered, and `waits_in` is the queue of `%TIMED`, in the shard
    `shard`, where they wait. `identity` is the identity of the first message. `shard` is -1 and `identity` is None if
    the outcome is not ok. `producer`, `epoch` and `sequence` are those of the batch in `%TIMED`; if the messages got no
    sequence numbers, or were not stored again because of their message ids, `producer` is empty, and `sequence` and
    `waits_in` are -1. `times_ms` has the delivery times, in
    ms since 1970. `clock_ms` is the producer's wall clock at `start`, in ms since 1970.
    """

    op: ClassVar[str] = "schedule"
    process: int
    outcome: OperationOutcome
    topic: str
    queue: int
    shard: int
    waits_in: int
    identity: int | None
    producer: str
    epoch: int
    sequence: int
    times_ms: list[int]
    crcs: list[int]
    sizes: list[int]
    error: str | None
    clock_ms: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Cancel:
    """A request to cancel one waiting message. The outcome is ok if the message was cancelled, and fail if the answer
    was that the message does not wait. Then an earlier attempt of the same request may have cancelled it. `time_ms` is
    its delivery time, in ms since 1970."""

    op: ClassVar[str] = "cancel"
    process: int
    outcome: OperationOutcome
    shard: int
    identity: int
    time_ms: int
    error: str | None
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Delivery:
    """Messages of one poll that had waited for their delivery times. The poll itself is another line, with the same
    process, queue, `start` and `end`. `times_ms` has the delivery times, and `appended_ms` the times at which a leader
    appended the deliveries, both in ms since 1970."""

    op: ClassVar[str] = "delivery"
    process: int
    topic: str
    queue: int
    offsets: list[int]
    identities: list[int]
    times_ms: list[int]
    appended_ms: list[int]
    crcs: list[int]
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Prepare:
    """A message that the program sent in a transaction, which the program names `transaction`. `shard` is the decision
    shard, and `number` the number of the transaction there. `shard` is -1 and `number` is None if the outcome is not
    ok."""

    op: ClassVar[str] = "prepare"
    process: int
    outcome: OperationOutcome
    transaction: str
    topic: str
    queue: int
    shard: int
    number: int | None
    crc: int
    size: int
    error: str | None
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Decide:
    """The program has decided how a transaction ends. The line is written before the cluster is told, by the producer
    or by the answer to a check."""

    op: ClassVar[str] = "decide"
    process: int
    transaction: str
    commit: bool
    start: int


@dataclass(frozen=True, slots=True)
class EndRequest:
    """A request of a producer to end a transaction, with its answer. The outcome is fail if the transaction has ended
    otherwise."""

    op: ClassVar[str] = "end"
    process: int
    outcome: OperationOutcome
    transaction: str
    commit: bool
    error: str | None
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Reveal:
    """Messages of one poll that commits put into their queue. The poll itself is another line, with the same process,
    queue, `start` and `end`. A message belongs to the transaction `numbers` of the decision shard `shards`, and waited
    in the half batch `halves` of the shard of its queue."""

    op: ClassVar[str] = "reveal"
    process: int
    topic: str
    queue: int
    offsets: list[int]
    shards: list[int]
    numbers: list[int]
    halves: list[int]
    crcs: list[int]
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class SharedReceive:
    """Messages of one queue that a member of a shared group received. They were leased for `lease_ms`, not before
    `start`. `keys` has the CRCs of their keys, and 0 for a message without a key. `by_key`: the group has order by
    key."""

    op: ClassVar[str] = "receive"
    process: int
    group: str
    by_key: bool
    topic: str
    queue: int
    offsets: list[int]
    keys: list[int]
    lease_ms: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class LeaseRequest:
    """A request of a member about one message: `what` is ack, nack or extend. `ms` is the delay of a nack, and the new
    lease of an extend. The outcome is ok if the change counted, and fail if it did not."""

    op: ClassVar[str] = "change"
    process: int
    outcome: OperationOutcome
    what: str
    group: str
    topic: str
    queue: int
    offset: int
    ms: int
    error: str | None
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Assign:
    """A consumer continues a queue at `offset`, because it was assigned the queue or called seek()."""

    op: ClassVar[str] = "assign"
    process: int
    topic: str
    queue: int
    offset: int
    start: int


@dataclass(frozen=True, slots=True)
class ProgressReport:
    """The offset of a consumer group in a queue, as the cluster reported it."""

    op: ClassVar[str] = "progress"
    process: int
    group: str
    topic: str
    queue: int
    offset: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class AdminRequest:
    """A request to the cluster that is not a send, a poll or an acknowledgement; `what` describes it in words."""

    op: ClassVar[str] = "admin"
    process: int
    what: str
    outcome: OperationOutcome
    error: str | None
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Close:
    """A producer stopped in an orderly way: the history has the outcome of every send."""

    op: ClassVar[str] = "close"
    process: int
    producer: str
    start: int


Operation = (
    Open
    | Send
    | Poll
    | Schedule
    | Cancel
    | Delivery
    | Prepare
    | Decide
    | EndRequest
    | Reveal
    | SharedReceive
    | LeaseRequest
    | Assign
    | ProgressReport
    | AdminRequest
    | Close
)
_KINDS: Mapping[str, type[Any]] = {kind.op: kind for kind in get_args(Operation)}
_NAMES = {kind: dict.fromkeys(field.name for field in fields(kind)) for kind in _KINDS.values()}
_PIECE = 1 << 20
_OUTCOMES = {outcome.value: outcome for outcome in OperationOutcome}


def now_ns() -> int:
    """Return the time of a history line: nanoseconds of CLOCK_MONOTONIC."""
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


class HistoryWriter:
    """Appends operations to a file.

    When `write` returns, the operating system has the line, so the line survives a kill of the process. The constructor
    and `write` raise HistoryError if the file cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._file: TextIO = path.open("a", encoding="utf-8", buffering=1)
        except OSError as error:
            raise HistoryError(f"{path}: cannot be written: {error.strerror}") from error

    def write(self, operation: Operation) -> None:
        try:
            self._file.write(to_line(operation))
        except OSError as error:
            raise HistoryError(f"{self._path}: cannot be written: {error.strerror}") from error

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> HistoryWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def to_line(operation: Operation) -> str:
    """Return the operation as one line of JSON with a newline at its end."""
    values = {"op": operation.op, **{name: getattr(operation, name) for name in _NAMES[type(operation)]}}
    return json.dumps(values, separators=(",", ":")) + "\n"


def read_history(path: Path, begin: int = 0, end: int | None = None) -> Iterator[Operation]:
    """Yield the operations of those lines of a file that begin in the bytes [begin, end), in the order of the file.

    A last line without a newline is left out: the process was killed while it wrote this line. Raises HistoryError for
    any other invalid line; the message names the file and the number of the line, counted from `begin`.
    """
    try:
        with path.open("rb") as file:
            if begin:
                file.seek(begin - 1)
                file.readline()  # the rest of a line that begins before `begin`
            position = file.tell()
            for number, line in enumerate(file, 1):
                if end is not None and position >= end:
                    return
                position += len(line)
                if line.endswith(b"\n"):
                    yield _from_line(line.decode("utf-8"), path, number)
    except (OSError, UnicodeDecodeError) as error:
        raise HistoryError(f"{path}: cannot be read: {error}") from error


def ends_in_half_a_line(path: Path) -> bool:
    """Return whether the last line of the file has no newline at its end. `read_history` leaves such a line out."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - 1))
            return file.read(1) not in (b"", b"\n")
    except OSError:
        return False


def has_a_line(path: Path) -> bool:
    """Return whether the file has at least one whole line. Raises HistoryError if the file cannot be read."""
    try:
        with path.open("rb") as file:
            return any(b"\n" in piece for piece in iter(lambda: file.read(_PIECE), b""))
    except OSError as error:
        raise HistoryError(f"{path}: cannot be read: {error}") from error


def _from_line(line: str, path: Path, number: int) -> Operation:
    try:
        values = json.loads(line)
        kind = _KINDS[values.pop("op")]
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
        raise HistoryError(f'{path}:{number}: is no operation: it has no "op" of {", ".join(_KINDS)}') from error
    if values.keys() != _NAMES[kind].keys():
        strange = ", ".join(sorted(values.keys() ^ _NAMES[kind].keys()))
        raise HistoryError(f"{path}:{number}: {kind.op}: missing, or not known: {strange}")
    if "outcome" in values:
        try:
            values["outcome"] = _OUTCOMES[values["outcome"]]
        except (KeyError, TypeError) as error:
            raise HistoryError(f"{path}:{number}: outcome is {values['outcome']!r}: ok, fail or unknown") from error
    if wrong := wrong_value(kind.op, values):
        raise HistoryError(f"{path}:{number}: {kind.op}: {wrong}")
    operation: Operation = kind(**values)
    return operation
