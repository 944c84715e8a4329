"""Makes pytest fixtures of clusters, and keeps the clusters that tests share whole between two tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Literal

from cluster.testing.cluster import Cluster
from cluster.testing.node_files import Setting

if TYPE_CHECKING:
    import pytest

Scope = Literal["session", "package", "module", "class", "function"]

# The clusters of fixtures that run at the moment, and whether several tests share them. pytest runs the tests of a
# process one after another.
_running: list[tuple[Cluster, bool]] = []


def running_clusters() -> list[Cluster]:
    """Return the clusters of fixtures that run at the moment."""
    return [cluster for cluster, _ in _running]


def restore_shared_clusters() -> None:
    """Restore the clusters that the next test may use. Raises ClusterError if one of them cannot be restored."""
    for cluster, is_shared in _running:
        if is_shared and not cluster.is_whole():
            cluster.restore()


def cluster_fixture(
    nodes: int = 1,
    *,
    scope: Scope | Callable[[str, pytest.Config], Scope] = "function",
    name: str | None = None,
    shards: int = 1,
    settings: Mapping[str, Setting] | None = None,
) -> Callable[..., Iterator[Cluster]]:
    """Return a pytest fixture whose value is a running `Cluster`. Assign it to a name in a conftest.py or a test file:

        three_nodes = cluster_fixture(nodes=3, scope="module")

    A cluster is made for each `scope`. After each test, what the test did to the nodes is undone (`Cluster.restore`).
    `name` is the name of the fixture, by default the name that it is assigned to; the other arguments are those of
    `Cluster`. To give `ledgermq_cluster` and `ledgermq_topic` other nodes, assign to `ledgermq_cluster`.
    """
    import pytest  # here, because a cluster alone needs no pytest

    @pytest.fixture(scope=scope, name=name)
    def made(request: pytest.FixtureRequest) -> Iterator[Cluster]:
        yield from cluster_for_tests(Cluster(nodes, shards=shards, settings=settings), request.scope)

    return made


def cluster_for_tests(cluster: Cluster, scope: str) -> Iterator[Cluster]:
    """Start the cluster of a fixture, yield it, and stop it."""
    with cluster:
        running = (cluster, scope != "function")
        _running.append(running)
        try:
            yield cluster
        finally:
            _running.remove(running)
