"""Every query of every Grafana dashboard returns data, and every metric of a node is in docs/METRICS.md.

A real Prometheus scrapes three nodes with a port for RocketMQ's clients, under a small load of everything that the
dashboards show. Grafana itself is not run.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from cluster.node.metrics.catalogue import METRICS
from cluster.node.metrics.definition import MetricDefinition, MetricKind
from ledgermq import AsyncAdmin, AsyncGroupConsumer, AsyncProducer, AsyncSharedConsumer
from tests.cluster.fleet import sample_batch
from tests.cluster.monitoring.node_processes import NodeProcesses
from tests.cluster.monitoring.prometheus import FACTOR, ROOT, Prometheus, needs_prometheus, rule_groups
from tests.cluster.ports import free_base_port
from tests.cluster.secured import PASSWORD, tls_fleet
from tests.cluster.waiter import eventually

DASHBOARDS = ROOT / "deploy/grafana/dashboards"
VARIABLES = {
    "$job": "ledgermq",
    "$topic": ".*",
    "$consumer_group": ".*",
    "$__rate_interval": "10s",
    "[30m]": f"[{1_800 // FACTOR}s]",
}
"""What Grafana puts in their places. A range is scaled as those of the rules are."""
LABELS_OF_PROMETHEUS = {"__name__", "instance", "job", "le"}


def queries() -> dict[str, str]:
    """Return every query of every dashboard, by dashboard, panel and number."""
    return {
        f"{path.stem}: {panel['title']} {target['refId']}": target["expr"]
        for path in sorted(DASHBOARDS.glob("*.json"))
        for panel in json.loads(path.read_text(encoding="utf-8"))["panels"]
        for target in panel.get("targets", ())
    }


@pytest.mark.real
def test_the_dashboards_are_up_to_date(tmp_path: Path) -> None:
    subprocess.run([sys.executable, ROOT / "deploy/grafana/generate.py", tmp_path], check=True, timeout=60)
    made = {path.name: path.read_text(encoding="utf-8") for path in tmp_path.iterdir()}
    kept = {path.name: path.read_text(encoding="utf-8") for path in DASHBOARDS.iterdir()}
    assert made == kept, "run `make dashboards`"


def test_dashboards_have_grafana_s_form() -> None:
    dashboards = [json.loads(path.read_text(encoding="utf-8")) for path in DASHBOARDS.glob("*.json")]
    assert len({dashboard["uid"] for dashboard in dashboards}) == len(dashboards) == 4
    for dashboard in dashboards:
        taken: set[tuple[int, int]] = set()
        assert [panel["id"] for panel in dashboard["panels"]] == [*range(1, len(dashboard["panels"]) + 1)]
        for panel in dashboard["panels"]:
            place = panel["gridPos"]
            cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
            assert not cells & taken, f"{panel['title']} lies on another panel"
            assert max(x for x, _ in cells) < 24
            taken |= cells
    assert len(queries()) > 70


@pytest.mark.real
@pytest.mark.timeout(120)
async def test_every_query_returns_data(tmp_path: Path) -> None:
    needs_prometheus()
    nodes = NodeProcesses(tmp_path / "nodes", flush_pages=0)
    for node in nodes.fleet.nodes:
        nodes.override(node, rocketmq=f"127.0.0.1:{free_base_port(1)}")
    async with nodes, Prometheus(tmp_path / "prometheus", {"ledgermq": nodes.http}) as prometheus:
        nodes.start()
        await nodes.ready()
        async with load(nodes):
            empty = {**queries(), **recorded_series()}

            async def all_have_data() -> bool:
                for name, query in [*empty.items()]:
                    for variable, value in VARIABLES.items():
                        query = query.replace(variable, value)
                    if any(sample["value"][1] != "NaN" for sample in await prometheus.query(query)):
                        del empty[name]
                return not empty

            try:
                await eventually(all_have_data, "every query returns data", deadline_s=40)
            except AssertionError:
                assert empty == {}  # names them
            await every_metric_is_on_the_page(prometheus)


def recorded_series() -> dict[str, str]:
    return {rule["record"]: rule["record"] for group in rule_groups("recording_rules.yml") for rule in group["rules"]}


async def every_metric_is_on_the_page(prometheus: Prometheus) -> int:
    """Check the names and labels of all series, and return their number."""
    known = {name: metric for metric in METRICS for name in names_of(metric)}
    series = await prometheus.get("/api/v1/series", **{"match[]": '{__name__=~"(ledgermq|process)_.*"}'})
    for labels in series:
        assert labels["__name__"] in known, labels
        metric = known[labels["__name__"]]
        assert set(labels) - LABELS_OF_PROMETHEUS == set(metric.labels) - {"job"}, labels
    return len(series)


def names_of(metric: MetricDefinition) -> list[str]:
    suffixes = ("_bucket", "_sum", "_count") if metric.kind is MetricKind.HISTOGRAM else ("",)
    return [metric.name + suffix for suffix in suffixes]


@asynccontextmanager
async def load(nodes: NodeProcesses) -> AsyncIterator[None]:
    """Do a little of everything, again and again, during the block."""
    async with AsyncAdmin(nodes.bootstrap) as admin:
        for name in ("orders", "work", "reminders", "payments"):
            await admin.create_topic(name, 2)
        await admin.create_consumer_group("workers")
        topic = (await admin.describe_topic("orders")).topic_id
    places: Mapping[str, Any] = {"bootstrap_servers": nodes.bootstrap}
    leader = await nodes.leader()
    async with (
        AsyncProducer(nodes.bootstrap) as producer,
        AsyncGroupConsumer("orders", group="billing", **places) as consumer,
        AsyncSharedConsumer("work", group="workers", **places) as worker,
    ):

        async def work() -> None:
            number = 0
            while True:
                number += 1
                await producer.send_many("orders", [b"order"] * 20)
                await producer.send_many("work", [b"work"] * 20)
                await producer.send("reminders", b"soon", delay=timedelta(milliseconds=50))
                later = await producer.send("reminders", b"never", delay=timedelta(hours=1))
                assert later.handle is not None
                await producer.cancel(later.handle)
                async with producer.transaction("payments", group="checkout") as transaction:
                    await transaction.send(b"paid")
                first, second, *rest = await consumer.getmany()
                if number < 3:
                    await consumer.reconsume_later(first)
                    await consumer.give_up(second)
                consumer.finish(*rest, *((first, second) if number >= 3 else ()))
                await consumer.acknowledge()
                received = await worker.receive(10)
                await worker.ack(received[1:])
                batch = sample_batch(topic, producer_id=77, first_sequence=99)  # a gap
                await nodes.fleet.produce(leader, batch)
                await asyncio.sleep(0.2)

        task = asyncio.create_task(work())
        try:
            yield
            assert not task.done(), task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


@pytest.mark.real
@pytest.mark.timeout(60)
async def test_prometheus_scrapes_a_secured_node(tmp_path: Path) -> None:
    """With TLS and authentication, Prometheus is set up as the comments of prometheus.yml say. The program
    deploy/monitoring_user.py makes its user, as in docker-compose.yml."""
    needs_prometheus()
    password = tmp_path / "password"
    password.write_text(PASSWORD + "\n")
    password.chmod(0o600)
    fleet = tls_fleet(tmp_path / "fleet", 1, authentication=True, first_administrator_password_file=password)
    security = {
        "scheme": "https",
        "tls_config": {"ca_file": str(tmp_path / "ca.pem")},
        "basic_auth": {"username": "prometheus", "password_file": str(tmp_path / "prometheus.password")},
    }
    environment = {
        "LEDGERMQ_BOOTSTRAP": fleet.address(1),
        "LEDGERMQ_CA": str(tmp_path / "fleet/ca.pem"),
        "LEDGERMQ_USER": "admin",
        "LEDGERMQ_PASSWORD_FILE": str(password),
    }
    jobs = {"ledgermq": [fleet.http(1)]}
    try:
        await fleet.start()
        passwords = []
        for _ in range(2):
            made = await asyncio.create_subprocess_exec(
                sys.executable, ROOT / "deploy/monitoring_user.py", tmp_path, env={**os.environ, **environment}
            )
            assert await made.wait() == 0
            passwords.append((tmp_path / "prometheus.password").read_text())
        assert passwords[0] == passwords[1], "a second run changes nothing"
        async with Prometheus(tmp_path / "prometheus", jobs, security) as prometheus:

            async def is_scraped() -> bool:
                return bool(await prometheus.query("ledgermq_tls_certificate_not_after_timestamp_seconds > time()"))

            await eventually(is_scraped, "Prometheus scrapes the node")
            assert await every_metric_is_on_the_page(prometheus) > 100
    finally:
        await fleet.close()
