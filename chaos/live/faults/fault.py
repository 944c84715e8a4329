"""What a fault is: something that is done to nodes, seen to have happened, and undone.

A fault answers with evidence, in words, of what really happened: a pid that died by SIGKILL, packets that were
dropped, calls that failed. One that has none raises NoEvidenceError, and the run that relied on it is void.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Flag, StrEnum, auto
from random import Random
from typing import Protocol

from chaos.live.hosts.environment import Environment


class NoEvidenceError(Exception):
    """The fault was to happen, and nothing shows that it did."""


class Target(StrEnum):
    """Whom it hits; who that is, is decided when it strikes."""

    ONE = "one"
    LEADER = "leader"
    MINORITY = "minority"
    MAJORITY = "majority"
    ALL = "all"


class Needs(Flag):
    """What a run must have been made with. Under `async` flush a cluster promises nothing of a power cut that hits a
    majority: there is no fault in what is lost then."""

    NOTHING = 0
    DISKS = auto()
    CLOCKS = auto()
    STRACE = auto()
    SYNC_FLUSH = auto()


class Members(Protocol):
    """The cluster as its members see it, and what an operator can ask of it."""

    def leader(self) -> int:
        """The node that leads (shard 0); 0 while none does."""

    def transfer(self, node: int) -> bool:
        """Whether leadership was handed over to that node."""

    def begin_transfer(self, node: int) -> bool:
        """Whether that node was asked to take over; it may not lead yet."""

    def add(self, node: int, address: str) -> None:
        """Returns when it votes."""

    def remove(self, node: int) -> None: ...

    def wall_clock_ms(self, node: int) -> int | None:
        """What the node itself takes for the time; None where it does not answer."""

    def caught_up(self, within_s: float) -> None:
        """Returns when all nodes that run have the leader's log; raises ChaosError where that takes longer."""


class Clients(Protocol):
    """The processes that load the cluster."""

    def kill_one(self, random: Random) -> str:
        """Ends one by SIGKILL, and starts another in its place; evidence."""


@dataclass(frozen=True, slots=True)
class Site:
    """Where faults happen."""

    environment: Environment
    members: Members
    clients: Clients
    random: Random
    # For so many seconds; raises when the run is to end.
    wait: Callable[[float], None]

    def is_up(self, node: int) -> bool:
        return self.environment.pid(node) is not None


class Fault(Protocol):
    """One occurrence."""

    def strike(self, site: Site, targets: Sequence[int]) -> str:
        """Evidence. Faults that are over in a moment are undone here too."""

    def heal(self, site: Site) -> str:
        """Undone, as far as it was done, also when `strike` failed half-way. Evidence; "" where there is no more."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of fault. `seconds`: how long it lasts, at least and at most."""

    name: str
    summary: str
    targets: tuple[Target, ...]
    make: Callable[[], Fault]
    seconds: tuple[float, float] = (3.0, 6.0)
    needs: Needs = Needs.NOTHING
    least_nodes: int = 1
    # What a node had is gone or spoiled until the others have given it back; before that, no other node may lose
    # anything.
    takes_data: bool = False
    # False: it breaks what a cluster relies on, so that a run with it must be NOT VALID (tests/gates).
    survived: bool = True
