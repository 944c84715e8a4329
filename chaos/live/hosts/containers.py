"""Runs the nodes as containers of the deployed image, in a separate network. If the run needs disks, each node has its
own disk.

    DIRECTORY/
      node-1/         /node in the container
        node.toml     the settings for `ledgermq server run`
        log           the output of the node
        boot_id       changes when the node's power is cut
        clock         the offset of the node's wall clock, if clocks can be set
        disk.img      the node's file system, mounted at disk/, if there are disks
        disk/data     the node's data

The code of the faults is the same for containers and for processes. The node's files are in a directory of this
machine, its network namespace belongs to its process, and its pid is a pid of this machine. Therefore the engine must
run on this machine, and this program must run as root.

The network namespace disappears when its container ends. After a restart, the link rules and the shaped links are
applied again. Every container and network has the label of its run, so that the next run can remove the containers and
networks of a killed run.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from docker.types import Mount, Ulimit

from chaos.live.hosts import disk_image, link_rules
from chaos.live.hosts.clock import library
from chaos.live.hosts.container import Container
from chaos.live.hosts.container_engine import ContainerEngine
from chaos.live.hosts.environment import EnvironmentSetup
from chaos.live.hosts.link_rules import LinkRules
from chaos.live.hosts.link_shaper import LinkShaper
from chaos.live.hosts.namespace import Namespace
from chaos.live.hosts.nodes_of_files import HTTP_PORT, PORT, ROOM, NodesOfFiles
from chaos.live.hosts.shell import need_programs, need_root
from cluster.local.engine import IMAGE

# The user id of the image. The node's files on this machine belong to this user.
USER = 10001
_HOME = Path("/node")
_COMMAND = f"exec ledgermq server run --config {_HOME}/node.toml >>{_HOME}/log 2>&1"
_OPEN_FILES = 16_384
_MEMORY = "1g"


class ContainerEnvironment(NodesOfFiles):
    """Implements `chaos.live.hosts.environment.NodeEnvironment`."""

    def __init__(self, setup: EnvironmentSetup, image: str = IMAGE) -> None:
        """Raises ChaosError if no engine answers."""
        super().__init__(setup)
        self._image = image
        self._engine = ContainerEngine(setup.directory)
        self._containers: dict[int, Container] = {}
        self._undo = ExitStack()
        every = range(1, setup.nodes + ROOM + 1)
        self.links = LinkRules(every, self._namespace, self._engine.address)
        self.shaper = LinkShaper(self._namespace, self._engine.address, Random(setup.seed))

    @property
    def nodes(self) -> Sequence[int]:
        return [*self._containers]

    def up(self) -> None:
        need_root("--env docker")
        need_programs(link_rules.PROGRAMS)
        if self.setup.disks:
            need_programs(disk_image.PROGRAMS)
        self._undo.callback(self._engine.close)
        self._engine.need_image(self._image)
        self._engine.remove_stale()
        self._engine.make_network()
        for node in range(1, self.setup.nodes + 1):
            self._make(node, join=False)
        for node in self.nodes:
            self.start(node)

    def down(self) -> None:
        self.shaper.heal()
        self._undo.close()

    def address(self, node: int) -> str:
        return f"{self._engine.address(node)}:{PORT}"

    def http(self, node: int) -> str:
        return f"{self._engine.address(node)}:{HTTP_PORT}"

    def start(self, node: int) -> str:
        said = self._containers[node].start()
        self.links.apply(node)
        self.shaper.apply(node)
        return said

    def stop(self, node: int) -> str:
        return self._containers[node].stop()

    def kill(self, node: int) -> str:
        return self._containers[node].kill()

    def pause(self, node: int) -> str:
        return self._containers[node].pause()

    def resume(self, node: int) -> str:
        return self._containers[node].resume()

    def pid(self, node: int) -> int | None:
        return self._containers[node].pid

    def put_away(self, node: int) -> None:
        self._containers.pop(node).remove()

    # -- internal methods

    def _namespace(self, node: int) -> Namespace | None:
        container = self._containers.get(node)
        pid = container.pid if container is not None else None
        return None if pid is None else Namespace(Path(f"/proc/{pid}/ns/net"))

    def _make(self, node: int, *, join: bool) -> None:
        """Prepare a node. `down` undoes the steps of this method in the opposite order. The undo of a step is
        registered before the step is made."""
        directory = self._directory(node)
        directory.mkdir(parents=True)
        directory.chmod(0o755)
        self._undo.callback(shutil.rmtree, directory / "disk", ignore_errors=True)
        if self.setup.disks:
            self._undo.callback(self.disk(node).remove)
            self.disk(node).make()
        self._config(node).write_text(self._toml(node, join=join), encoding="utf-8")
        self._new_boot(node)
        self._make_security(node, USER)
        self._give_to_user(node)
        container = self._engine.container(node)
        self._undo.callback(container.remove)
        container.make(
            self._image,
            entrypoint=["tini", "--", "sh", "-c", _COMMAND],
            environment=self._variables(node),
            mounts=self._mounts(node),
            read_only=True,
            tmpfs={"/tmp": "size=64m"},
            cap_drop=["ALL"],
            mem_limit=_MEMORY,
            ulimits=[Ulimit(name="nofile", soft=_OPEN_FILES, hard=_OPEN_FILES)],
            healthcheck={"test": ["NONE"]},  # the run itself checks the nodes all the time
        )
        self._containers[node] = container

    def _give_to_user(self, node: int) -> None:
        """Make the image's user the owner of the files that the node writes. The change is synced, so that a power cut
        does not undo it.
        """
        disk = self._directory(node) / "disk"
        disk.mkdir(exist_ok=True)
        self.log(node).touch()
        for path in (disk, self.log(node)):
            os.chown(path, USER, USER)
        os.sync()

    def _mounts(self, node: int) -> list[Mount]:
        mount = partial(Mount, type="bind")
        ours = [mount(target=str(_HOME), source=str(self._directory(node)))]
        return [*ours, mount(target=library(), source=library(), read_only=True)] if self.setup.clocks else ours

    def _variables(self, node: int) -> dict[str, str]:
        clock = self._clock(node).variables(as_seen=_HOME / "clock") if self.setup.clocks else {}
        return {**clock, **self.setup.environment}

    def _settings(self, node: int) -> Mapping[str, Any]:
        return {
            "data": str(_HOME / "disk" / "data"),
            "listen": f"0.0.0.0:{PORT}",
            **self._proofs(_HOME),
            "advertised": self.address(node),
            "http": f"0.0.0.0:{HTTP_PORT}",
            "boot_id_file": str(_HOME / "boot_id"),
        }
