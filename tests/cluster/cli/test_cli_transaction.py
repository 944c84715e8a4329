"""Tests `ledgermq transaction` against a local cluster of one node with two shards."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cluster.local.processes import DevCluster
from ledgermq import Admin, Consumer, Producer
from tests.cluster.cli.command import run

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A directory with a running cluster of one node, and a topic."""
    made = tmp_path_factory.mktemp("transaction")
    cluster = DevCluster(made / "ledgermq-data")
    try:
        base_port = str(random.randrange(20_000, 32_000, 10))
        run("dev", "start", "-n", "1", "--shards", "2", "--base-port", base_port, cwd=made)
        run("topic", "create", "orders", "--queues", "2", cwd=made)
        (made / "bootstrap").write_text(cluster.bootstrap)
        yield made
    finally:
        cluster.purge()


def listed(directory: Path, *arguments: str) -> list[dict[str, Any]]:
    printed = run("transaction", "list", *arguments, "--format", "json", cwd=directory).stdout
    return [json.loads(line) for line in printed.splitlines()]


def test_transactions_are_listed_shown_and_ended(directory: Path) -> None:
    bootstrap = (directory / "bootstrap").read_text()
    with Producer(bootstrap) as producer:
        ids = []
        for number in range(3):
            begun = producer.transaction("orders", group=f"group-{number % 2}")
            for queue in (0, 1):
                begun.send(b"%d" % number, queue=queue, key=f"key-{number}")
            ids.append(begun.id)
        first, second, third = listed(directory)
        assert [each["id"] for each in (first, second, third)] == ids
        assert (first["group"], first["state"], first["unknowns"]) == ("group-0", "open", 0)
        assert first["queues"] == [{"topic": "orders", "queue": 0}], "the other message waits in another shard"
        assert listed(directory, "--group", "group-1") == [second]
        page = run("transaction", "list", "--limit", "2", cwd=directory)
        assert b"The first 2 transactions; there may be more" in page.stderr
        assert first["id"].encode() in page.stdout

        shown = run("transaction", "show", first["id"], cwd=directory)
        assert b"group group-0 is open" in shown.stderr
        assert b"key-0" in shown.stdout
        whole = json.loads(run("transaction", "show", first["id"], "--format", "json", cwd=directory).stdout)
        assert [(each["queue"], each["value"]) for each in whole["messages"]] == [(0, "0")]

        assert (
            b"1 transaction committed." in run("transaction", "commit", first["id"], first["id"], cwd=directory).stderr
        )
        assert b"1 transaction rolled back." in run("transaction", "rollback", second["id"], cwd=directory).stderr
        refused = run("transaction", "commit", second["id"], first["id"], cwd=directory, status=1)
        assert b"was rolled back before" in refused.stderr
        assert b"1 transaction committed." in refused.stderr
        assert b"was committed at" in run("transaction", "show", first["id"], cwd=directory).stderr
        assert listed(directory) == [third]
    with Admin(bootstrap) as admin:
        assert third["id"] is not None
        admin.rollback_transaction(third["id"])
        assert admin.transactions() == []
        ended = admin.transaction(third["id"])
        assert ended is not None
        assert ended.state == "rolled back"
    with Consumer("orders", bootstrap_servers=bootstrap) as consumer:
        messages = [next(consumer), next(consumer)]
        assert [(message.queue, message.value) for message in sorted(messages)] == [(0, b"0"), (1, b"0")]
        assert consumer.getmany(10, 200) == []
    assert b"No transactions are open." in run("transaction", "list", cwd=directory).stderr


def test_a_wrong_id_is_named(directory: Path) -> None:
    assert b"is not the id of a transaction" in run("transaction", "show", "x1_wrong", cwd=directory, status=1).stderr


def test_all_transactions_of_a_group_are_rolled_back(directory: Path) -> None:
    bootstrap = (directory / "bootstrap").read_text()
    with Producer(bootstrap) as producer:
        for number in range(150):
            producer.transaction("orders", group="dead").send(b"%d" % number)
        other = producer.transaction("orders", group="alive")
        other.send(b"x")
        ended = run("transaction", "rollback", "--group", "dead", cwd=directory)
        assert b"150 transactions rolled back." in ended.stderr
        assert [each["id"] for each in listed(directory)] == [other.id]
        other.rollback()


@pytest.mark.parametrize("arguments", [(), ("some-id", "--group", "dead")])
def test_a_rollback_is_told_what_to_roll_back(directory: Path, arguments: tuple[str, ...]) -> None:
    refused = run("transaction", "rollback", *arguments, cwd=directory, status=2)
    assert b"give the ids of transactions, or --group" in refused.stderr
