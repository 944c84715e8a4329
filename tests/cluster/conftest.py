"""Fixtures for tests that run nodes. A module whose tests share one fleet defines the fixture of that fleet itself."""

from __future__ import annotations

import logging
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import pytest_asyncio

from tests.cluster.fleet import Fleet, MakeFleet
from tests.cluster.prepared import start_detached


@pytest.fixture(scope="session", autouse=True)
def nodes_come_and_go_quickly() -> Iterator[None]:
    """Skip the garbage collection at a node's start, and shorten the time that a stop leaves to open streams. In
    tests one process starts and stops many nodes, and both would take most of the time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("cluster.node.node.gc", SimpleNamespace(collect=lambda: 0, freeze=lambda: None))
        patch.setattr("cluster.node.node.STOP_GRACE_S", 0.05)
        # An error must not end the process of the tests; `nothing_unheard` hears of it.
        patch.setattr("cluster.node.process.vital.end_now", lambda _: None)
        yield


@pytest.fixture(scope="session", autouse=True)
def node_processes_start_quickly() -> Iterator[None]:
    """Fork the nodes of a DevCluster from a process that has imported their modules (prepared.py). The clusters that
    commands start are not changed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("cluster.local.node_process.start_detached", start_detached)
        yield


@pytest.fixture(scope="session", autouse=True)
def processes_heed_interrupts() -> Iterator[None]:
    """Let processes that tests start react to SIGINT. A shell makes its background processes ignore SIGINT, and
    their children inherit that."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest_asyncio.fixture
async def make_fleet(tmp_path: Path) -> AsyncIterator[MakeFleet]:
    """Yield a function that makes fleets in the test's directory. The fixture stops all fleets at the end of the
    test."""
    fleets: list[Fleet] = []

    def make(nodes: int = 3, **options: object) -> Fleet:
        fleets.append(Fleet(tmp_path / f"fleet-{len(fleets)}", nodes, **options))  # type: ignore[arg-type]
        return fleets[-1]

    yield make
    for fleet in fleets:
        await fleet.close()


@pytest.fixture(autouse=True)
def nothing_unheard(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Fail the test if a node logs a broken invariant, if a task ends with an exception that no code reads, or if a
    gRPC servicer raises."""
    yield
    stray = [
        record.getMessage() + (f": {record.exc_info[1]!r}" if record.exc_info else "")
        for record in caplog.get_records("call")
        if record.levelno >= logging.ERROR
        and record.name.startswith(("asyncio", "grpc", "ledgermq.node.vital", "ledgermq.node.requests"))
        and not _is_noise(record)
    ]
    assert not stray


def _is_noise(record: logging.LogRecord) -> bool:
    """Return whether gRPC logged an error that no code can prevent: a peer vanished while gRPC sent it the status of a
    stream that has ended."""
    return "ExecuteBatchError" in record.getMessage() and "SendStatusFromServerOperation" in str(record.exc_info)
