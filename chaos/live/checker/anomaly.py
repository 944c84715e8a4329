"""The kinds of anomalies, and how findings are reported.

Each kind of anomaly has a definition of one sentence in this module, and one function that finds it. The report counts
all anomalies of a kind and shows the first few, with the lines of the history that prove them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from chaos.live.checker.cells import Flags, Numbers

# The largest number of anomalies that a report shows for each kind.
SHOWN = 20

# Anomalies in the histories of clients.
KINDS = {
    "lost": "a message was acknowledged or read, and is not in its queue at the end",
    "duplicate": "one message has two offsets",
    "phantom": "a message was read that no producer sent",
    "aborted read": "a message was read whose producer got the answer that it was not appended",
    "payload mixed up": "a message was read with other bytes than it was sent with",
    "inconsistent offset": "one offset has two messages, or two payloads",
    "reordered": "a message is in its queue before an earlier message of the same producer",
    "internal poll skip": "one poll skipped offsets",
    "internal non-monotonic poll": "one poll went back, or repeated an offset",
    "external poll skip": "a consumer skipped offsets between two polls without a seek",
    "external non-monotonic poll": "a consumer went back between two polls without a seek",
    "non-monotonic send": "a producer chose the queue, and a later message got a lower offset than an earlier message",
    "real-time order": "a message got a lower offset than one that a client knew before the send began",
    "divergence": "at the end, two nodes do not have the same queue",
    "offset regression": "the offset of a consumer group decreased",
    "early delivery": "a message was delivered before its delivery time",
    "repeated delivery": "a message with a delivery time was delivered twice",
    "cancelled delivery": "a message was delivered although a client was told that it was cancelled",
    "lost delivery": "a message with a delivery time was acknowledged, was not cancelled, and was never delivered",
    "altered delivery": "a message was delivered with another delivery time, or other bytes, than it was sent with",
    "phantom delivery": "a message was delivered that no producer sent with a delivery time for this queue",
    "aborted delivery": "a message was delivered whose producer got the answer that it does not wait",
    "reordered delivery": "of two messages of a queue with equal delivery times, the later one was delivered first",
    "lost commit": "a transaction was committed, and a message of it is not in its queue at the end",
    "torn commit": "some messages of a transaction are in their queues, and others are not",
    "repeated commit": "a message of a transaction has two offsets",
    "visible rollback": "a message was read although its transaction was rolled back",
    "early commit": "a message was read before its producer had decided to commit the transaction",
    "phantom commit": "a message of a transaction was read that no producer sent in this transaction for this queue",
    "two outcomes": "a transaction was both committed and rolled back, or ended as nobody had decided",
    "leased twice": "a shared group handed a message out while another lease of it had not ended",
    "consumed twice": "a shared group handed a message out after its acknowledgement had counted",
    "key order": "a shared group handed a message out before an earlier message with its key was acknowledged",
    "unsettled": "a message of a queue of a shared group was never acknowledged",
}

# Anomalies in the reports of the nodes.
CLUSTER_KINDS = {
    "two leaders": "two nodes reported that they led the same shard in the same term",
    "no recovery": "the nodes did not reach the same log after all faults were healed",
}


@dataclass(frozen=True, slots=True)
class Anomaly:
    """One anomaly has a sentence that describes the wrong observation, and the numbers of the operations that prove
    the anomaly."""

    kind: str
    sentence: str
    operations: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding has the kind of an anomaly, the number of all anomalies of this kind, and the first of them."""

    kind: str
    count: int
    shown: tuple[Anomaly, ...]


def finding(kind: str, rows: Numbers, tell: Callable[[int], tuple[str, Iterable[int]]]) -> Finding:
    """Make a finding. `rows` has the numbers of the rows that show the anomaly. `tell(row)` returns the sentence about
    a row and the operations that prove the anomaly.
    """
    assert kind in KINDS
    shown = []
    for row in rows[:SHOWN].tolist():
        sentence, operations = tell(row)
        shown.append(Anomaly(kind, sentence, tuple(dict.fromkeys(operations))))
    return Finding(kind, len(rows), tuple(shown))


def where(flags: Flags) -> Numbers:
    """Return the numbers of the rows whose flag is set."""
    return np.flatnonzero(flags).astype(np.int64)


def same_as_before(*columns: Numbers) -> Flags:
    """Return, for each row except the first, whether all columns have the same values as in the row before."""
    same = np.ones(max(len(columns[0]) - 1, 0), np.bool_)
    for column in columns:
        same &= column[1:] == column[:-1]
    return same


def is_in(values: Numbers, among: Numbers) -> Flags:
    """Return, for each value, whether `among` contains it."""
    return np.isin(values, among)
