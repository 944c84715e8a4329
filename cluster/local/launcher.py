"""The interface of a local cluster, and the steps that the implementations for processes and for containers share.

This module defines:

    Launcher       the interface that commands, the demo and the benchmarks use
    leader_of      waits until a node leads
    wait_ready     waits until all nodes follow one leader in each shard
    refuse_change  refuses settings that differ from those of an existing cluster
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

from cluster.local.credentials import ClusterCredentials
from cluster.local.plan import DevError
from cluster.local.state import NodeState, agree
from ledger.client.connection.security import SecurityOptions

DEFAULT_NODES = 3
_POLL_S = 0.05

# Is called with each step of a start, such as "waiting for a leader of shard 0".
Tell = Callable[[str], None]


def silent(_: str) -> None:
    """Tell nobody."""


class Launcher(Protocol):
    """The interface of a local cluster, which may not exist yet. Every method can raise DevError."""

    @property
    def exists(self) -> bool: ...

    @property
    def bootstrap(self) -> str:
        """Return the addresses of all nodes for clients on this machine, separated by commas."""

    @property
    def is_secure(self) -> bool:
        """Return True if clients need TLS and a user."""

    @property
    def client_options(self) -> SecurityOptions:
        """Return the options of a client that administers the cluster."""

    @property
    def credentials(self) -> ClusterCredentials:
        """Return the files of clients of a secured cluster."""

    def start(
        self,
        nodes: int | None = None,
        *,
        base_port: int | None = None,
        flush: str | None = None,
        shards: int | None = None,
        secure: bool | None = None,
        tell: Tell = silent,
    ) -> list[NodeState]:
        """Start every node that does not run. Return when all nodes follow one leader in each shard. If a new cluster
        does not start, leave nothing of it behind."""

    def status(self) -> list[NodeState]: ...

    def stop(self) -> int:
        """Stop all nodes and keep their data. Return how many nodes were running."""

    def purge(self) -> bool:
        """Stop all nodes and remove their data. Return True if the cluster existed."""

    def leader(self) -> int:
        """Return the node that leads shard 0; wait until there is a leader."""

    def kill(self, node: int) -> None:
        """Kill one node with SIGKILL. Return when the process of the node has ended."""

    def restart(self, node: int) -> None:
        """Start one node if it does not run. Return when the nodes follow one leader in each shard."""

    def log_directory(self, node: int, scratch: Path) -> Path:
        """Return a directory with the log files of shard 0 of this node. An implementation that must fetch the
        files writes them below `scratch`."""


def leader_of(status: Callable[[], list[NodeState]], timeout_s: float, name: str) -> int:
    """Return the node that leads shard 0. Raises DevError if no node leads within `timeout_s` seconds. `name` is
    the name of the cluster in the error message."""
    deadline = time.monotonic() + timeout_s
    while True:
        leading = [state for state in status() if state.role == "leader"]
        if leading:  # a deposed leader may not know yet that it is deposed
            return max(leading, key=lambda state: state.term).id
        if time.monotonic() >= deadline:
            raise DevError(f"{name} has had no leader for {timeout_s:g} s")
        time.sleep(_POLL_S)


def wait_ready(
    status: Callable[[], list[NodeState]],
    shards: int,
    timeout_s: float,
    log_of: Callable[[int], tuple[str, str]],
    *,
    only_running: bool = False,
    tell: Tell = silent,
) -> list[NodeState]:
    """Wait until all nodes agree on the leader of each shard and there are at least `shards` shards. Return the
    `NodeState` of each node.

    `log_of` returns the name of a node's log file and the last lines of that log. Raises DevError with the last lines
    of a log if a node has ended, or if the nodes do not agree within `timeout_s` seconds. If `only_running` is true,
    nodes without a process are ignored.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        states = status()
        waited_for = [state for state in states if state.pid is not None or not only_running]
        if agree(waited_for, shards):
            return states
        tell(_progress(waited_for, shards))
        fallen = [state for state in waited_for if state.pid is None]
        if fallen or time.monotonic() >= deadline:
            raise DevError(_why_not_ready(fallen, states, timeout_s, log_of))
        time.sleep(_POLL_S)


def refuse_change(name: str, made: Mapping[str, tuple[object, str]], wanted: Mapping[str, object], advice: str) -> None:
    """Raise DevError if a value in `wanted` is not None and differs from the value with which the cluster was created.

    `made` maps each setting to its value at the creation of the cluster, and to the words that describe this value
    in the error. `advice` is the part of the error message that says what the user can do."""
    for key, value in wanted.items():
        fixed, words = made[key]
        if value is not None and value != fixed:
            raise DevError(f"{name} was created with {words}, which `start` cannot change: {advice}")


def _progress(states: list[NodeState], shards: int) -> str:
    silent_nodes = [str(state.id) for state in states if state.role in ("starting", "stopped")]
    if silent_nodes:
        return f"waiting for node {', '.join(silent_nodes)} of {len(states)}"
    led = {shard for state in states for shard in state.leads}
    return f"waiting for leaders: {len(led)} of {shards} shard(s) have one"


def _why_not_ready(
    fallen: list[NodeState], states: list[NodeState], timeout_s: float, log_of: Callable[[int], tuple[str, str]]
) -> str:
    if fallen:
        shown, what = fallen[0].id, f"node {fallen[0].id} ended while starting"
    else:
        silent = [state for state in states if state.role == "starting"] or states
        shown, what = silent[0].id, f"the nodes did not agree on a leader within {timeout_s:g} s"
    log, end = log_of(shown)
    return f"{what}. The end of {log}:\n{end or '(it is empty)'}"
