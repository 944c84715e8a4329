"""The measurement of keyed rows sends each row in each of its ways."""

from __future__ import annotations

import asyncio
import json

import pytest

from bench.clients import keyed_rows
from tests.ledger.client.fake_broker import FakeBroker, FakeCluster

pytestmark = pytest.mark.real


async def test_each_way_sends_each_row(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = FakeCluster()
    cluster.create(keyed_rows.TOPIC, 4)
    broker = FakeBroker(1, cluster)
    await broker.start()
    words = ["keyed_rows", "--bootstrap", cluster.addresses[1], "--rows", "300", "--json"]
    monkeypatch.setattr("sys.argv", words)
    assert await asyncio.to_thread(keyed_rows.main) == 0
    await broker.stop()
    ways = [json.loads(line)["way"] for line in capsys.readouterr().out.splitlines()]
    assert ways == ["send_many", "send_table", "send_nowait", "async"]
    stored = sorted(value for queue in range(4) for value in cluster.values(keyed_rows.TOPIC, queue))
    assert stored == sorted(keyed_rows.Rows(300).values * 6), "the warm-ups are short of rows here"
