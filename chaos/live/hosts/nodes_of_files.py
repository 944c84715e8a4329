"""What nodes have in common whose files lie on this machine, be they processes or containers.

    DIRECTORY/node-1/
      node.toml     what `ledgermq server run` is given
      log           all that it wrote
      boot_id       changes when its power is cut
      clock         by how much its wall clock is wrong, where clocks can be set
      disk.img      its file system, mounted at disk/, where there are disks
      disk/data     its data

What a fault does to files it does from here, whatever the node runs in.
"""

from __future__ import annotations

import json
import shutil
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

from chaos.errors import ChaosError
from chaos.live.hosts.clock import Clock
from chaos.live.hosts.disk_image import DiskImage
from chaos.live.hosts.environment import Setup

PORT = 9871
HTTP_PORT = 9872
DISK_BYTES = 2 << 30
# Nodes that may be added to those there are: addresses are not used again, and end at 254.
ROOM = 200


class NodesOfFiles(ABC):
    """That part of `chaos.live.hosts.environment.Environment` which is about files."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self._next = setup.nodes + 1

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
        """All that the node needs, but for its start."""

    @abstractmethod
    def _settings(self, node: int) -> Mapping[str, Any]:
        """Of its place: where it listens, and where its files are as it sees them."""

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

    def wipe(self, node: int) -> None:
        assert self.pid(node) is None
        shutil.rmtree(self.data(node), ignore_errors=True)

    def add(self) -> int:
        node = self._next
        self._next += 1
        if node > self.setup.nodes + ROOM:
            raise ChaosError(
                f"{ROOM} nodes were added already: the network has no more addresses, so run for less long"
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

    # -- inside

    def _directory(self, node: int) -> Path:
        return self.setup.directory / f"node-{node}"

    def _config(self, node: int) -> Path:
        return self._directory(node) / "node.toml"

    def _clock(self, node: int) -> Clock:
        return Clock(self._directory(node) / "clock")

    def _new_boot(self, node: int) -> None:
        """What the kernel says that was started anew; a file per node, since power is cut for one of them."""
        self._boot_id(node).write_text(f"{uuid4()}\n")

    def _boot_id(self, node: int) -> Path:
        return self._directory(node) / "boot_id"

    def _toml(self, node: int, *, join: bool) -> str:
        settings = {"node": node, "cluster": "chaos", **self._settings(node), "join": join, **self.setup.settings}
        peers = [] if join else [*range(1, self.setup.nodes + 1)]
        lines = [f"{key} = {json.dumps(value)}" for key, value in settings.items()]
        return "\n".join([*lines, "[peers]", *(f'{peer} = "{self.address(peer)}"' for peer in peers)]) + "\n"
