"""A snapshot that arrives in pieces: it resumes after kills and power losses, and counts only when it is complete and
right.
"""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import google_crc32c
import pytest

from store import CorruptSnapshotError, IncomingSnapshot, MemoryDisk, Snapshot, SnapshotOffer, Snapshots
from store.disk.memory_disk import Killed, MemoryFile
from tests.store.power_disk import PowerDisk
from tests.store.sample_log import each_kill

PATH = Path("/data/incoming")
BASE = Snapshot(7, 3, 4096, 99, 1234, b"configuration", bytes(range(256)) * 3)
DATA = BASE.encode()
OFFER = SnapshotOffer.of(BASE, DATA)
PIECE = 100


@pytest.fixture
def disk() -> MemoryDisk:
    disk = MemoryDisk()
    disk.make_directory(PATH.parent)
    return disk


def give(incoming: IncomingSnapshot, data: bytes = DATA, size: int = PIECE) -> None:
    """Append the next piece."""
    piece = data[incoming.received : incoming.received + size]
    incoming.append(incoming.received, piece, google_crc32c.value(piece))


def give_all(disk: MemoryDisk, size: int = PIECE) -> IncomingSnapshot:
    incoming = IncomingSnapshot.open(disk, PATH, OFFER)
    while not incoming.is_complete:
        give(incoming, size=size)
    return incoming


@pytest.mark.parametrize("size", [1, PIECE, len(DATA)])
def test_piece_by_piece(disk: MemoryDisk, size: int) -> None:
    incoming = give_all(disk, size)
    assert incoming.complete() == BASE
    incoming.remove()
    assert not disk.exists(PATH)


def test_what_has_come_is_there_after_a_restart(disk: MemoryDisk) -> None:
    incoming = IncomingSnapshot.open(disk, PATH, OFFER)
    give(incoming)
    give(incoming)
    incoming.close()
    incoming = IncomingSnapshot.open(disk, PATH, OFFER)
    assert incoming.received == 2 * PIECE
    assert give_all(disk).complete() == BASE


@pytest.mark.parametrize("other", [{"index": 8}, {"term": 4}, {"crc": 1}, {"size": len(DATA) + 1}])
def test_another_offer_begins_anew(disk: MemoryDisk, other: dict[str, int]) -> None:
    give(IncomingSnapshot.open(disk, PATH, OFFER))
    assert IncomingSnapshot.open(disk, PATH, replace(OFFER, **other)).received == 0
    assert IncomingSnapshot.open(disk, PATH, OFFER).received == 0


def test_killed_at_every_byte_it_goes_on(disk: MemoryDisk) -> None:
    received = set()
    for _, survivor in each_kill(disk, give_all):
        incoming = IncomingSnapshot.open(survivor, PATH, OFFER)
        received.add(incoming.received)
        assert give_all(survivor).complete() == BASE
    assert received == {*range(0, len(DATA), PIECE)}


@pytest.mark.parametrize("seed", range(60))
def test_after_power_losses_it_goes_on(seed: int) -> None:
    chance = random.Random(seed)
    disk = PowerDisk()
    disk.make_directory(PATH.parent)
    for _ in range(4):
        disk.kill_after(chance.randint(0, 1000))
        try:
            give_all(disk)
        except Killed:
            disk = disk.after_power_loss(chance)
    assert give_all(disk.copied()).complete() == BASE


def test_a_piece_that_is_bad_or_not_next_is_not_taken(disk: MemoryDisk) -> None:
    incoming = IncomingSnapshot.open(disk, PATH, OFFER)
    give(incoming)
    piece = DATA[PIECE : 2 * PIECE]
    crc = google_crc32c.value(piece)
    for offset, bad, its_crc in [
        (PIECE, piece, crc + 1),
        (0, piece, crc),
        (2 * PIECE, piece, crc),
        (PIECE, b"", google_crc32c.value(b"")),
        (PIECE, bytes(len(DATA)), google_crc32c.value(bytes(len(DATA)))),
    ]:
        with pytest.raises(CorruptSnapshotError):
            incoming.append(offset, bad, its_crc)
        assert incoming.received == PIECE
    assert give_all(disk).complete() == BASE


@pytest.mark.parametrize(
    ("offer", "data"),
    [
        (replace(OFFER, crc=5), DATA),
        (replace(OFFER, index=8), DATA),
        (replace(OFFER, term=9), DATA),
        (SnapshotOffer(7, 3, 500, google_crc32c.value(bytes(500))), bytes(500)),
    ],
)
def test_a_whole_that_is_not_what_was_offered_is_thrown_away(
    disk: MemoryDisk, offer: SnapshotOffer, data: bytes
) -> None:
    incoming = IncomingSnapshot.open(disk, PATH, offer)
    while not incoming.is_complete:
        give(incoming, data)
    with pytest.raises(CorruptSnapshotError):
        incoming.complete()
    assert IncomingSnapshot.open(disk, PATH, offer).received == 0


def test_a_piece_does_not_read_the_pieces_before_it_again(disk: MemoryDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a snapshot of many pieces would take quadratic time."""
    snapshots, read = Snapshots(disk, PATH.parent), 0
    original = MemoryFile.read

    def counted(file: MemoryFile, offset: int, count: int) -> bytes:
        nonlocal read
        found = original(file, offset, count)
        read += len(found)
        return found

    monkeypatch.setattr(MemoryFile, "read", counted)
    received: int | Snapshot = 0
    while isinstance(received, int):
        assert read < PIECE
        read, piece = 0, DATA[received : received + PIECE]
        received = snapshots.receive(OFFER, received, piece, google_crc32c.value(piece))
    assert received == BASE
