"""The CommitLog: its entries, its segment files, and recovery.

This package contains, in reading order:

    entry.py            one entry, and its bytes
    grid.py             where an entry may stand in segments of equal length
    tail.py             index, term, end and chain of an entry, to judge the next entry
    commit_log.py       the open log: append, examine and write, cut, flush
    log_settings.py     how a log is opened: its settings, its previous run, functions to be called
    log_state.py        the state of an open log in memory
    log_reading.py      reads the entries of an open log
    entry_writes.py     changes of the bytes of an open log, whole or without a trace
    received_range.py   how a follower checks entries before it writes them
    recovery.py         reading the log at a start: a torn end or damage
    crash_end.py        the end of the log that recovery found after a power loss
    positions.py        the position, size and term of each entry, in memory
    position_files.py   the same table, on disk
    segments.py         the segment files as one row of bytes
    segment_files.py    opens and prepares segment files
    writing.py          the ways of writing: direct, mapped or staged
    staging.py          appends that wait in a buffer of the process
    segment_span.py     the entries in one segment of an open log
    log_reader.py       reads a log that is not open, whole or damaged
    log_files.py        the segment files of a log, as its directory lists them
    segment_view.py     finds whole entries in the bytes of one segment
    flaw.py             one damaged place
"""
