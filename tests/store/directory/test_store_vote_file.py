"""The vote file: after a kill at any byte it holds the new vote or the vote before it, and damage is never read as a
vote.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from store import DamagedError, DiskFailedError, MemoryDisk, PosixDisk, Vote, VoteFile
from tests.store.sample_log import each_kill

PATH = Path("/data/vote")
INCARNATION = bytes(range(16))
OTHER = b"another one's id"


def fresh() -> MemoryDisk:
    disk = MemoryDisk()
    disk.make_directory(PATH.parent)
    return disk


def opened(disk: MemoryDisk, incarnation: bytes = OTHER) -> VoteFile:
    return VoteFile.open(disk, PATH, new_incarnation=incarnation)


def saved(votes: int) -> MemoryDisk:
    """Return a disk with a file in which votes for the terms 1..votes were saved."""
    disk = fresh()
    file = opened(disk, INCARNATION)
    for term in range(1, votes + 1):
        file.save(Vote(term, term % 3, INCARNATION))
    return disk


def test_a_new_file_has_term_0_and_the_given_incarnation_for_good() -> None:
    disk = fresh()
    assert opened(disk, INCARNATION).vote == Vote(0, 0, INCARNATION)
    assert opened(disk, OTHER).vote == Vote(0, 0, INCARNATION)


@pytest.mark.parametrize("votes", range(1, 5))
def test_the_newest_vote_is_found_again(votes: int) -> None:
    assert opened(saved(votes)).vote == Vote(votes, votes % 3, INCARNATION)


def test_over_a_real_disk(tmp_path: Path) -> None:
    for term in range(5):
        file = VoteFile.open(PosixDisk(), tmp_path / "vote", new_incarnation=INCARNATION)
        assert file.vote.term == term
        file.save(Vote(term + 1, 2, INCARNATION))
        file.close()


@pytest.mark.parametrize("votes", [0, 1, 2, 3])
def test_torn_at_every_byte_it_holds_the_old_vote_and_takes_the_next(votes: int) -> None:
    new = Vote(votes + 10, 3, INCARNATION)
    kills = 0
    for _, survivor in each_kill(saved(votes), lambda disk: opened(disk).save(new)):
        kills += 1
        file = opened(survivor)
        assert file.vote == Vote(votes, votes % 3, INCARNATION)
        file.save(new)
        assert opened(survivor).vote == new
    assert kills >= 52


@pytest.mark.parametrize("votes", [1, 2, 3])
def test_torn_while_the_same_vote_is_saved_again_it_holds_this_vote(votes: int) -> None:
    same = Vote(votes, votes % 3, INCARNATION)
    kills = 0
    for _, survivor in each_kill(saved(votes), lambda disk: opened(disk).save(same)):
        kills += 1
        assert opened(survivor).vote == same
    assert kills >= 52


def test_torn_while_it_is_made_there_is_none_or_a_whole_one() -> None:
    for _, survivor in each_kill(fresh(), lambda disk: opened(disk, INCARNATION)):
        vote = opened(survivor, OTHER).vote
        assert (vote.term, vote.voted_for) == (0, 0)
        assert vote.incarnation in (INCARNATION, OTHER)


@pytest.mark.parametrize("votes", [1, 2])
@pytest.mark.parametrize("slot", [0, 4096])
def test_no_flipped_bit_brings_back_an_older_vote(votes: int, slot: int) -> None:
    disk = saved(votes)
    for byte in range(52):
        for bit in range(8):
            disk.flip(PATH, slot + byte, bit)
            with pytest.raises(DamagedError, match="/data/vote is damaged"):
                opened(disk)
            disk.flip(PATH, slot + byte, bit)
    assert opened(disk).vote.term == votes


@pytest.mark.parametrize("content", [b"", b"x", bytes(8192), bytes(100), b"not a vote file at all" * 400])
def test_a_file_without_a_vote_is_damage(content: bytes) -> None:
    disk = fresh()
    disk.create(PATH, 0).write(0, content)
    with pytest.raises(DamagedError):
        opened(disk)
    assert disk.content(PATH) == content


def test_every_save_is_synced_before_it_returns() -> None:
    disk = saved(1)
    file = opened(disk)
    disk.fail("sync", DiskFailedError(PATH, "Input/output error"), times=1)
    with pytest.raises(DiskFailedError):
        file.save(Vote(2, 1, INCARNATION))
    assert file.vote.term == 1
    with pytest.raises(DiskFailedError, match="an earlier vote was lost"):
        file.save(Vote(3, 1, INCARNATION))


class NotedDisk(MemoryDisk):
    """A memory disk that notes its operations in order."""

    def __init__(self) -> None:
        super().__init__()
        self.done: list[str] = []

    def before(self, operation: str, path: Path) -> None:
        super().before(operation, path)
        self.done.append(operation)


def test_a_vote_that_is_found_is_written_again_and_synced_before_it_counts() -> None:
    """A killed save may have left the vote in the page cache only."""
    disk = NotedDisk()
    disk.make_directory(PATH.parent)
    opened(disk, INCARNATION).save(Vote(1, 1, INCARNATION))
    before = disk.content(PATH)
    disk.done.clear()
    opened(disk)
    assert disk.done[-2:] == ["write", "sync"]
    assert disk.content(PATH) == before
    disk.fail("sync", DiskFailedError(PATH, "Input/output error"))
    with pytest.raises(DiskFailedError):
        opened(disk)


def test_the_file_and_its_name_are_synced_when_it_is_made() -> None:
    for operation in ("sync", "sync_directory"):
        disk = fresh()
        disk.fail(operation, DiskFailedError(PATH, "Input/output error"), times=1)
        with pytest.raises(DiskFailedError):
            opened(disk)


def test_terms_never_fall_and_the_incarnation_stays() -> None:
    file = opened(saved(5))
    with pytest.raises(AssertionError):
        file.save(Vote(4, 1, INCARNATION))
    with pytest.raises(AssertionError):
        file.save(Vote(6, 1, OTHER))
