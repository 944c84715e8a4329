"""When a node reports its routes to a name server."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from cluster.node import registration
from cluster.node.registration import Registration
from ledger.v1 import broker_pb2, nameserver_pb2


class Stream:
    """The stream to a name server, which answers each report."""

    def __init__(self) -> None:
        self.reports: list[nameserver_pb2.Registration] = []

    def done(self) -> bool:
        return False

    async def write(self, report: nameserver_pb2.Registration) -> None:
        self.reports.append(report)

    async def read(self) -> nameserver_pb2.RegistrationAnswer:
        return nameserver_pb2.RegistrationAnswer()


async def looked(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0.001)


async def test_a_node_reports_its_routes_after_a_change_and_after_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registration, "LOOK_S", 0.0)
    known, stream, unused = [broker_pb2.GetRouteResponse(topics_index=1)], Stream(), None
    running: Any = Registration(1, ["host:1"], lambda: known[0], unused)  # type: ignore[arg-type]
    task = asyncio.create_task(running._register(stream, "host:1"))
    await looked(5)
    assert [each.routes.topics_index for each in stream.reports] == [1], "routes that do not change are told once"
    known[0] = broker_pb2.GetRouteResponse(topics_index=2)
    await looked(5)
    assert [each.routes.topics_index for each in stream.reports] == [1, 2]
    monkeypatch.setattr(registration, "RENEW_S", 0.0)
    await looked(5)
    assert len(stream.reports) > 2, "they are told again, so that they stay valid"
    task.cancel()
