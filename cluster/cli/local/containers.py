"""How commands find clusters in containers: loaded only where one is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster.cli.failure import CommandError

if TYPE_CHECKING:
    from cluster.local.containers import DockerCluster


def docker_cluster(name: str) -> DockerCluster:
    """Raises CommandError where Docker's SDK is not installed, DevError where no engine answers."""
    try:
        from cluster.local.containers import DockerCluster
    except ModuleNotFoundError as error:
        raise CommandError(
            f"containers need the package {error.name}, which is not installed: pip install 'ledgermq[docker]'"
        ) from error
    return DockerCluster(name)
