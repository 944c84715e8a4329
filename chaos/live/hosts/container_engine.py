"""The container engine of a run: the run's network, the names and labels of its containers, and the cleanup after other
runs.

A label identifies the process that created a container or network, by the pid and the start time of the process. If
the process named by the label no longer exists, its run was killed, and the next run removes the containers and
networks with this label.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from docker.errors import APIError, NotFound
from docker.types import IPAMConfig, IPAMPool

from chaos.errors import ChaosError
from chaos.live.hosts.container import Container
from chaos.live.hosts.shell import run
from cluster.local.engine import EngineError, connect, need_image

RUN_LABEL = "ledgermq.chaos.run"
DIRECTORY_LABEL = "ledgermq.chaos.directory"
_NETWORKS = tuple(f"10.{second}.{third}" for second in (89, 90) for third in range(256))
_OURS = 254


class ContainerEngine:
    """The engine of one run, whose files are in `directory`. Raises ChaosError if no engine answers."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._run = _born(os.getpid())
        self._name = f"ledgermq-chaos-{os.getpid()}"
        self._prefix = ""
        try:
            self._client = connect()
        except EngineError as error:
            raise ChaosError(f"{error}; or use --env local, which needs no engine") from error

    def need_image(self, image: str) -> None:
        """Raise ChaosError if the engine does not have the image."""
        try:
            need_image(self._client, image)
        except EngineError as error:
            raise ChaosError(str(error)) from error

    def make_network(self) -> None:
        """Create a network with a free address range. The address range is one of the ranges that chaos runs use. The
        search for a free address range begins at a range that depends on the pid, because clients of a run that was
        killed may still send to the addresses of that run.
        """
        first = os.getpid() % len(_NETWORKS)
        for prefix in (*_NETWORKS[first:], *_NETWORKS[:first]):
            pool = IPAMPool(subnet=f"{prefix}.0/24", gateway=f"{prefix}.{_OURS}")
            try:
                self._client.networks.create(
                    self._name, driver="bridge", ipam=IPAMConfig(pool_configs=[pool]), labels=self._labels()
                )
            except APIError as error:
                if "overlap" not in str(error).lower():
                    raise ChaosError(f"cannot create a network: {error.explanation}") from error
            else:
                self._prefix = prefix
                return
        raise ChaosError(
            f"every address range from {_NETWORKS[0]}.0/24 to {_NETWORKS[-1]}.0/24 is in use: remove unused networks"
        )

    def address(self, node: int) -> str:
        """Return the node's address in the run's network. Programs on this machine can reach the address."""
        return f"{self._prefix}.{node}"

    def container(self, node: int) -> Container:
        """Return the container of a node. This method does not create the container."""
        return Container(self._client, node, f"{self._name}-{node}", self._labels(), self._name, self.address(node))

    def close(self) -> None:
        """Remove the network if it exists."""
        with suppress(NotFound):
            self._client.networks.get(self._name).remove()
        self._client.close()

    def remove_stale(self) -> None:
        """Remove the containers, networks and mounted disks of runs that were killed."""
        filters = {"label": RUN_LABEL}
        for container in self._client.containers.list(all=True, filters=filters):
            if not _lives(container.labels[RUN_LABEL]):
                container.remove(force=True, v=True)
                _unmount(Path(container.labels[DIRECTORY_LABEL]))
        for network in self._client.networks.list(filters=filters):
            if not _lives(network.attrs["Labels"][RUN_LABEL]):
                network.remove()

    def _labels(self) -> dict[str, str]:
        return {RUN_LABEL: self._run, DIRECTORY_LABEL: str(self._directory)}


def _born(pid: int) -> str:
    """Return a name that identifies the process by its pid and start time, or "" if the process does not exist."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    return f"{pid}.{stat[stat.rindex(')') + 2 :].split()[19]}"


def _lives(label: str) -> bool:
    return _born(int(label.partition(".")[0])) == label


def _unmount(directory: Path) -> None:
    for disk in directory.glob("node-*/disk"):
        if disk.is_mount():
            with suppress(ChaosError):
                run("umount", str(disk))
