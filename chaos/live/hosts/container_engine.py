"""The engine's side of a run in containers: its network, the names and labels of what it makes, and what others left.

A label says which process made a thing, by pid and time of birth; what is labelled and has no such process any more
is of a run that was killed, and goes.
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
    """Of one run, which leaves its files in `directory`. Raises ChaosError where no engine answers."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._run = _born(os.getpid())
        self._name = f"ledgermq-chaos-{os.getpid()}"
        self._prefix = ""
        try:
            self._client = connect()
        except EngineError as error:
            raise ChaosError(f"{error}; --env local needs none") from error

    def need_image(self, image: str) -> None:
        """Raises ChaosError where it is not there."""
        try:
            need_image(self._client, image)
        except EngineError as error:
            raise ChaosError(str(error)) from error

    def make_network(self) -> None:
        """One of our address ranges that nobody uses; not the last run's, whose clients may still speak to it where
        that was killed."""
        first = os.getpid() % len(_NETWORKS)
        for prefix in (*_NETWORKS[first:], *_NETWORKS[:first]):
            pool = IPAMPool(subnet=f"{prefix}.0/24", gateway=f"{prefix}.{_OURS}")
            try:
                self._client.networks.create(
                    self._name, driver="bridge", ipam=IPAMConfig(pool_configs=[pool]), labels=self._labels()
                )
            except APIError as error:
                if "overlap" not in str(error).lower():
                    raise ChaosError(f"cannot make a network: {error.explanation}") from error
            else:
                self._prefix = prefix
                return
        raise ChaosError(f"no address range is free from {_NETWORKS[0]}.0/24 to {_NETWORKS[-1]}.0/24")

    def address(self, node: int) -> str:
        """On the run's network, which this machine reaches."""
        return f"{self._prefix}.{node}"

    def container(self, node: int) -> Container:
        """Not made yet."""
        return Container(self._client, f"{self._name}-{node}", self._labels(), self._name, self.address(node))

    def close(self) -> None:
        """The network goes; nothing happens where there is none."""
        with suppress(NotFound):
            self._client.networks.get(self._name).remove()
        self._client.close()

    def remove_stale(self) -> None:
        """What runs that were killed left behind: containers, networks, mounted disks."""
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
    """A process, so that it is not taken for a later one with its pid; "" where there is none."""
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
