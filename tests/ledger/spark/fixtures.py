"""One Spark session and one small cluster of real node processes for all tests here; a test has topics of its own."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cluster.local.processes import DevCluster
from ledger.spark.session import start_session
from ledgermq import Admin, Producer
from tests.cluster.ports import free_base_port

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MakeTopic = Callable[..., str]
"""The fixture `make_topic`: takes the number of queues, gives a new topic's name."""

_numbers = itertools.count(1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give the tests of Spark a longer time-out, because the first query of a session is slow on a busy machine. A test
    that has a time-out of its own keeps it."""
    for item in items:
        if Path(__file__).parent in item.path.parents and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(300))


@pytest.fixture(scope="package")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    conf = {
        "spark.sql.shuffle.partitions": "2",
        # What is run a few times does not gain by being compiled well, which takes longer than the tests.
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
        "spark.local.dir": str(tmp_path_factory.mktemp("spark")),
    }
    session = start_session("tests", master="local[2,2]", conf=conf)  # a task that fails is tried again
    yield session
    logging.getLogger("py4j").setLevel(logging.ERROR)  # it tells of its end when nobody listens any more
    session.stop()


@pytest.fixture(scope="package")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevCluster]:
    """A local cluster of three nodes with two shards."""
    cluster = DevCluster(tmp_path_factory.mktemp("cluster"))
    cluster.start(3, base_port=free_base_port(3), shards=2, segment_bytes=8 << 20)
    yield cluster
    cluster.purge()


@pytest.fixture(scope="package")
def bootstrap(nodes: DevCluster) -> str:
    return nodes.bootstrap


@pytest.fixture(scope="package")
def admin(bootstrap: str) -> Iterator[Admin]:
    with Admin(bootstrap) as admin:
        yield admin


@pytest.fixture(scope="package")
def producer(bootstrap: str) -> Iterator[Producer]:
    with Producer(bootstrap) as producer:
        yield producer


@pytest.fixture
def make_topic(admin: Admin) -> MakeTopic:
    def make(queues: int = 2) -> str:
        return admin.create_topic(f"topic-{next(_numbers)}", queues).name

    return make
