"""Tests logs as tables: messages from log files without a running node, comparisons of replicas, and reports of
damage."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException

from cluster.local.processes import DevCluster
from ledgermq import Admin, Producer
from tests.ledger.spark.live_copy import copy_live
from tests.ledger.spark.reading import table, values

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def log(spark: SparkSession, *paths: Path | str, **options: str) -> DataFrame:
    return spark.read.format("ledgermq-log").options(**options).load(",".join(map(str, paths)))


@pytest.fixture(scope="module")
def filled(admin: Admin, producer: Producer) -> str:
    """A topic in both shards, with keys, tags and headers; and one that was deleted, and made again."""
    topic = admin.create_topic("filled", 4).name
    for number in range(40):
        extras = {"key": b"k", "tag": "t" if number % 2 else None, "headers": [("n", b"%d" % number)]}
        producer.send(topic, b"%02d" % number, queue=number % 4, **extras)  # type: ignore[arg-type]
    admin.create_topic("fleeting", 1)
    producer.send("fleeting", b"gone")
    admin.delete_topic("fleeting")
    return topic


def data(nodes: DevCluster) -> str:
    return f"{nodes.directory}/node-*/data"


def test_the_files_have_what_the_cluster_gives(
    spark: SparkSession, nodes: DevCluster, bootstrap: str, filled: str
) -> None:
    kafkas = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]
    columns = [*kafkas, "headers", "tag", "keys", "term"]
    from_nodes = table(spark, bootstrap, subscribe=filled, includeHeaders="true").select(columns).collect()
    from_files = log(spark, data(nodes), subscribe=filled, includeHeaders="true").select(columns).collect()
    assert len(from_files) == 40
    assert sorted(from_files, key=lambda row: row.value) == sorted(from_nodes, key=lambda row: row.value)


def test_every_replica_has_each_message_once(spark: SparkSession, nodes: DevCluster, filled: str) -> None:
    rows = log(spark, data(nodes), subscribe=filled, replica="all")
    counted = rows.groupBy("partition", "offset").agg({"replica": "count", "value": "count", "term": "max"})
    assert {(row["count(replica)"], row["count(value)"]) for row in counted.collect()} == {(3, 3)}
    assert {row.replica for row in rows.select("replica").distinct().collect()} == {"1", "2", "3"}
    only = log(spark, data(nodes), subscribe=filled, replica="2", tag="t")
    assert values(only) == [f"{number:02}" for number in range(1, 40, 2)]


def test_nodes_that_run_serve_their_logs_over_http(spark: SparkSession, nodes: DevCluster, filled: str) -> None:
    addresses = [f"http://{state.http}" for state in nodes.status()]
    columns = ["replica", "partition", "offset", "value", "tag", "term"]
    served = log(spark, *addresses, subscribe=filled, replica="all").select(columns).collect()
    assert len(served) == 3 * 40
    assert sorted(served) == sorted(log(spark, data(nodes), subscribe=filled, replica="all").select(columns).collect())


def test_a_deleted_topic_is_not_there_and_patterns_choose_among_the_others(
    spark: SparkSession, nodes: DevCluster, filled: str
) -> None:
    found = log(spark, data(nodes), subscribePattern="f.*").select("topic").distinct().collect()
    assert [row.topic for row in found] == [filled]
    with pytest.raises(PySparkException, match='"fleeting"'):
        log(spark, data(nodes), subscribe="fleeting").collect()


def test_damage_is_told_with_its_place_or_passed_over(
    spark: SparkSession, nodes: DevCluster, filled: str, tmp_path: Path
) -> None:
    copy = copy_live(nodes.directory / "node-1" / "data", tmp_path / "node-1")
    for segment in sorted((copy / "shard-0" / "log").iterdir())[:1]:
        content = bytearray(segment.read_bytes())
        content[content.index(b"LMQB") + 70] ^= 1  # in the body of a batch
        segment.write_bytes(bytes(content))
    with pytest.raises(PySparkException, match=r"(?s)shard-0/log/0+, position \d+.*failOnDataLoss"):
        log(spark, copy).collect()
    rest = log(spark, copy, subscribe=filled, failOnDataLoss="false")
    assert 30 <= rest.count() <= 40


@pytest.mark.parametrize(
    ("path", "options", "told"),
    [
        ("/nowhere", {}, "path.*/nowhere.*is not a directory"),
        ("/nowhere*", {}, "path.*/nowhere.*no file or directory has this name"),
        ("HERE", {"replica": "9"}, 'replica" is "9".*nodes 1, 2, 3'),
        ("HERE", {"subscribe": "nowhere"}, 'subscribe" names "nowhere"'),
        ("HERE", {"startingOffsets": "earliest"}, 'no option "startingOffsets"'),
    ],
)
def test_what_cannot_be_read_is_told(
    spark: SparkSession, nodes: DevCluster, path: str, options: dict[str, str], told: str
) -> None:
    with pytest.raises(PySparkException, match=rf"(?si){told}"):
        log(spark, path.replace("HERE", data(nodes)), **options).collect()
