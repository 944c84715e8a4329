"""The parameters of a driver, apart from the core and the interfaces."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from raft.entry_times import REMEMBERED_WRITES
from raft.interfaces import Log
from store import Snapshot, Snapshots


@dataclass(frozen=True, slots=True)
class ReplicaStorage:
    """`ReplicaStorage` contains the open files of one replica."""

    log: Log
    # None: the log always begins with entry 1.
    snapshots: Snapshots | None = None
    # The state machine has applied all entries up to this snapshot, which lies in the log or at its start. None: the
    # state machine starts empty.
    resumed: Snapshot | None = None

    def __post_init__(self) -> None:
        assert self.resumed is None or self.snapshots is not None, "a state machine resumes only with snapshots"


@dataclass(frozen=True, slots=True)
class DriverRuntime:
    """`DriverRuntime` contains what the driver needs from its environment: the clock, the event loop and the state
    of the node."""

    # The time of day in milliseconds since 1970, for the append time of entries. It may leap.
    now_ms: Callable[[], int]
    # A clock in milliseconds that never leaps.
    steady_ms: Callable[[], float]
    # Calls a function later, in the same thread.
    soon: Callable[[Callable[[], None]], object]
    # Returns why nothing can be written now; empty if writing is possible. The driver asks before each proposal.
    stalled: Callable[[], str] = lambda: ""
    # Returns whether nothing ran on this node for longer than an election takes. The driver asks before each event.
    was_held_up: Callable[[], bool] = lambda: False
    # Of how many group writes and commits the driver remembers the times.
    remembered_writes: int = REMEMBERED_WRITES
