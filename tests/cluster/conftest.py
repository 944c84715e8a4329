"""Fixtures for tests that run nodes. A module that shares one fleet among its tests makes it itself."""

from __future__ import annotations

import logging
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import pytest_asyncio

from tests.cluster.fleet import Fleet, MakeFleet


@pytest.fixture(scope="session", autouse=True)
def nodes_come_and_go_quickly() -> Iterator[None]:
    """Here many nodes start and stop in one process, which is not theirs alone: what one does once in its life, for a
    clean heap and for streams that may end by themselves, would take most of the time of these tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("cluster.node.node.gc", SimpleNamespace(collect=lambda: 0, freeze=lambda: None))
        patch.setattr("cluster.node.node.STOP_GRACE_S", 0.05)
        # An error must not end the process of the tests; `nothing_unheard` hears of it.
        patch.setattr("cluster.node.process.vital.end_now", lambda _: None)
        yield


@pytest.fixture(scope="session", autouse=True)
def processes_heed_interrupts() -> Iterator[None]:
    """A shell has what it runs in the background ignore SIGINT, and whatever that starts inherits it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest_asyncio.fixture
async def make_fleet(tmp_path: Path) -> AsyncIterator[MakeFleet]:
    """Makes fleets below the test's directory, and stops them at its end."""
    fleets: list[Fleet] = []

    def make(nodes: int = 3, **options: object) -> Fleet:
        fleets.append(Fleet(tmp_path / f"fleet-{len(fleets)}", nodes, **options))  # type: ignore[arg-type]
        return fleets[-1]

    yield make
    for fleet in fleets:
        await fleet.close()


@pytest.fixture(autouse=True)
def nothing_unheard(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """A broken invariant in a node, a task that ends in an exception nobody asked for, or a servicer that raises,
    fails the test. (Not what gRPC has to tell the closed event loop of an earlier test's nodes: it tells this one.)"""
    yield
    stray = [
        record.getMessage() + (f": {record.exc_info[1]!r}" if record.exc_info else "")
        for record in caplog.get_records("call")
        if record.levelno >= logging.ERROR
        and record.name.startswith(("asyncio", "grpc", "ledgermq.node.vital"))
        and not ("PollerCompletionQueue" in record.getMessage() and "loop is closed" in str(record.exc_info))
    ]
    assert not stray
