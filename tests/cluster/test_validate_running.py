"""Validates a running node that appends entries and removes its oldest segments during the validation."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from ledger.validation.judging.plain_engine import PlainEngine
from ledger.validation.report.report import VALID, ValidationReport
from ledger.validation.validate import validate
from ledgermq import AsyncProducer
from tests.cluster.fleet import SEGMENT_BYTES, Fleet, MakeFleet
from tests.cluster.waiter import eventually

pytestmark = pytest.mark.real

VALUE = bytes(range(256)) * 200
PER_SEGMENT = SEGMENT_BYTES // len(VALUE)
KEPT_BYTES = 4 * SEGMENT_BYTES


async def fill(producer: AsyncProducer, segments: int) -> None:
    for _ in range(segments):
        values = [VALUE] * PER_SEGMENT
        await asyncio.gather(
            *(producer.send_nowait("topic", value, key=f"key {number}") for number, value in enumerate(values))
        )


def start_of(fleet: Fleet) -> int:
    """Return the position at which the log of node 1 begins."""
    replica = fleet.running[1]._shards.first.replica
    assert replica is not None
    return replica.log.start


async def let_go_of(fleet: Fleet, position: int) -> None:
    """Trim the log, and wait until it begins later and the removed segments are gone."""

    async def gone() -> bool:
        first = min(int(path.name) for path in (fleet.data(1) / "shard-0" / "log").iterdir())
        return start_of(fleet) > position and first >= start_of(fleet) - SEGMENT_BYTES

    await eventually(gone, f"the log begins behind position {position}")


@pytest.mark.parametrize("over_http", [False, True], ids=["directory", "HTTP"])
async def test_what_retention_takes_meanwhile_is_no_violation(
    make_fleet: MakeFleet, tmp_path: Path, over_http: bool
) -> None:
    fleet = make_fleet(1, retention_bytes=KEPT_BYTES)
    await fleet.start()
    await fleet.create_topic()
    history = tmp_path / "history.jsonl"
    loop = asyncio.get_running_loop()
    async with AsyncProducer(fleet.bootstrap, history=history) as producer:
        await fill(producer, 6)
        await let_go_of(fleet, 0)  # so there is a base from the beginning
        begun = start_of(fleet)

        async def goes_on() -> None:
            await fill(producer, 2)
            await let_go_of(fleet, begun + SEGMENT_BYTES)

        def progress(spans: int, _bytes: int, _wrong: int) -> None:
            if spans == 1:
                asyncio.run_coroutine_threadsafe(goes_on(), loop).result(60)

        source = f"http://{fleet.http(1)}" if over_http else str(fleet.data(1))

        def judge() -> ValidationReport:
            return validate([source], PlainEngine(progress), histories=[history], span_bytes=SEGMENT_BYTES // 4)

        report = await asyncio.to_thread(judge)
    assert (report.violations, report.not_judged, report.status) == ((), (), VALID)
    (shard,) = report.shards
    assert any("earlier entries are not judged" in note for note in shard.notes)
    assert any("its state is not compared" in note for note in shard.notes)
    assert report.acknowledged is not None
    assert report.acknowledged.dropped > 0
