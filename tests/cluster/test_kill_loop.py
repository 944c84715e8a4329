"""A short run of the kill loop: some kills in some pairs of modes. `make kills` runs all pairs with more kills."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tests.cluster.kill_loop import kill_often

pytestmark = pytest.mark.real

SEED = int(os.environ.get("LEDGERMQ_TEST_SEED", time.time_ns() & 0xFFFF_FFFF))
KILLS = 2


@pytest.mark.timeout(400)
@pytest.mark.parametrize(("flush", "write"), [("async", "mapped"), ("async", "staged"), ("sync", "direct")])
async def test_nothing_that_was_promised_is_lost(tmp_path: Path, flush: str, write: str) -> None:
    print(f"LEDGERMQ_TEST_SEED={SEED} repeats the draws of this run")
    figures = await kill_often(tmp_path, flush, write, KILLS, SEED)
    assert figures.kills >= KILLS
    assert figures.read_back > 0
    assert figures.acknowledged > 0
