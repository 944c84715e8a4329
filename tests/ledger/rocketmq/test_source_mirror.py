"""A mirror that copies from RocketMQ servers, without servers: a defect of a task ends the mirror."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from ledger.client.producer.producer import AsyncProducer
from ledger.errors import InternalError
from ledger.rocketmq.mirror.mirror import Mirror
from ledger.rocketmq.mirror.source_connection import SourceConnection
from ledger.rocketmq.mirror.source_settings import SourceAddress, SourceSettings


async def fails(*_: Any) -> None:
    raise KeyError("a defect")


async def goes_on(*_: Any) -> None:
    await asyncio.Event().wait()


async def nothing(*_: Any) -> None: ...


@pytest.mark.real
@pytest.mark.parametrize("task", ["mirror of t", "connection to server:1"])
async def test_a_defect_of_a_task_ends_the_mirror(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, task: str
) -> None:
    address = SourceAddress("server", 1)
    settings = SourceSettings([address], "group", "client")
    mirror = Mirror(settings, {"t": "t"}, cast(AsyncProducer[bytes], None), lambda: datetime.now(UTC), 1_000)
    monkeypatch.setattr(Mirror, "_follow", fails if task == "mirror of t" else goes_on)
    monkeypatch.setattr(SourceConnection, "run", goes_on if task == "mirror of t" else fails)
    monkeypatch.setattr(SourceConnection, "close", nothing)
    mirror._connection(address)
    with pytest.raises(InternalError, match=task):
        await asyncio.wait_for(mirror.run(), 5)
    assert "Traceback" in caplog.text
    await mirror.close()


@pytest.mark.real
async def test_a_defect_of_the_heartbeats_ends_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = SourceSettings([SourceAddress("server", 1)], "group", "client")
    connection = SourceConnection(settings.access_points[0], settings, ["t"], lambda: datetime.now(UTC))
    monkeypatch.setattr(SourceConnection, "_tell", goes_on)
    monkeypatch.setattr(SourceConnection, "_beat", fails)
    with pytest.raises(ExceptionGroup) as failed:
        await asyncio.wait_for(connection.run(), 5)
    assert failed.group_contains(KeyError)
    await connection.close()
