"""What a chaos run needs of the place where its nodes live.

Faults and the run itself speak to this interface only, so that the same run goes against processes in network
namespaces (local.py) and against containers (containers.py). What is done to a node answers with what was seen of it,
since a fault that left no evidence did not happen.
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
class Setup:
    """What the environment is to make."""

    # For everything that it leaves: logs, and data until it is taken down.
    directory: Path
    nodes: int
    seed: int = 0
    # Of every node, beside its own address and place.
    settings: Mapping[str, Any] = field(default_factory=dict)
    # Every node has a file system of its own, which can lose power and fill up.
    disks: bool = False
    # The wall clock of every node can be set.
    clocks: bool = False
    # Variables of the node processes: how a test breaks what it wants to see caught.
    environment: Mapping[str, str] = field(default_factory=dict)


class Environment(Protocol):
    """Nodes are numbered from 1. Whatever takes long takes seconds; nothing here is asynchronous.

    Methods raise ChaosError where the place cannot do what they say."""

    setup: Setup
    links: LinkRules
    shaper: LinkShaper

    @property
    def nodes(self) -> Sequence[int]:
        """Those that there are, running or not."""

    def up(self) -> None:
        """Makes all of it, and starts the nodes. What was made is gone after `down`, also where this fails half-way."""

    def down(self) -> None:
        """Ends every process and removes everything but the logs. May be called at any time, and twice."""

    def address(self, node: int) -> str:
        """host:port for clients of the run."""

    def start(self, node: int) -> str: ...

    def stop(self, node: int) -> str:
        """SIGTERM, and waits for the end; evidence: how long it took."""

    def kill(self, node: int) -> str:
        """SIGKILL; evidence: that it died by it."""

    def pause(self, node: int) -> str: ...

    def resume(self, node: int) -> str: ...

    def pid(self, node: int) -> int | None:
        """Of its process, as this program sees it; None while it does not run."""

    def data(self, node: int) -> Path:
        """Its data directory, as this program sees it."""

    def disk(self, node: int) -> DiskImage:
        """Only where the setup has disks."""

    def cut_power(self, node: int) -> str:
        """Kills it, and lets its disk and its machine forget what was not synced; only where the setup has disks.
        Evidence: what was lost; "" where nothing was."""

    def wipe(self, node: int) -> None:
        """Empties the data directory of a node that does not run."""

    def http(self, node: int) -> str:
        """host:port of its HTTP port, as this program reaches it."""

    def add(self) -> int:
        """One more node, which waits to be added to the cluster."""

    def start_to_join(self, node: int) -> str:
        """A node whose disk was wiped, and which waits to be added again."""

    def put_away(self, node: int) -> None:
        """Ends a node that was removed: it is none of `nodes` any more."""

    def set_clock(self, node: int, offset_s: float) -> None:
        """Only where the setup has clocks."""

    def log(self, node: int) -> Path:
        """All that it wrote."""
