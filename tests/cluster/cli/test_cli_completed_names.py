"""Tests that shells complete the names of topics and consumer groups, quickly and in silence."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.cli import completed_names
from cluster.local.processes import DevCluster
from ledgermq import Admin, GroupConsumer, Producer
from tests.cluster.cli.command import completed
from tests.cluster.ports import free_base_port

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevCluster]:
    made = DevCluster(tmp_path_factory.mktemp("names") / "ledgermq-data")
    made.start(1, base_port=free_base_port(1))
    with Admin(made.bootstrap) as admin, Producer(made.bootstrap) as producer:
        for name in ("orders", "order-events", "payments"):
            admin.create_topic(name, 1)
        producer.send("orders", b"1")
        for group in ("billing", "billing-test", "audit"):
            with GroupConsumer("orders", group=group, bootstrap_servers=made.bootstrap) as consumer:
                next(consumer)
    yield made
    made.purge()


def test_topics_are_completed(cluster: DevCluster) -> None:
    home = cluster.directory.parent  # where the local cluster is found without an option
    for command in (("produce",), ("consume", "payments"), ("topic", "describe")):
        assert completed(home, *command, "ord") == {"orders", "order-events"}
    assert completed(home, "message", "query", "--topic", "p") == {"payments"}
    assert completed(home, "consume", "") == {"orders", "order-events", "payments"}
    assert "%RETRY%billing" in completed(home, "consume", "%")
    assert completed(home, "topic", "create", "ord") == set()


def test_consumer_groups_are_completed(cluster: DevCluster, tmp_path: Path) -> None:
    named = {"LEDGERMQ_BOOTSTRAP": cluster.bootstrap}
    for command in (("group", "describe"), ("dlq", "list"), ("consume", "orders", "--group")):
        assert completed(tmp_path, *command, "bill", **named) == {"billing", "billing-test"}
    assert completed(tmp_path, "group", "delete", "--bootstrap", cluster.bootstrap, "a") == {"audit"}


def test_a_cluster_that_does_not_answer_costs_little_time(tmp_path: Path) -> None:
    """`completed` checks that nothing is printed."""
    assert completed(tmp_path, "consume", "ord") == set(), "there is no cluster"
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        began = time.monotonic()
        for address in (f"127.0.0.1:{port}", "127.0.0.1:1", "nowhere"):
            assert completed(tmp_path, "consume", "--bootstrap", address, "ord") == set()
        assert completed(tmp_path, "consume", "--local", str(tmp_path), "ord") == set()
        assert completed(tmp_path, "consume", "--profile", "nobody", "ord") == set()
        assert time.monotonic() - began < 5 * 5


def test_names_that_a_shell_would_interpret_are_left_out() -> None:
    names = ["orders", "$(reboot)", "a b", "a\nb", "`id`", "caches@host-1", "%DLQ%billing", "x;y"]
    assert [item.value for item in completed_names._items(names, "")] == ["%DLQ%billing", "caches@host-1", "orders"]
