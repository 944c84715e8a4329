"""Tests sources that change or disappear while they are read: the report names them, and does not judge data that
no longer exists."""

from __future__ import annotations

import shutil
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ledger.validation.judging.plain_engine import PlainEngine
from ledger.validation.report.report import NOT_JUDGED, ValidationReport
from ledger.validation.sources import sources
from ledger.validation.sources.access import FileAccess, HttpAccess
from ledger.validation.sources.errors import SegmentGoneError, SourceError
from ledger.validation.sources.replica import Segment
from ledger.validation.validate import validate
from store import SegmentFile
from tests.ledger.validation.stopped_cluster import StoppedCluster

SPAN_BYTES = 4096


@pytest.fixture
def cluster(tmp_path: Path) -> StoppedCluster:
    return StoppedCluster.make(tmp_path)


def validate_while(sources: list[str], happens: Callable[[], object], *, after: int | None = None) -> ValidationReport:
    """Validate the sources, and call `happens` after `after` spans (None: after all spans)."""
    sizes: list[int] = []

    def progress(spans: int, _bytes: int, _wrong: int) -> None:
        if spans == (after or sizes[0]):
            happens()

    return validate(
        sources, PlainEngine(progress), span_bytes=SPAN_BYTES, on_plan=lambda spans, _bytes: sizes.append(spans)
    )


@pytest.mark.parametrize("after", [1, None])
def test_a_directory_that_vanishes_is_not_judged_and_named(cluster: StoppedCluster, after: int | None) -> None:
    gone = cluster.replicas[2].path if after is None else cluster.replicas[0].path
    report = validate_while(cluster.sources, lambda: shutil.rmtree(gone), after=after)
    assert report.violations == ()
    if after is None:  # all that its verdict rests on had been read
        assert report.not_judged == ()
        return
    assert report.status == NOT_JUDGED
    assert report.not_judged
    assert all(str(gone) in why for why in report.not_judged)


def test_a_segment_that_goes_while_a_source_is_opened_is_looked_for_again(
    cluster: StoppedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    hidden: list[Path] = []
    segment_of = sources._segment_of

    def gone_at_first(file: SegmentFile) -> Segment:
        if hidden:
            return segment_of(file)
        hidden.append(file.path.rename(file.path.with_suffix(".hidden")))
        try:
            return segment_of(file)
        finally:
            hidden[0].rename(file.path)

    monkeypatch.setattr(sources, "_segment_of", gone_at_first)
    assert sources.open_sources(cluster.sources[:1])[1] == []
    assert hidden


@pytest.mark.parametrize("index", ["keys", "queues/1-0"])
def test_an_index_that_cannot_be_read_is_named(cluster: StoppedCluster, index: str) -> None:
    (file, *_) = sorted((cluster.replicas[0].shard / index).iterdir())
    file.unlink()
    file.mkdir()
    report = validate(cluster.sources, PlainEngine())
    assert report.status == NOT_JUDGED
    assert all(f"{file} cannot be read: Is a directory" in why for why in report.not_judged)


def test_a_shard_of_another_cluster_among_the_shards_of_a_node_is_told(cluster: StoppedCluster, tmp_path: Path) -> None:
    other = StoppedCluster.make(tmp_path / "other", 3, cluster="another", shard=1)
    shutil.copytree(other.replicas[0].shard, cluster.replicas[0].path / "shard-1")
    report = validate(cluster.sources, PlainEngine())
    assert report.status == NOT_JUDGED
    (why,) = report.not_judged
    assert "shard 1 belongs to cluster 'another', and the node to cluster 'test'" in why
    assert cluster.sources[0] in why


# -- over HTTP

ANSWER = b"HTTP/1.1 206 Partial Content\r\nContent-Length: 100\r\n\r\n"
SEGMENT = Segment("http://{}/shards/0/segments/00000000000000000000", 0, 1000)


@contextmanager
def node_that(answers: Callable[[socket.socket, int], None]) -> Iterator[tuple[Segment, list[int]]]:
    """Run a server that passes each connection, with its number, to `answers`. Yield a segment on this server, and
    the list of connections so far."""
    server = socket.create_server(("127.0.0.1", 0))
    connections: list[int] = []
    ended = threading.Event()

    def serve() -> None:
        open_ones = []
        while True:
            connection, _ = server.accept()
            if ended.is_set():
                break
            connections.append(len(connections))
            open_ones.append(connection)
            answers(connection, len(connections))
        for each in open_ones:
            each.close()

    thread = threading.Thread(target=serve)
    thread.start()
    host = f"127.0.0.1:{server.getsockname()[1]}"
    try:
        yield Segment(SEGMENT.path.format(host), SEGMENT.base, SEGMENT.length), connections
    finally:
        ended.set()
        socket.create_connection(server.getsockname()).close()
        thread.join()
        server.close()


@pytest.mark.real
def test_a_node_that_dies_in_the_middle_of_an_answer_is_named() -> None:
    def die(connection: socket.socket, _: int) -> None:
        connection.recv(65_536)
        connection.sendall(ANSWER + b"half of it")
        connection.close()

    with node_that(die) as (segment, _), pytest.raises(SourceError, match=f"{segment.path} cannot be read"):
        HttpAccess().read(segment, 0, 100)


@pytest.mark.real
def test_a_node_that_hangs_is_waited_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ledger.validation.sources.access._TIMEOUT_S", 0.1)

    def hang(connection: socket.socket, _: int) -> None:
        connection.recv(65_536)

    with node_that(hang) as (segment, connections):
        access = HttpAccess()
        for _ in range(3):
            with pytest.raises(SourceError, match=f"{segment.path} cannot be read: the node did not answer within"):
                access.read(segment, 0, 100)
        assert len(connections) == 1


@pytest.mark.real
def test_a_port_without_http_is_told() -> None:
    def speak_http_2(connection: socket.socket, _: int) -> None:
        connection.recv(65_536)
        connection.sendall(b"\x00\x00\x18\x04" + bytes(20))
        connection.close()

    with node_that(speak_http_2) as (segment, _), pytest.raises(SourceError, match="give the HTTP port of a node"):
        HttpAccess().read(segment, 0, 100)


def test_a_directory_that_another_host_has_is_no_segment_that_retention_removed(tmp_path: Path) -> None:
    """A running node's segment that is gone would be left out of the validation without a violation."""
    with pytest.raises(SourceError, match=r"log does not exist on host .*all hosts of Spark's executors"):
        FileAccess().read(Segment(str(tmp_path / "log" / "0"), 0, 100), 0, 100)
    (tmp_path / "log").mkdir()
    with pytest.raises(SegmentGoneError, match="was removed"):
        FileAccess().read(Segment(str(tmp_path / "log" / "0"), 0, 100), 0, 100)
