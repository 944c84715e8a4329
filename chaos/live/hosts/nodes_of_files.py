"""Implements those methods of an environment that read and write the files of the nodes. The methods that use the
nodes' files are the same for processes and for containers.

    DIRECTORY/node-1/
      node.toml     the settings for `ledgermq server run`
      log           the output of the node
      boot_id       changes when the node's power is cut
      clock         the offset of the node's wall clock, if clocks can be set
      security/     certificates, if the nodes are secured
      disk.img      the node's file system, mounted at disk/, if there are disks
      disk/data     the node's data

The chaos run causes some faults by changing the files of a node.
"""

from __future__ import annotations

import shutil
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

from chaos.errors import ChaosError
from chaos.live.hosts.clock import Clock
from chaos.live.hosts.disk_image import DiskImage
from chaos.live.hosts.environment import EnvironmentSetup
from chaos.live.hosts.node_security import CLUSTER, NodeSecurity
from chaos.live.hosts.node_security import NAME as SECURITY
from cluster.local.toml_text import toml_text

PORT = 9871
HTTP_PORT = 9872
DISK_BYTES = 2 << 30
# The number of nodes that a run may add to the first ones. Addresses are not used again, and the last address is 254.
ROOM = 200


class NodesOfFiles(ABC):
    """Implements those methods of `chaos.live.hosts.environment.NodeEnvironment` that use the files of the nodes."""

    def __init__(self, setup: EnvironmentSetup) -> None:
        self.setup = setup
        self._next = setup.nodes + 1
        self._security = NodeSecurity(setup.directory)

    @abstractmethod
    def pid(self, node: int) -> int | None: ...

    @abstractmethod
    def address(self, node: int) -> str: ...

    @abstractmethod
    def start(self, node: int) -> str: ...

    @abstractmethod
    def kill(self, node: int) -> str: ...

    @abstractmethod
    def _make(self, node: int, *, join: bool) -> None:
        """Prepare the node without starting it."""

    @abstractmethod
    def _settings(self, node: int) -> Mapping[str, Any]:
        """Return the settings that depend on the environment: the addresses, and the paths as the node sees them."""

    def _make_security(self, node: int, owner: int | None = None) -> None:
        """Write what the node needs to prove itself. `owner` is the user of the node, if it is another one."""
        if self.setup.secure:
            host = self.address(node).rpartition(":")[0]
            self._security.make(node, host, self._directory(node) / SECURITY, owner)

    def _proofs(self, home: Path) -> Mapping[str, Any]:
        """Return the settings of TLS and authentication of a node that sees its directory as `home`."""
        return self._security.settings(home / SECURITY) if self.setup.secure else {"insecure": True}

    def data(self, node: int) -> Path:
        return self._directory(node) / "disk" / "data"

    def disk(self, node: int) -> DiskImage:
        assert self.setup.disks
        directory = self._directory(node)
        return DiskImage(directory / "disk.img", directory / "disk", DISK_BYTES)

    def cut_power(self, node: int) -> str:
        self.kill(node)
        lost = self.disk(node).cut_power()
        self._new_boot(node)
        return lost

    def upgrade(self, node: int) -> str:
        raise ChaosError(f"node {node} cannot get another program in this environment: use --env local")

    def wipe(self, node: int) -> None:
        assert self.pid(node) is None
        shutil.rmtree(self.data(node), ignore_errors=True)

    def add(self) -> int:
        node = self._next
        self._next += 1
        if node > self.setup.nodes + ROOM:
            raise ChaosError(
                f"{ROOM} nodes were added already, and the network has no more addresses: make the run shorter"
            )
        self._make(node, join=True)
        self.start(node)
        return node

    def start_to_join(self, node: int) -> str:
        self._config(node).write_text(self._toml(node, join=True), encoding="utf-8")
        return self.start(node)

    def set_clock(self, node: int, offset_s: float) -> None:
        assert self.setup.clocks
        self._clock(node).set(offset_s)

    def log(self, node: int) -> Path:
        return self._directory(node) / "log"

    # -- internal methods

    def _directory(self, node: int) -> Path:
        return self.setup.directory / f"node-{node}"

    def _config(self, node: int) -> Path:
        return self._directory(node) / "node.toml"

    def _clock(self, node: int) -> Clock:
        return Clock(self._directory(node) / "clock")

    def _new_boot(self, node: int) -> None:
        """Write a new boot id. A real kernel has one boot id for the whole machine. In a chaos run each node has its
        own boot id, because the power of a single node can be cut.
        """
        self._boot_id(node).write_text(f"{uuid4()}\n")

    def _boot_id(self, node: int) -> Path:
        return self._directory(node) / "boot_id"

    def _toml(self, node: int, *, join: bool) -> str:
        settings = {"node": node, "cluster": CLUSTER, **self._settings(node), "join": join, **self.setup.settings}
        peers = [] if join else [*range(1, self.setup.nodes + 1)]
        lines = [f"{key} = {toml_text(value)}" for key, value in settings.items()]
        return "\n".join([*lines, "[peers]", *(f'{peer} = "{self.address(peer)}"' for peer in peers)]) + "\n"
