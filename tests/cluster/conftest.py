"""Fixtures for tests that run nodes. A module that shares one fleet among its tests makes it itself."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
from fleet import Fleet, MakeFleet


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
    """A task that ends in an exception nobody asked for, or a servicer that raises, fails the test."""
    yield
    stray = [
        record.getMessage() + (f": {record.exc_info[1]!r}" if record.exc_info else "")
        for record in caplog.get_records("call")
        if record.levelno >= logging.ERROR and record.name.startswith(("asyncio", "grpc"))
    ]
    assert not stray
