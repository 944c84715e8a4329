"""The bases of a shard: candidates for its log start, the start itself, and one that comes from another node."""

from __future__ import annotations

from pathlib import Path

import google_crc32c
import pytest

from store import Base, DiskFullError, MemoryDisk, Offer
from store.bases import Bases
from tests.store.sample_log import each_kill

SHARD = Path("/data/shard-0")


def base(index: int) -> Base:
    return Base(index, 2, index * 100, index * 7, 1000 + index, b"configuration", b"state %d" % index * 50)


@pytest.fixture
def disk() -> MemoryDisk:
    disk = MemoryDisk()
    disk.make_directory(SHARD)
    return disk


def kept(disk: MemoryDisk, *indexes: int) -> Bases:
    bases = Bases(disk, SHARD)
    for index in indexes:
        bases.keep(base(index))
    return bases


def test_candidates_stay_until_the_log_begins_behind_them(disk: MemoryDisk) -> None:
    bases = kept(disk, 30, 10, 20)
    assert bases.base is None
    for found in (bases, Bases(disk, SHARD)):
        assert found.candidates() == [10, 20, 30]
        assert [found.candidate(index) for index in (10, 15, 30)] == [base(10), None, base(30)]
    bases.begin_behind(base(20))
    for found in (bases, Bases(disk, SHARD)):
        assert (found.base, found.is_resetting, found.candidates()) == (base(20), False, [30])


def test_a_candidate_that_cannot_be_read_is_none(disk: MemoryDisk) -> None:
    bases = kept(disk, 10)
    disk.flip(SHARD / "snapshots" / f"{10:020}", 60)
    assert bases.candidate(10) is None


def test_a_reset_forgets_the_candidates_and_stays_until_it_is_finished(disk: MemoryDisk) -> None:
    bases = kept(disk, 10, 90)
    bases.begin_reset(base(50))
    assert (bases.base, bases.is_resetting) == (base(50), True)
    bases = Bases(disk, SHARD)
    assert (bases.base, bases.is_resetting) == (base(50), True)
    bases.finish_reset()
    for found in (bases, Bases(disk, SHARD)):
        assert (found.base, found.is_resetting, found.candidates()) == (base(50), False, [])


def test_a_start_that_moves_killed_at_every_byte_is_the_old_one_or_the_new_one(disk: MemoryDisk) -> None:
    kept(disk, 10, 15, 20, 30).begin_behind(base(10))
    found = set()
    for _, survivor in each_kill(disk, lambda disk: Bases(disk, SHARD).begin_behind(base(20))):
        bases = Bases(survivor, SHARD)
        assert bases.base is not None
        found.add(bases.base.index)
        assert 30 in bases.candidates()
    assert found == {10, 20}


def test_the_start_moves_on_a_full_disk(disk: MemoryDisk) -> None:
    """What is old can go only then."""
    bases = kept(disk, 10, 20)
    for operation in ("create", "write"):
        disk.fail(operation, DiskFullError(SHARD))
    bases.begin_behind(base(20))
    assert Bases(disk.after_kill(), SHARD).base == base(20)


def test_a_reset_for_which_there_is_no_room_has_not_begun(disk: MemoryDisk) -> None:
    bases = kept(disk, 10)
    disk.fail("create", DiskFullError(SHARD))
    with pytest.raises(DiskFullError):
        bases.begin_reset(base(50))
    assert not bases.is_resetting
    assert bases.base is None
    disk.heal()
    disk.fail("sync_directory", DiskFullError(SHARD))
    with pytest.raises(DiskFullError):
        bases.begin_reset(base(50))
    assert bases.is_resetting, "its name is there: a start may find it"


def test_a_base_comes_piece_by_piece_and_what_is_wrong_is_asked_for_again(disk: MemoryDisk) -> None:
    data = base(40).encode()
    offer = Offer.of(base(40), data)
    bases = Bases(disk, SHARD)

    def give(offset: int, piece: bytes, crc: int | None = None) -> int | Base:
        return bases.receive(offer, offset, piece, google_crc32c.value(piece) if crc is None else crc)

    assert give(0, b"") == 0
    assert give(0, data[:100]) == 100
    assert give(0, data[:100]) == 100, "what is here already"
    assert give(100, data[100:200], crc=1) == 100, "what is damaged"
    assert give(200, data[200:300]) == 100, "what is not next"
    bases = Bases(disk, SHARD)
    assert give(100, data[100:]) == base(40)
    assert give(100, data[100:]) == base(40), "asked for again before it is taken"
    bases.forget_incoming()
    bases.forget_incoming()
    assert give(0, b"") == 0


def test_a_whole_that_is_not_the_offered_one_is_asked_for_from_the_start(disk: MemoryDisk) -> None:
    bases = Bases(disk, SHARD)
    data = base(40).encode()
    offer = Offer(41, 2, len(data), google_crc32c.value(data))
    assert bases.receive(offer, 0, data, google_crc32c.value(data)) == 0
    assert bases.receive(offer, 0, b"", 0) == 0
