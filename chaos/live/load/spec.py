"""Defines the specification that a run gives to a client process as a JSON file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, Self

# Many messages with delivery times are due at each multiple of this time, in ms since 1970.
SHARED_MS = 2_000
# No delivery time is farther ahead, in ms.
LONGEST_DELAY_MS = 4 * SHARED_MS

# Many transactions end shortly after each multiple of this time, in ms since 1970.
ENDS_MS = 2_000
# The producer group of the load's transactions.
PRODUCER_GROUP = "chaos"
# The settings of the nodes by which they ask for the outcomes of transactions soon.
CHECKS_SOON = {"transaction_check_after_s": 3.0, "transaction_check_every_s": 4.0}

# The topic of the messages for shared groups, and the groups, with their order.
JOBS = "jobs"
SHARED_GROUPS: dict[str, str | None] = {"chaos-shared": None, "chaos-by-key": "key"}

Role = Literal["producers", "consumers", "checkers", "sharers", "final"]


@dataclass(frozen=True, slots=True)
class ClientSpec:
    """Tells one client process what to do. In the history, the clients of this process have the numbers
    `first_process`, `first_process` + 1, and so on."""

    role: Role
    first_process: int
    bootstrap: tuple[str, ...]
    nodes: tuple[int, ...]
    topics: tuple[str, ...]
    queues: int
    # The rate of all producers of this process together, in messages a second.
    rate: float
    largest_bytes: int
    delivery_timeout_ms: int
    seed: int
    history: str
    # The process id of the run. The client process ends when that process no longer exists.
    run: int
    # The share of the messages that have delivery times.
    timed: float = 0.0
    # The share of the messages that are sent in transactions.
    transactions: float = 0.0
    # The share of the messages that shared groups consume.
    shared: float = 0.0
    # By topic, for each queue: the nodes with a replica of it. Of a topic that is missing, all nodes have all queues.
    holders: dict[str, Sequence[Sequence[int]]] = field(default_factory=dict)

    @property
    def plain_rate(self) -> float:
        """The rate of messages without delivery times and transactions, and not for shared groups, in messages a
        second."""
        return self.rate * (1 - self.timed - self.transactions - self.shared)

    @property
    def read_at_the_end(self) -> tuple[str, ...]:
        """The topics of the final readings."""
        return (*self.topics, JOBS) if self.shared else self.topics

    def save(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> Self:
        values: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        for name in ("bootstrap", "nodes", "topics"):
            values[name] = tuple(values[name])
        return cls(**values)
