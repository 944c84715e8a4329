"""The interface of an environment, in which the nodes of a chaos run are started.

Faults and the run use only this interface, so the same run works with processes in network namespaces (local.py) and
with containers (containers.py). Each action on a node returns evidence of its effect, because a fault without evidence
does not count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from chaos.live.hosts.disk_image import DiskImage
from chaos.live.hosts.link_rules import LinkRules
from chaos.live.hosts.link_shaper import LinkShaper


@dataclass(frozen=True, slots=True)
class EnvironmentSetup:
    """The properties that an environment must have for a run."""

    # The directory of the logs. The data is also there until `down`.
    directory: Path
    nodes: int
    seed: int = 0
    # Settings of every node, in addition to its addresses and paths.
    settings: Mapping[str, Any] = field(default_factory=dict)
    # Every node gets a file system of its own, which can lose power and fill up.
    disks: bool = False
    # The wall clock of every node can be set.
    clocks: bool = False
    # The nodes use TLS and authentication (node_security.py).
    secure: bool = False
    # Environment variables of the node processes. A test uses them to plant a fault.
    environment: Mapping[str, str] = field(default_factory=dict)
    # The directory with the packages of an older program, with which the nodes begin; empty: they begin with this one.
    old_program: str = ""


class NodeEnvironment(Protocol):
    """The nodes of a run, numbered from 1. All methods are synchronous: a method returns when its action is complete.

    Methods raise ChaosError if the environment cannot carry out the action.
    """

    setup: EnvironmentSetup
    links: LinkRules
    shaper: LinkShaper

    @property
    def nodes(self) -> Sequence[int]:
        """Return all nodes of the environment, running or not."""

    def up(self) -> None:
        """Create the networks, disks and nodes, and start the nodes. `down` removes everything that `up` created,
        also if `up` failed half-way."""

    def down(self) -> None:
        """End every process and remove everything except the logs. `down` may be called at any time, and more than
        once."""

    def address(self, node: int) -> str:
        """Return host:port for the clients of the run."""

    def start(self, node: int) -> str:
        """Start the node. Returns evidence."""

    def stop(self, node: int) -> str:
        """Stop the node with SIGTERM and wait for its end. Returns evidence: how long the stop took."""

    def kill(self, node: int) -> str:
        """Kill the node with SIGKILL. Returns evidence: how the process ended."""

    def upgrade(self, node: int) -> str:
        """Let the next start of the node run the present program. Returns evidence. This method needs an environment
        with an old program."""

    def pause(self, node: int) -> str:
        """Stop the node's process with SIGSTOP. Returns evidence."""

    def resume(self, node: int) -> str:
        """Continue the node's process with SIGCONT. Returns evidence."""

    def pid(self, node: int) -> int | None:
        """Return the pid of the node on this machine; None while the node does not run."""

    def data(self, node: int) -> Path:
        """Return the path of the node's data directory on this machine."""

    def disk(self, node: int) -> DiskImage:
        """Return the node's disk. This method needs an environment with `disks`."""

    def cut_power(self, node: int) -> str:
        """Kill the node, and lose all data that its disk had not synced. This method needs an environment with
        `disks`. Return a text that lists the lost files, or "" if nothing was lost.
        """

    def wipe(self, node: int) -> None:
        """Empty the data directory of a node that does not run."""

    def http(self, node: int) -> str:
        """Return the host:port at which this program reaches the node's HTTP port."""

    def add(self) -> int:
        """Create and start one more node, which waits to be added to the cluster. Returns the number of the node."""

    def start_to_join(self, node: int) -> str:
        """Start a node with an empty disk, which waits to be added to the cluster again."""

    def put_away(self, node: int) -> None:
        """Stop a node that was removed from the cluster, for good. After the call `nodes` does not contain this
        node."""

    def set_clock(self, node: int, offset_s: float) -> None:
        """Set the node's wall clock wrong by `offset_s`. This method needs an environment with `clocks`."""

    def log(self, node: int) -> Path:
        """Return the file with the node's output."""
