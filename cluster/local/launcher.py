"""The interface of a local cluster, and the steps that every back end shares.

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

from cluster.local.plan import DevError
from cluster.local.state import NodeState, agree

DEFAULT_NODES = 3
_POLL_S = 0.05


class Launcher(Protocol):
    """A local cluster, which may not exist yet. Every method may raise DevError."""

    @property
    def exists(self) -> bool: ...

    @property
    def bootstrap(self) -> str:
        """The addresses of all nodes for clients on this machine, separated by commas."""

    def start(
        self,
        nodes: int | None = None,
        *,
        base_port: int | None = None,
        flush: str | None = None,
        shards: int | None = None,
    ) -> list[NodeState]:
        """Starts every node that does not run. Returns when all nodes follow one leader in each shard."""

    def status(self) -> list[NodeState]: ...

    def stop(self) -> int:
        """Stops all nodes and keeps their data. Returns how many nodes were running."""

    def purge(self) -> bool:
        """Stops all nodes and removes their data. Returns whether there was a cluster."""

    def leader(self) -> int:
        """The node that leads shard 0. Waits until there is a leader."""

    def kill(self, node: int) -> None:
        """Kills one node with SIGKILL. Returns when the node is gone."""

    def restart(self, node: int) -> None:
        """Starts one node if it does not run. Returns when the nodes follow one leader in each shard."""

    def log_directory(self, node: int, scratch: Path) -> Path:
        """Shard 0's log as files. A back end that must fetch the files puts them into `scratch`."""


def leader_of(status: Callable[[], list[NodeState]], timeout_s: float, name: str) -> int:
    """The node that leads. Raises DevError if no node leads within `timeout_s`; `name` names the cluster."""
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
) -> list[NodeState]:
    """Returns the states of all nodes when the nodes agree on a leader of each of `shards` shards.

    `log_of` gives the name of a node's log and the end of it. Raises DevError with that end if a node has ended, or if
    the nodes do not agree within `timeout_s`. With `only_running`, nodes without a process do not count.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        states = status()
        waited_for = [state for state in states if state.pid is not None or not only_running]
        if agree(waited_for, shards):
            return states
        fallen = [state for state in waited_for if state.pid is None]
        if fallen or time.monotonic() >= deadline:
            raise DevError(_why_not_ready(fallen, states, timeout_s, log_of))
        time.sleep(_POLL_S)


def refuse_change(name: str, made: Mapping[str, tuple[object, str]], wanted: Mapping[str, object], advice: str) -> None:
    """Raises DevError if a value in `wanted`, except None, differs from the value that the cluster was created with.

    `made` has the value of each setting and a phrase that describes the value; `advice` says what to do."""
    for key, value in wanted.items():
        fixed, words = made[key]
        if value is not None and value != fixed:
            raise DevError(f"{name} was created with {words}, which `start` cannot change: {advice}")


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
