"""Files that ledgermq did not write, in every directory of a node: they disturb nothing, and stay."""

from __future__ import annotations

from pathlib import Path

import pytest

from ledgermq import AsyncConsumer, AsyncProducer
from tests.cluster.fleet import SEGMENT_BYTES, Fleet, MakeFleet
from tests.cluster.waiter import until

pytestmark = pytest.mark.real

MESSAGES = 400
NAMES = ("notes.txt", ".hidden", "00000000000000000000.bak", "0", "-", "1-x", "٣" * 20)


def litter(root: Path) -> list[Path]:
    """Create some files, and a directory with a file, in each directory below `root`."""
    made = []
    for directory in [root, *(path for path in root.rglob("*") if path.is_dir())]:
        for name in NAMES:
            made.append(directory / name)
            made[-1].write_text("mine")
        (directory / "mine").mkdir()
        made.append(directory / "mine" / "0")
        made[-1].write_text("mine")
    return made


async def produce(fleet: Fleet, count: int) -> None:
    async with AsyncProducer(fleet.bootstrap) as producer:
        for number in range(count):
            producer.send_nowait("topic", bytes(10_000), key=f"key-{number % 7}")


@pytest.mark.parametrize("elsewhere", [False, True])
async def test_files_that_are_not_ours_are_left_alone(
    make_fleet: MakeFleet, tmp_path: Path, elsewhere: bool, caplog: pytest.LogCaptureFixture
) -> None:
    indexes = tmp_path / "indexes"
    fleet = make_fleet(1, **({"index_data": indexes} if elsewhere else {}))
    await fleet.start()
    await fleet.leader()
    await fleet.create_topic()
    await produce(fleet, MESSAGES)
    await fleet.stop()
    made = litter(fleet.data(1)) + (litter(indexes) if elsewhere else [])
    for forgets in (False, True):  # goes on at its checkpoint; builds all indexes anew
        if forgets:
            (fleet.data(1) / "shard-0" / "checkpoint").unlink()
        await fleet.start()
        await fleet.leader()
        await produce(fleet, MESSAGES // 2)
        await fleet.stop()
    fleet.override(1, retention_bytes=SEGMENT_BYTES, **({"index_data": indexes} if elsewhere else {}))
    await fleet.start()
    await fleet.leader()
    first = fleet.data(1) / "shard-0" / "log" / f"{0:020}"
    await until(lambda: not first.exists(), "what is old goes")
    async with AsyncConsumer("topic", bootstrap_servers=fleet.bootstrap, on_dropped="skip") as consumer:
        assert (await anext(consumer)).offset > 0
    await fleet.stop()
    assert [path for path in made if not path.exists() or path.read_text() != "mine"] == []
