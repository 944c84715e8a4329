"""Nodes as containers of the image that is deployed, on a network of their own, with a disk of its own where asked.

    DIRECTORY/
      node-1/         /node in the container
        node.toml     what `ledgermq server run` is given
        log           all that it wrote
        boot_id       changes when its power is cut
        clock         by how much its wall clock is wrong, where clocks can be set
        disk.img      its file system, mounted at disk/, where there are disks
        disk/data     its data

Everything of a container that a fault touches lies on this machine, so the faults are the same ones that processes
get: its files are a directory here, its network namespace is that of its process, its pid is a pid of ours. So the
engine must be this machine's own, and this program root.

A namespace ends with its container; rules and shaped links are applied again to the next one. What is made carries the
label of the run that made it, by which the next run removes what a run that was killed left behind.
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
from chaos.live.hosts.environment import Setup
from chaos.live.hosts.link_rules import LinkRules
from chaos.live.hosts.link_shaper import LinkShaper
from chaos.live.hosts.namespace import Namespace
from chaos.live.hosts.nodes_of_files import HTTP_PORT, PORT, ROOM, NodesOfFiles
from chaos.live.hosts.shell import need_programs, need_root
from cluster.local.engine import IMAGE

# The image's own: files on this machine are given to it.
USER = 10001
_HOME = Path("/node")
_COMMAND = f"exec ledgermq server run --config {_HOME}/node.toml >>{_HOME}/log 2>&1"
_OPEN_FILES = 16_384
_MEMORY = "1g"


class ContainerEnvironment(NodesOfFiles):
    """Implements `chaos.live.hosts.environment.Environment`."""

    def __init__(self, setup: Setup, image: str = IMAGE) -> None:
        """Raises ChaosError where no engine answers, or it has no such image."""
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

    # -- inside

    def _namespace(self, node: int) -> Namespace | None:
        container = self._containers.get(node)
        pid = container.pid if container is not None else None
        return None if pid is None else Namespace(Path(f"/proc/{pid}/ns/net"))

    def _make(self, node: int, *, join: bool) -> None:
        """Each step is undone by `down`, in the opposite order; the undoing is arranged before the step is taken."""
        directory = self._directory(node)
        directory.mkdir(parents=True)
        directory.chmod(0o755)
        self._undo.callback(shutil.rmtree, directory / "disk", ignore_errors=True)
        if self.setup.disks:
            self._undo.callback(self.disk(node).remove)
            self.disk(node).make()
        self._config(node).write_text(self._toml(node, join=join), encoding="utf-8")
        self._new_boot(node)
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
            healthcheck={"test": ["NONE"]},  # asked all the time, by the run itself
        )
        self._containers[node] = container

    def _give_to_user(self, node: int) -> None:
        """What the node writes; synced, so that a cut of its power does not take it back."""
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
            "advertised": self.address(node),
            "http": f"0.0.0.0:{HTTP_PORT}",
            "boot_id_file": str(_HOME / "boot_id"),
        }
