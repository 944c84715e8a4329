"""What can be wrong, and how it is told.

Each kind of anomaly has one definition, here in a sentence, and one function that finds it; of what it finds, all is
counted and the first few are shown, with the lines of the history that prove them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from chaos.live.checker.columns import Flags, Numbers

# Of each kind, in a report.
SHOWN = 20

# In what clients were told.
KINDS = {
    "lost": "acknowledged, or read by somebody, and not in its queue at the end",
    "duplicate": "one message at two offsets",
    "phantom": "read, and never sent",
    "aborted read": "read, though its producer was told that it surely is not there",
    "payload mixed up": "read with other bytes than it was sent with",
    "inconsistent offset": "two messages, or two payloads, at one offset",
    "reordered": "in its queue before what its producer had sent to that queue earlier",
    "internal poll skip": "one poll passed over offsets",
    "internal non-monotonic poll": "one poll went back, or repeated an offset",
    "external poll skip": "a consumer passed over offsets between two polls, though nobody told it to",
    "external non-monotonic poll": "a consumer went back between two polls, though nobody told it to",
    "non-monotonic send": "a producer's later message for a queue of its choice got a lower offset than an earlier one",
    "real-time order": "sent after a higher offset of its queue was known to somebody",
    "divergence": "at the end, two nodes do not hold the same queue",
    "offset regression": "the progress of a consumer group fell",
}


# In what nodes said of themselves.
CLUSTER_KINDS = {
    "two leaders": "two nodes said that they led one shard in one term",
    "no recovery": "all was healed, and the nodes did not come to the same log",
}


@dataclass(frozen=True, slots=True)
class Anomaly:
    """One of them: a sentence on what was seen where, and the numbers of the operations that show it."""

    kind: str
    sentence: str
    operations: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Finding:
    """All of a kind: how many, and the first of them."""

    kind: str
    count: int
    shown: tuple[Anomaly, ...]


def finding(kind: str, rows: Numbers, tell: Callable[[int], tuple[str, Iterable[int]]]) -> Finding:
    """`rows` are those that are wrong; `tell(row)` says what is, and which operations show it."""
    assert kind in KINDS
    shown = []
    for row in rows[:SHOWN].tolist():
        sentence, operations = tell(row)
        shown.append(Anomaly(kind, sentence, tuple(dict.fromkeys(operations))))
    return Finding(kind, len(rows), tuple(shown))


def where(flags: Flags) -> Numbers:
    """The rows whose flag is set."""
    return np.flatnonzero(flags).astype(np.int64)


def same_as_before(*columns: Numbers) -> Flags:
    """For each row but the first, whether it has the same values in all columns as the row before."""
    same = np.ones(max(len(columns[0]) - 1, 0), np.bool_)
    for column in columns:
        same &= column[1:] == column[:-1]
    return same


def is_in(values: Numbers, among: Numbers) -> Flags:
    """For each value, whether it is among the others."""
    return np.isin(values, among)
