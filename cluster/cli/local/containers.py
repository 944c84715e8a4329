"""Finds a cluster that runs in containers. Docker's SDK is imported only when a command needs it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster.cli.failure import CommandError

if TYPE_CHECKING:
    from cluster.local.containers import DockerCluster


def docker_cluster(name: str) -> DockerCluster:
    """Return the cluster `name`. Raises CommandError without Docker's SDK, and DevError if Docker does not answer."""
    try:
        from cluster.local.containers import DockerCluster
    except ModuleNotFoundError as error:
        raise CommandError(
            f"containers need the package {error.name}, which is not installed: pip install 'ledgermq[docker]'"
        ) from error
    return DockerCluster(name)
