"""Runs the nodes as processes of this machine. Each node has its own network namespace and, if the run needs disks,
its own disk.

    DIRECTORY/
      node-1/
        node.toml   the settings for `ledgermq server run`
        log         the output of the node
        boot_id     changes when the node's power is cut
        clock       the offset of the node's wall clock, if clocks can be set
        disk.img    the node's file system, mounted at disk/, if there are disks
        disk/data   the node's data

This environment needs root, for namespaces and mounts. Docker is not needed.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Any

from chaos.errors import ChaosError
from chaos.live.hosts import disk_image, link_rules, namespaces
from chaos.live.hosts.environment import EnvironmentSetup
from chaos.live.hosts.link_rules import LinkRules
from chaos.live.hosts.link_shaper import LinkShaper
from chaos.live.hosts.namespace import Namespace
from chaos.live.hosts.namespaces import Namespaces
from chaos.live.hosts.nodes_of_files import HTTP_PORT, PORT, ROOM, NodesOfFiles
from chaos.live.hosts.process import HostedNodeProcess
from chaos.live.hosts.shell import need_programs, need_root


class LocalEnvironment(NodesOfFiles):
    """Implements `chaos.live.hosts.environment.NodeEnvironment`."""

    def __init__(self, setup: EnvironmentSetup) -> None:
        super().__init__(setup)
        self._namespaces = Namespaces(f"ledgermq-chaos-{os.getpid()}")
        self._processes: dict[int, HostedNodeProcess] = {}
        # The nodes that run an older program, or will run it at their next start.
        self._old: set[int] = set()
        self._undo = ExitStack()
        every = range(1, setup.nodes + ROOM + 1)
        self.links = LinkRules(every, self._namespace, self._namespaces.address)
        self.shaper = LinkShaper(self._namespace, self._namespaces.address, Random(setup.seed))

    @property
    def nodes(self) -> Sequence[int]:
        return [*self._processes]

    def up(self) -> None:
        need_root("--env local")
        need_programs({**namespaces.PROGRAMS, **link_rules.PROGRAMS})
        if self.setup.disks:
            need_programs(disk_image.PROGRAMS)
        if self.setup.old_program:
            _need_program_in(Path(self.setup.old_program))
            self._old.update(range(1, self.setup.nodes + 1))
        self._namespaces.enter()
        for node in range(1, self.setup.nodes + 1):
            self._make(node, join=False)
        for node in self.nodes:
            self.start(node)

    def down(self) -> None:
        self.shaper.heal()
        self._undo.close()

    def address(self, node: int) -> str:
        return f"{self._namespaces.address(node)}:{PORT}"

    def http(self, node: int) -> str:
        return f"{self._namespaces.address(node)}:{HTTP_PORT}"

    def start(self, node: int) -> str:
        return self._processes[node].start()

    def stop(self, node: int) -> str:
        return self._processes[node].stop()

    def kill(self, node: int) -> str:
        return self._processes[node].kill()

    def upgrade(self, node: int) -> str:
        if node not in self._old:
            return f"node {node} has this program"
        self._old.remove(node)
        self._processes[node].environment = self._variables(node)
        return f"node {node} gets this program"

    def pause(self, node: int) -> str:
        return self._processes[node].signal(signal.SIGSTOP)

    def resume(self, node: int) -> str:
        return self._processes[node].signal(signal.SIGCONT)

    def pid(self, node: int) -> int | None:
        return self._processes[node].pid

    def put_away(self, node: int) -> None:
        self._end(self._processes.pop(node))
        self._namespaces.remove(node)

    # -- internal methods

    def _namespace(self, node: int) -> Namespace | None:
        return self._namespaces.of(node) if node in self._processes else None

    def _make(self, node: int, *, join: bool) -> None:
        """Prepare a node. `down` undoes the steps of this method in the opposite order. The undo of a step is
        registered before the step is made."""
        directory = self._directory(node)
        directory.mkdir(parents=True)
        self._undo.callback(self._namespaces.remove, node)
        self._namespaces.add(node)
        self._undo.callback(shutil.rmtree, directory / "disk", ignore_errors=True)
        if self.setup.disks:
            disk = self.disk(node)
            self._undo.callback(disk.remove)
            disk.make()
        self._new_boot(node)
        self._make_security(node)
        config = self._config(node)
        config.write_text(self._toml(node, join=join), encoding="utf-8")
        command = [*self._namespaces.of(node).prefix, sys.executable, "-m", "ledgermq", "server", "run"]
        command += ["--config", str(config)]
        process = HostedNodeProcess(f"node {node}", command, self._variables(node), self.log(node))
        self._processes[node] = process
        self._undo.callback(self._end, process)

    @staticmethod
    def _end(process: HostedNodeProcess) -> None:
        if process.pid is not None:
            process.kill()

    def _variables(self, node: int) -> dict[str, str]:
        clock = self._clock(node).variables() if self.setup.clocks else {}
        program = {"PYTHONPATH": self.setup.old_program} if node in self._old else {}
        return {**clock, **program, **self.setup.environment}

    def _settings(self, node: int) -> Mapping[str, Any]:
        host = self._namespaces.address(node)
        return {
            "data": str(self.data(node)),
            "listen": f"{host}:{PORT}",
            **self._proofs(self._directory(node)),
            "advertised": self.address(node),
            "http": self.http(node),
            "boot_id_file": str(self._boot_id(node)),
        }


def _need_program_in(directory: Path) -> None:
    """Raise ChaosError if the directory does not have the packages of a program."""
    if not (directory / "ledgermq" / "__main__.py").is_file():
        raise ChaosError(
            f"--old-program: {directory} has no package ledgermq: name a clone of an older version, or a directory in "
            "which it was installed (`pip install --target`)"
        )
