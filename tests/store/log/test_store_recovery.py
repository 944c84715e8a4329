"""A process is killed at every byte that it writes: the next process finds the old log or the new log, and can continue
it.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from store import CommitLog, MemoryDisk
from store.disk.memory_disk import Killed
from tests.store.sample_log import DIRECTORY, SEGMENT, append, content, each_kill, open_log


def grown(*groups: tuple[int, ...]) -> MemoryDisk:
    disk = MemoryDisk()
    log = open_log(disk)
    for term, sizes in enumerate(groups, 1):
        append(log, *sizes, term=term)
    return disk


def goes_on(disk: MemoryDisk) -> None:
    """Check that a log found after a kill takes entries of any size, and that no bytes after its end become visible
    again."""
    for sizes in [(3,), (40, 40), (200, 300, 500), (900,)]:
        again = disk.after_kill()
        log = open_log(again)
        append(log, *sizes, term=9)
        expected = content(log)
        assert content(open_log(again.after_kill())) == expected


def states_after_kills(before: MemoryDisk, act: Callable[[CommitLog], object]) -> list[int]:
    """Return the last index found after a kill at each byte. Check that each log found is a prefix of the old or the
    new log."""
    old = content(open_log(before.after_kill()))
    done = before.after_kill()
    act(open_log(done))
    new = content(open_log(done))
    longer = max(old, new, key=len)
    found = []
    for _, survivor in each_kill(before, lambda disk: act(open_log(disk))):
        log = open_log(survivor.after_kill())
        assert content(log) == longer[: log.last_index]
        assert min(len(old), len(new)) <= log.last_index <= len(longer)
        found.append(log.last_index)
        if len(found) % 16 == 1:
            goes_on(survivor)
    return found


@pytest.mark.parametrize("sizes", [(13,), (100, 0, 57), (1, 2, 3, 4, 5)])
def test_a_killed_group_write_leaves_all_or_nothing(sizes: tuple[int, ...]) -> None:
    found = states_after_kills(grown((20, 30), (40,)), lambda log: append(log, *sizes))
    assert set(found) == {3}
    assert len(found) > sum(sizes)


def test_a_kill_at_every_byte_of_the_first_group_ever() -> None:
    found = states_after_kills(MemoryDisk(), lambda log: append(log, 50, 60))
    assert set(found) == {0}


@pytest.mark.long
def test_a_kill_while_rolling_leaves_whole_groups_of_each_segment() -> None:
    found = states_after_kills(grown((400,)), lambda log: append(log, 150, 200, 300, 60, 900, 33))
    assert found == sorted(found)
    assert set(found) == {1, 3, 5, 6}


def test_a_kill_while_rolling_into_a_prepared_segment() -> None:
    before = grown((900,))
    open_log(before).prepare_next()

    def act(log: CommitLog) -> None:
        log.prepare_next()
        append(log, 120, 130)

    assert set(states_after_kills(before, act)) == {1}


def test_a_kill_while_preparing_loses_nothing() -> None:
    assert set(states_after_kills(grown((900,)), lambda log: log.prepare_next())) == {1}


def test_a_killed_follower_write_leaves_all_or_nothing() -> None:
    before = grown((20, 30), (40,))
    leader = open_log(before.after_kill())
    append(leader, 70, 0, 25, term=4)
    data = leader.reading.read_range(2, 6)

    def act(log: CommitLog) -> None:
        log.write(data, log.examine(data, 1), 4)

    assert set(states_after_kills(before, act)) == {3}


def test_a_killed_truncation_leaves_a_prefix_that_is_not_too_short() -> None:
    found = states_after_kills(grown((50, 60, 70), (80, 90)), lambda log: log.truncate(2))
    assert found == sorted(found, reverse=True)
    assert set(found) == {5, 4, 3, 2}


def test_a_killed_truncation_over_segments() -> None:
    found = states_after_kills(grown((500, 300), (600, 200), (900,), (10, 20)), lambda log: log.truncate(1))
    assert found == sorted(found, reverse=True)
    # The last segments go whole, one by one; then the entries of the one that stays.
    assert set(found) == {7, 5, 4, 2, 1}
    assert set(states_after_kills(grown((900,), (900,)), lambda log: log.truncate(0))) >= {1, 0}


def test_a_kill_during_recovery_itself() -> None:
    torn = grown((100, 100), (500,))
    torn.kill_after(400)
    with pytest.raises(Killed):
        append(open_log(torn), 90, 90, 90, 300, 300)
    torn = torn.after_kill()
    expected = content(open_log(torn.after_kill()))
    for _, survivor in each_kill(torn, open_log):
        assert content(open_log(survivor)) == expected
        goes_on(survivor)


def test_what_lies_behind_a_torn_end_is_erased_before_use() -> None:
    disk = grown((100,))
    disk.kill_after(300)
    with pytest.raises(Killed):
        append(open_log(disk), 700)
    disk = disk.after_kill()
    path = DIRECTORY / f"{0:020}"
    end = open_log(disk.after_kill()).end
    assert any(disk.content(path)[end:])
    open_log(disk)
    assert not any(disk.content(path)[end:])
    assert len(disk.content(path)) == SEGMENT
