"""Finds a local cluster that runs in containers. Docker's SDK (the Python package) is imported only when a command
needs it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster.cli.failure import CommandError

if TYPE_CHECKING:
    from cluster.local.containers import DockerCluster


def docker_cluster(name: str) -> DockerCluster:
    """Return the container cluster `name`. Raises CommandError if Docker's SDK is not installed, and DevError if
    Docker does not answer."""
    try:
        from cluster.local.containers import DockerCluster
    except ModuleNotFoundError as error:
        raise CommandError(
            f"containers need the package {error.name}, which is not installed: pip install 'ledgermq[docker]'"
        ) from error
    return DockerCluster(name)
