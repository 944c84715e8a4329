"""The retention watch of one node, with a log, a disk and clocks that the test controls."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
import pytest_asyncio

from cluster.node.replica.retention import Learners, LogClock, RetentionWatch, bounds_of
from cluster.node.replica.room_watch import RoomWatch
from cluster.node.settings import NodeSettings
from ledger.broker.broker_replica import BrokerReplica
from ledger.broker.retention.log_trim import LogTrim
from ledger.errors import StorageFailedError
from ledgermq import AsyncAdmin, AsyncProducer
from raft.core.configuration import Configuration
from raft.core.progress import FollowerProgress
from store import DiskFailedError, DiskUsage, PosixDisk
from store.log.segments import Segments
from tests.cluster.fleet import SEGMENT_BYTES, Fleet, MakeFleet
from tests.cluster.waiter import until

HOUR_MS = 3_600_000
YEARS_MS = 10 * 365 * 24 * HOUR_MS
VALUE = bytes(50_000)


@dataclass
class Clocks:
    """Implements the members of `Runtime` that a retention watch uses."""

    now: int = 1_700_000_000_000
    monotonic: float = 5_000

    def now_ms(self) -> int:
        return self.now

    def monotonic_ms(self) -> float:
        return self.monotonic

    def pass_ms(self, ms: int) -> None:
        self.now += ms
        self.monotonic += ms


class ToldDisk(PosixDisk):
    """A disk whose use the test sets."""

    told = DiskUsage(100, 100)

    def usage(self, path: object) -> DiskUsage:
        return DiskUsage(self.told.total << 30, self.told.free << 30)


def test_the_time_by_the_log_is_its_newest_entry_s_and_what_passed_since() -> None:
    clocks = Clocks()
    tail = SimpleNamespace(term=1, append_time_ms=clocks.now)
    log: Any = SimpleNamespace(last_index=7, tail=tail)
    clock, began = LogClock(log, clocks.monotonic_ms), clocks.now
    assert clock.now_ms() == began
    clocks.pass_ms(1_000)
    clocks.now += YEARS_MS
    assert clock.now_ms() == began + 1_000
    log.last_index, tail.append_time_ms = 8, clocks.now  # written by the clock that has jumped
    assert clock.now_ms() == clocks.now
    clocks.pass_ms(30)
    clocks.now -= HOUR_MS
    assert clock.now_ms() == clocks.now + HOUR_MS


class TestLearners:
    def test_the_slowest_that_gets_on_counts(self) -> None:
        learners = Learners()
        assert learners.behind({}) is None
        assert learners.behind({4: 10, 5: 3}) == 3
        assert learners.behind({4: 20, 5: 4}) == 4

    def test_who_does_not_get_on_is_not_waited_for(self) -> None:
        learners = Learners()
        learners.behind({4: 10, 5: 3})
        assert learners.behind({4: 11, 5: 3}) == 11
        assert learners.behind({4: 11, 5: 3}) is None
        assert learners.behind({4: 11, 5: 5}) == 5


class Hand:
    """A retention watch of node 1. The test triggers each check, and sets the clocks and the use of the disk."""

    def __init__(self, fleet: Fleet) -> None:
        replica = fleet.running[1]._shards.first.replica
        assert replica is not None
        self.fleet = fleet
        self.replica: BrokerReplica = replica
        self.clocks = Clocks()
        self.disk = ToldDisk()
        self.told: list[DiskUsage] = []
        driver: Any = replica.driver
        driver._writer._now_ms = self.clocks.now_ms

    def watch(self, **settings: Any) -> RetentionWatch:
        runtime: Any = self.clocks
        return RetentionWatch(self.replica, self.fleet.settings(1, **settings), self.room(**settings), runtime)

    def room(self, **settings: Any) -> RoomWatch:
        all_settings: NodeSettings = self.fleet.settings(1, **settings)
        limits, directory = bounds_of(all_settings), self.fleet.data(1)
        return RoomWatch(self.replica, all_settings, limits, SEGMENT_BYTES, self.disk, directory, self.told.append)

    @property
    def first(self) -> int:
        return self.replica.log.first_index

    async def gone(self) -> None:
        """Wait until the removed segments are gone from the disk."""
        await until(lambda: not self.replica.log.segments.has_dropped, "the files are removed")

    async def fill(self, segments: int) -> None:
        async with AsyncProducer(self.fleet.bootstrap) as producer:
            for _ in range(segments):
                await producer.send_many("topic", [VALUE] * (SEGMENT_BYTES // len(VALUE)))


@pytest_asyncio.fixture
async def hand(make_fleet: MakeFleet) -> AsyncIterator[Hand]:
    fleet = make_fleet(1, retention_check_ms=3_600_000)
    await fleet.start()
    await fleet.leader()
    made = Hand(fleet)
    made.clocks.now = made.replica.log.tail.append_time_ms
    await fleet.create_topic()
    yield made


@pytest.mark.real
async def test_only_what_is_older_than_the_bound_goes(hand: Hand) -> None:
    watch = hand.watch(retention_hours=2)
    await hand.fill(2)
    hand.clocks.pass_ms(HOUR_MS)
    await hand.fill(2)
    await watch.look()
    assert hand.first == 1
    hand.clocks.pass_ms(HOUR_MS)
    await watch.look()
    await hand.gone()
    await watch.look()
    young = hand.first
    assert 1 < young < hand.replica.log.last_index
    assert hand.replica.log.reading.header(young + 1).append_time_ms >= hand.clocks.now - HOUR_MS - 1
    hand.clocks.pass_ms(HOUR_MS)
    await watch.look()
    assert hand.first > young


@pytest.mark.real
async def test_a_clock_that_jumps_ahead_wipes_nothing(hand: Hand) -> None:
    watch = hand.watch(retention_hours=2)
    await hand.fill(3)
    hand.clocks.now += YEARS_MS
    await watch.look()  # nobody has written since
    await hand.fill(1)
    await watch.look()  # somebody has, and the log itself says that it is years later
    await hand.watch(retention_hours=2).look()  # the node was started anew since
    assert hand.first == 1
    hand.clocks.pass_ms(2 * HOUR_MS)
    await watch.look()
    assert hand.first > 1, "time goes on from there"


@pytest.mark.real
async def test_the_hour_counts_until_the_disk_fills(hand: Hand) -> None:
    watch = hand.watch(retention_hours=1, cleaning_hour=4, disk_clean_ratio=0.75)
    await hand.fill(2)
    await watch.look()
    until_five = (5 * HOUR_MS - hand.clocks.now) % (24 * HOUR_MS)
    hand.clocks.pass_ms(until_five + 2 * HOUR_MS)
    hand.disk.told = DiskUsage(100, 26)
    await watch.look()
    assert hand.first == 1
    hand.disk.told = DiskUsage(100, 25)
    await watch.look()
    assert hand.first > 1
    assert [usage.ratio for usage in hand.told] == [pytest.approx(used) for used in (0, 0.74, 0.75)]


@pytest.mark.real
async def test_a_full_disk_refuses_until_there_is_room(hand: Hand, caplog: pytest.LogCaptureFixture) -> None:
    room = hand.room(disk_refuse_ratio=0.9)
    caplog.set_level(logging.INFO)
    for free, refuses in ((11, False), (10, True), (3, True), (11, False)):
        hand.disk.told = DiskUsage(100, free)
        room.look()
        assert bool(hand.replica.no_room) == refuses
    said = [record.getMessage() for record in caplog.records if record.name == "ledgermq.node.retention"]
    assert len(said) == 2, "it is said once, and once that it is over"
    assert "90% full" in said[0]
    assert "writes are accepted" in said[1]


@pytest.mark.real
async def test_a_disk_that_does_not_tell_refuses_nothing(hand: Hand, caplog: pytest.LogCaptureFixture) -> None:
    def fail(path: object) -> DiskUsage:
        raise DiskFailedError(hand.fleet.data(1), "Input/output error")

    hand.disk.usage = fail  # type: ignore[method-assign]
    hand.room(disk_refuse_ratio=0.1).look()
    await hand.watch(disk_refuse_ratio=0.1, disk_force_ratio=0.05).look()
    assert hand.replica.no_room == ""
    assert "the use of the disk cannot be read" in caplog.text


@pytest.mark.real
async def test_a_hold_that_is_being_taken_counts_already(hand: Hand) -> None:
    await hand.fill(2)
    future = hand.replica.log_holds.take("spark", 60_000)
    assert not future.done()
    await hand.watch(retention_bytes=1).look()
    assert hand.first == 1
    await future
    await hand.watch(retention_bytes=1).look()
    assert hand.first == 1
    await hand.replica.log_holds.release("spark")
    await hand.watch(retention_bytes=1).look()
    assert hand.first > 1


@pytest.mark.real
async def test_a_node_that_does_not_lead_moves_nothing(hand: Hand, caplog: pytest.LogCaptureFixture) -> None:
    await hand.fill(2)
    hand.replica._projected = None
    caplog.set_level(logging.INFO)
    await hand.watch(retention_bytes=1).look()
    assert hand.first == 1
    assert not [record for record in caplog.records if record.name == "ledgermq.node.retention"], "nor does it try to"


@pytest.mark.real
async def test_what_a_learner_is_being_given_stays(hand: Hand, monkeypatch: pytest.MonkeyPatch) -> None:
    await hand.fill(3)
    watch = hand.watch(retention_bytes=1)
    raft = hand.replica.driver.raft
    with monkeypatch.context() as patch:
        learner = FollowerProgress(next_index=2)
        learner.match = 1
        patch.setattr(type(raft), "progress", {4: learner})
        patch.setattr(type(raft), "configuration", Configuration(raft.configuration.voters, learners=(4,)))
        await watch.look()
        assert hand.first == 1
        await watch.look()  # it does not get on: it is not waited for
        assert hand.first > 1


@pytest.mark.real
async def test_nothing_more_goes_before_what_went_is_removed(hand: Hand, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a full disk would cost more messages than necessary."""
    await hand.fill(3)
    hand.disk.told = DiskUsage(100, 0)
    watch = hand.watch(disk_force_ratio=0.5, disk_refuse_ratio=0)
    with monkeypatch.context() as patch:
        patch.setattr(Segments, "has_dropped", property(lambda _: True))
        await watch.look()
        assert hand.first == 1
    await watch.look()
    assert hand.first > 1


