"""What a start does not read, the node reads while it works: damage is found, and ends its leadership."""

from __future__ import annotations

from pathlib import Path

import pytest
from fleet import SEGMENT_BYTES, Fleet, MakeFleet
from waiter import eventually, until

from ledger import AsyncProducer
from store import recovery

MESSAGES = 200


@pytest.fixture(autouse=True)
def little_is_read_at_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery, "READ_AGAIN_ENTRIES", 3)
    monkeypatch.setattr("cluster.scrub.PIECE_ENTRIES", 10)


async def stopped_with_messages(make_fleet: MakeFleet) -> Fleet:
    fleet = make_fleet(1)
    await fleet.start()
    await fleet.leader()
    await fleet.create_topic()
    async with AsyncProducer(fleet.bootstrap, linger_ms=0) as producer:
        for number in range(MESSAGES):
            await producer.send("topic", b"%d" % number)
    await fleet.stop()
    return fleet


def flip_a_bit(path: Path, at: int) -> None:
    with open(path, "r+b") as file:
        file.seek(at)
        (byte,) = file.read(1)
        file.seek(at)
        file.write(bytes([byte ^ 1]))


async def test_damage_that_a_start_did_not_look_for_is_found(
    make_fleet: MakeFleet, caplog: pytest.LogCaptureFixture
) -> None:
    fleet = await stopped_with_messages(make_fleet)
    segment = fleet.data(1) / "group-0" / "log" / f"{0:020}"
    flip_a_bit(segment, 5_000)
    await fleet.start()

    async def gives_up() -> bool:
        return "is damaged at position" in caplog.text and (await fleet.status(1)).role == "follower"

    await eventually(gives_up, "the node has found the damage, and leads no more")
    assert str(segment) in caplog.text


async def test_a_log_without_damage_is_read_to_where_the_start_went_on(
    make_fleet: MakeFleet, caplog: pytest.LogCaptureFixture
) -> None:
    fleet = await stopped_with_messages(make_fleet)
    caplog.set_level("INFO")
    await fleet.start()
    await fleet.leader()

    async def told() -> bool:
        return "the log was read up to entry" in caplog.text

    await eventually(told, "all of it was read")
    assert "damaged" not in caplog.text


async def test_a_log_that_begins_later_is_not_taken_for_damaged(
    make_fleet: MakeFleet, caplog: pytest.LogCaptureFixture
) -> None:
    """It begins in a file of which nothing is kept but blank: the first entry is in the next one."""
    fleet = make_fleet(1, retention_bytes=SEGMENT_BYTES)
    await fleet.start()
    await fleet.leader()
    await fleet.create_topic()
    async with AsyncProducer(fleet.bootstrap) as producer:
        await producer.send_many("topic", [bytes(50_000)] * (4 * SEGMENT_BYTES // 50_000))
    first_segment = fleet.data(1) / "group-0" / "log" / f"{0:020}"
    await until(lambda: not first_segment.exists(), "the log begins later")
    await fleet.stop()
    fleet.override(1, retention_bytes=0)
    caplog.set_level("INFO")
    await fleet.start()
    await until(lambda: "the log was read up to entry" in caplog.text, "all of it was read")
    assert "damaged" not in caplog.text
    await fleet.leader()
