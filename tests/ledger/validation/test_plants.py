"""Every planted corruption is told at its exact place, and nothing else is; whatever the size of spans."""

from __future__ import annotations

from pathlib import Path

import pytest

from ledger.validation.judging.plain_engine import PlainEngine
from ledger.validation.validate import validate
from tests.ledger.validation.plants import PLANTS, check
from tests.ledger.validation.stopped_cluster import StoppedCluster

pytestmark = pytest.mark.long


@pytest.mark.parametrize("name", PLANTS)
def test_a_plant_is_found_where_it_is(tmp_path: Path, name: str) -> None:
    cluster = StoppedCluster.make(tmp_path)
    planted = PLANTS[name](cluster)
    history = cluster.history(tmp_path / "history.jsonl", planted.sends)
    for span_bytes in (1 << 20, 4096, 104):
        report = validate(cluster.sources, PlainEngine(), histories=[history], span_bytes=span_bytes)
        assert report.not_judged == ()
        check(f"{name}, spans of {span_bytes}", planted, report.violations)
        assert report.status == (1 if report.violations else 0)
        notes = " ".join(report.shards[0].notes)
        assert all(part in notes for part in planted.notes)
