"""The options of a chaos run, and the command line that stands for them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated

from pydantic import ConfigDict, Field, FiniteFloat

from chaos.live.faults.catalogue import KINDS
from chaos.live.faults.fault import FaultNeeds

# The number of shards of a run whose faults move replicas, if none is given.
SHARDS_OF_MOVES = 4


@dataclass(frozen=True, slots=True)
class ChaosOptions:
    """The options of one chaos run. `rate` is in messages a second, of all clients together. `node_env` has
    environment variables for the node processes, as NAME=VALUE. `recovery_s` is the time in seconds that the nodes may
    take to reach the same log after the last fault.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    env: str
    nodes: Annotated[int, Field(ge=1, le=9)]
    faults: tuple[str, ...]
    targets: tuple[str, ...]
    seconds: Annotated[FiniteFloat, Field(gt=0)]
    rate: Annotated[FiniteFloat, Field(gt=0)]
    seed: int
    flush: str
    shards: int
    queues: int = 4
    largest_bytes: int = 1 << 20
    delivery_timeout_ms: int = 20_000
    producers: int = 2
    node_env: tuple[str, ...] = ()
    recovery_s: float = 120.0
    # The nodes use TLS and authentication.
    secure: bool = False
    # The share of the messages that have delivery times. Runs of older versions have none.
    timed: Annotated[FiniteFloat, Field(ge=0, le=0.9)] = 0.0
    # The share of the messages that are sent in transactions. Runs of older versions have none.
    transactions: Annotated[FiniteFloat, Field(ge=0, le=0.5)] = 0.0
    # The share of the messages that shared groups consume. Runs of older versions have none.
    shared: Annotated[FiniteFloat, Field(ge=0, le=0.5)] = 0.0
    # The directory with the packages of an older program, with which the nodes begin; empty: they begin with this one.
    old_program: str = ""

    @property
    def needs(self) -> FaultNeeds:
        """The capabilities that the faults of this run need from the environment."""
        return needs_of(self.faults)


def needs_of(faults: Iterable[str]) -> FaultNeeds:
    """Return what these faults need."""
    needs = FaultNeeds.NOTHING
    for name in faults:
        needs |= KINDS[name].needs
    return needs


def shards_for(faults: Iterable[str]) -> int:
    """Return the number of shards of a run with these faults, if the user gives none."""
    return SHARDS_OF_MOVES if FaultNeeds.SHARDS in needs_of(faults) else 1


def as_arguments(options: ChaosOptions) -> list[str]:
    """Return the arguments of `ledgermq chaos` that give the same plan of faults."""
    arguments = ["run", "--env", options.env, "--nodes", str(options.nodes), "--seed", str(options.seed)]
    arguments += ["--faults", ",".join(options.faults) or "none"]
    for target in options.targets:
        arguments += ["--targets", target]
    for variable in options.node_env:
        arguments += ["--node-env", variable]
    arguments += ["--seconds", f"{options.seconds:g}", "--rate", f"{options.rate:g}"]
    arguments += ["--timed", f"{options.timed:g}", "--transactions", f"{options.transactions:g}"]
    arguments += ["--shared", f"{options.shared:g}"]
    arguments += ["--flush", options.flush, "--shards", str(options.shards)]
    arguments += ["--secure"] if options.secure else []
    arguments += ["--old-program", options.old_program] if options.old_program else []
    return [*arguments, "--recovery-s", f"{options.recovery_s:g}"]
