"""Charts are drawn beside the event loop of the node, one after the other."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Mapping, Sequence

import pytest

from cluster.console import charts
from cluster.console.charts import ChartPainter


async def test_charts_are_drawn_one_after_the_other_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    node, drawing = threading.get_ident(), threading.Lock()

    def draw(lines: Mapping[str, Sequence[float]], seconds_a_point: float) -> bytes:
        assert threading.get_ident() != node
        assert drawing.acquire(blocking=False), "two charts are drawn at the same time"
        time.sleep(0.001)
        drawing.release()
        return f"{list(lines)} {seconds_a_point}".encode()

    monkeypatch.setattr(charts, "rate_chart", draw)
    painter = ChartPainter()
    images = await asyncio.gather(*(painter.rate_chart({str(number): [1.0]}, 2.0) for number in range(20)))
    assert images == [f"['{number}'] 2.0".encode() for number in range(20)]


async def test_a_chart_is_an_image() -> None:
    image = await ChartPainter().rate_chart({"sent": [1.0, 2.0], "received": [0.0, 0.0]}, 2.0)
    assert b"<svg" in image[:200]
