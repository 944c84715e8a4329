"""Nodes as containers of the image that is deployed, on a network of their own, with a disk of its own where asked.

    DIRECTORY/
      node-1/         /node in the container
        node.toml     what `ledgermq server run` is given
        log           all that it wrote
        boot_id       changes when its power is cut
        clock         by how much its wall clock is wrong, where clocks can be set
        disk.img      its file system, mounted at disk/, where there are disks
        disk/data     its data

The one idea: everything of a container that a fault touches lies on this machine, so the faults are the same ones that
processes get: its files are a directory here, its network namespace is that of its process, its pid is a pid of ours.
So the engine must be this machine's own, and this program root.

A namespace ends with its container; rules and shaped links are applied again to the next one. What is made carries the
label of the run that made it, by which the next run removes what a run that was killed left behind.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from random import Random
from uuid import uuid4

from docker.types import Mount, Ulimit

from chaos.errors import ChaosError
from chaos.hosts import disk_image, link_rules
from chaos.hosts.clock import Clock, library
from chaos.hosts.container import Container
from chaos.hosts.container_engine import ContainerEngine
from chaos.hosts.disk_image import DiskImage
from chaos.hosts.environment import Setup
from chaos.hosts.link_rules import LinkRules
from chaos.hosts.link_shaper import LinkShaper
from chaos.hosts.namespace import Namespace
from chaos.hosts.shell import need_programs, need_root
from cluster.docker_engine import IMAGE

PORT = 9871
HTTP_PORT = 9872
DISK_BYTES = 2 << 30
USER = 10001
"""The image's own: files on this machine are given to it."""
_ROOM = 8
"""Nodes that may be added to those there are."""
_HOME = Path("/node")
_COMMAND = f"exec ledgermq server run --config {_HOME}/node.toml >>{_HOME}/log 2>&1"
_OPEN_FILES = 16_384
_MEMORY = "1g"


class ContainerEnvironment:
    """Implements `chaos.hosts.environment.Environment`."""

    def __init__(self, setup: Setup, image: str = IMAGE) -> None:
        """Raises ChaosError where no engine answers, or it has no such image."""
        self.setup = setup
        self._image = image
        self._engine = ContainerEngine(setup.directory)
        self._containers: dict[int, Container] = {}
        self._undo = ExitStack()
        self._next = setup.nodes + 1
        every = range(1, setup.nodes + _ROOM + 1)
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
        if node > self.setup.nodes + _ROOM:
            raise ChaosError(f"{_ROOM} nodes were added already")
        self._make(node, join=True)
        self.start(node)
        return node

    def start_to_join(self, node: int) -> str:
        self._config(node).write_text(self._toml(node, join=True), encoding="utf-8")
        return self.start(node)

    def put_away(self, node: int) -> None:
        self._containers.pop(node).remove()

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
        (self._directory(node) / "boot_id").write_text(f"{uuid4()}\n")

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

    def _toml(self, node: int, *, join: bool) -> str:
        settings = {
            "node": node,
            "cluster": "chaos",
            "data": str(_HOME / "disk" / "data"),
            "listen": f"0.0.0.0:{PORT}",
            "advertised": self.address(node),
            "http": f"0.0.0.0:{HTTP_PORT}",
            "join": join,
            "boot_id_file": str(_HOME / "boot_id"),
            **self.setup.settings,
        }
        peers = [] if join else [*range(1, self.setup.nodes + 1)]
        lines = [f"{key} = {json.dumps(value)}" for key, value in settings.items()]
        return "\n".join([*lines, "[peers]", *(f'{peer} = "{self.address(peer)}"' for peer in peers)]) + "\n"