@pytest.mark.real
async def test_only_places_that_are_here_and_applied_are_candidates(hand: Hand) -> None:
    """Snapshots of an earlier run of the node may be of entries that this run has not applied yet."""
    await hand.fill(3)
    trim, driver = LogTrim(hand.replica), hand.replica.driver
    all_of_them = trim.candidates()
    assert len(all_of_them) >= 2
    last = all_of_them[-1].index
    driver._applier.applied, applied = last, driver.applied
    assert trim.candidates() == all_of_them[:-1]
    driver._applier.applied = applied
    assert all(hand.replica.log.begins_segment(each.index + 1) for each in all_of_them)
    assert [each.position for each in all_of_them] == [
        hand.replica.log.reading.position(each.index + 1) for each in all_of_them
    ]


@pytest.mark.real
async def test_a_place_whose_base_is_damaged_is_not_proposed(hand: Hand, caplog: pytest.LogCaptureFixture) -> None:
    await hand.fill(3)
    caplog.set_level(logging.INFO)
    newest = LogTrim(hand.replica).candidates()[-1]
    path = hand.fleet.data(1) / "shard-0" / "snapshots" / f"{newest.index:020}"
    path.write_bytes(path.read_bytes()[:-1])
    last = hand.replica.log.last_index
    await hand.watch(retention_bytes=1).look()
    assert (hand.first, hand.replica.log.last_index) == (1, last)
    assert "the snapshot for that place is damaged" in caplog.text
    async with AsyncAdmin(hand.fleet.bootstrap, request_timeout_ms=500) as admin:
        with pytest.raises(StorageFailedError, match="is damaged"):
            await admin.trim_log(keep_bytes=0)
    path.unlink()  # then the place before it is the newest
    await hand.watch(retention_bytes=1).look()
    assert 1 < hand.first <= newest.index
