"""Tests that the validation does not read space that was allocated and never written, and that it finds all written
bytes."""

from __future__ import annotations

from pathlib import Path

import pytest

from ledger.validation.judging.plain_engine import PlainEngine
from ledger.validation.sources.sources import open_sources
from ledger.validation.validate import validate
from tests.ledger.validation.stopped_cluster import StoppedCluster

SEGMENT = 1 << 20


@pytest.fixture
def cluster(tmp_path: Path) -> StoppedCluster:
    """A cluster in which only the beginning of each segment was ever written."""
    cluster = StoppedCluster.make(tmp_path, 3, segment_bytes=SEGMENT)
    for replica in cluster.replicas:
        segment = segment_of(replica.shard)
        data = segment.read_bytes().rstrip(b"\0")
        segment.unlink()
        segment.write_bytes(data)
        with segment.open("r+b") as file:
            file.truncate(SEGMENT)
    return cluster


def segment_of(shard: Path) -> Path:
    (segment,) = (shard / "log").iterdir()
    return segment


def test_unwritten_space_is_not_read(cluster: StoppedCluster) -> None:
    planned: list[int] = []
    report = validate(cluster.sources, PlainEngine(), on_plan=lambda _, size: planned.append(size))
    assert (report.violations, report.not_judged) == ((), ())
    assert planned[0] < 3 * SEGMENT / 4
    replicas, _ = open_sources(cluster.sources)
    assert [replica.segments[0].length for replica in replicas] == [SEGMENT] * 3


def test_what_stands_far_behind_the_log_is_found(cluster: StoppedCluster) -> None:
    with segment_of(cluster.replicas[1].shard).open("r+b") as file:
        file.seek(SEGMENT - 5_000)
        file.write(b"junk")
    (violation,) = validate(cluster.sources, PlainEngine()).violations
    assert (violation.source, violation.position) == (cluster.sources[1], SEGMENT - 5_000)
