"""What several files of these tests use."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cluster.local.processes import DevCluster
from ledgermq import Admin
from tests.cluster.ports import free_base_port


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a running node with the topics `orders` and `replies`, and the shared group `shared`."""
    cluster = DevCluster(tmp_path_factory.mktemp("cluster"))
    cluster.start(1, base_port=free_base_port(1))
    with Admin(cluster.bootstrap) as admin:
        admin.create_topic("orders", 4)
        admin.create_topic("replies", 1)
        admin.create_consumer_group("shared")
    yield cluster.bootstrap
    cluster.purge()
