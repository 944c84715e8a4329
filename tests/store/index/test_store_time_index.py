"""The time index compared with a list of append times."""

from __future__ import annotations

from itertools import accumulate
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from store import CommitLog, ConsumeQueue, EntryDraft, EntryKind, LogSettings, MemoryDisk
from store.index.time_index import offset_at, position_at

QUEUES = 3
# (queue, or None for an entry that is no batch; messages; milliseconds since the entry before)
ENTRIES = st.lists(
    st.tuples(st.none() | st.integers(0, QUEUES - 1), st.integers(1, 200), st.integers(0, 3)), max_size=40
)


def built(entries: list[tuple[int | None, int, int]]) -> tuple[CommitLog, list[ConsumeQueue], list[list[int]]]:
    """Return a log, its queues, and the append time of each message of each queue."""
    disk = MemoryDisk()
    log = CommitLog.open(disk, Path("/log"), LogSettings(segment_bytes=1024))
    queues = [ConsumeQueue(disk, Path(f"/queue-{queue}"), units_per_file=70) for queue in range(QUEUES)]
    times: list[list[int]] = [[] for _ in range(QUEUES)]
    for (queue, count, _), time in zip(entries, accumulate(passed for *_, passed in entries), strict=True):
        kind = EntryKind.NO_OP if queue is None else EntryKind.BATCH
        (header,) = log.append([EntryDraft(kind, b"body", count=count)], term=1, commit=0, now_ms=time)
        if queue is not None:
            queues[queue].put(queues[queue].end_offset, header.position, header.size, None, count)
            times[queue] += [time] * count
    return log, queues, times


@given(ENTRIES, st.data())
def test_the_offset_of_a_time_is_that_of_the_first_message_at_or_after_it(
    entries: list[tuple[int | None, int, int]], data: st.DataObject
) -> None:
    log, queues, times = built(entries)
    time = data.draw(st.integers(-1, 130))
    position = position_at(log, time, log.last_index)
    for queue, of_queue in zip(queues, times, strict=True):
        later = [offset for offset, each in enumerate(of_queue) if each >= time]
        assert offset_at(queue, position) == min(later, default=len(of_queue))


@given(ENTRIES, st.data())
def test_where_the_log_begins_later_no_earlier_offset_is_given(
    entries: list[tuple[int | None, int, int]], data: st.DataObject
) -> None:
    log, queues, times = built(entries)
    first_kept = data.draw(st.integers(1, log.last_index + 1))
    kept_from = log.reading.position(first_kept) if first_kept <= log.last_index else log.end
    firsts = [offset_at(queue, kept_from) for queue in queues]
    for queue, first in zip(queues, firsts, strict=True):
        queue.begin_at(first)
    log.drop_before(log.snapshot_at(first_kept - 1, configuration=b"", state=b""))
    time = data.draw(st.integers(-1, 130))
    position = position_at(log, time, log.last_index)
    for queue, first, of_queue in zip(queues, firsts, times, strict=True):
        later = [offset for offset, each in enumerate(of_queue) if each >= time and offset >= first]
        assert offset_at(queue, position) == min(later, default=len(of_queue))


@given(ENTRIES, st.data())
def test_what_is_not_applied_yet_is_not_looked_at(
    entries: list[tuple[int | None, int, int]], data: st.DataObject
) -> None:
    log, _, _ = built(entries)
    last = data.draw(st.integers(0, log.last_index))
    found = position_at(log, 1 << 62, last)
    assert found == (log.reading.header(last).end if last else 0)
