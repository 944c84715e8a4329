"""How a chaos run learns from the metrics of nodes that transactions wait. The nodes are an answer on a table."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from chaos.errors import ChaosError
from chaos.live import operator
from chaos.live.hosts.node_security import NodeSecurity
from chaos.live.operator import ClusterOperator
from cluster.node.metrics.transaction_metrics import TransactionCollector
from ledger.transactions import TransactionOutcome


def metrics(waiting: int, carried: int) -> bytes:
    """Return what a node answers whose shard 2 has these half batches, and commits that are being carried out."""
    table = SimpleNamespace(waiting=dict.fromkeys(range(waiting)), waiting_bytes=9, committed=range(carried))
    replica = SimpleNamespace(shard=2, state=SimpleNamespace(transactions=table), knows_the_end=False)
    ends = SimpleNamespace(ended=dict.fromkeys(TransactionOutcome, 5))
    registry = CollectorRegistry()
    registry.register(TransactionCollector(lambda: [cast("Any", SimpleNamespace(replica=replica, ends=ends))]))
    return generate_latest(registry)


def operator_of(monkeypatch: pytest.MonkeyPatch, *answers: bytes | None) -> ClusterOperator:
    """Return the operator of nodes that give these answers; None: no answer."""

    def answer(place: str, timeout: float) -> BytesIO:
        body = answers[int(place.removeprefix("http://node-").removesuffix("/metrics")) - 1]
        if body is None:
            raise ConnectionRefusedError
        return BytesIO(body)

    monkeypatch.setattr(operator, "urlopen", answer)
    nodes = range(1, len(answers) + 1)
    environment = SimpleNamespace(
        nodes=nodes, http="node-{}".format, pid=lambda node: node, setup=SimpleNamespace(secure=False)
    )
    return ClusterOperator(cast("Any", environment))


def test_half_batches_of_the_first_node_that_knows_some(monkeypatch: pytest.MonkeyPatch) -> None:
    assert operator_of(monkeypatch, None, metrics(0, 0), metrics(4, 1), metrics(3, 0)).half_batches() == 5
    assert operator_of(monkeypatch, None).half_batches() == 0


@pytest.mark.parametrize("last", [metrics(1, 0), metrics(0, 1), None])
def test_all_nodes_must_say_that_nothing_waits(monkeypatch: pytest.MonkeyPatch, last: bytes | None) -> None:
    operator_of(monkeypatch, metrics(0, 0), metrics(0, 0)).all_ended(0)
    with pytest.raises(ChaosError, match="not all transactions ended"):
        operator_of(monkeypatch, metrics(0, 0), last).all_ended(0)


def test_the_administrator_proves_itself_to_the_http_port(tmp_path: Path) -> None:
    (tmp_path / "security").mkdir()
    (tmp_path / "security" / "admin.password").write_text("secret\n")
    assert NodeSecurity(tmp_path).authorization() == "Basic YWRtaW46c2VjcmV0"
