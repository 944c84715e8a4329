"""The CommitLog: its entries, its segment files, and recovery.

entry.py            one entry, and its bytes
grid.py             where an entry may stand in segments of equal length
tail.py             what is known of the last entry, to judge the next
commit_log.py       the open log: append, examine and write, cut, read
received_range.py   how a follower checks entries before it writes them
recovery.py         reading the log at a start: a torn end or damage
crash_end.py        what recovery found at the end of the log after a power loss
positions.py        the position, size and term of each entry, in memory
position_files.py   the same, on disk
segments.py         the segment files as one row of bytes
segment_files.py    opens and prepares segment files
writing.py          the ways of writing: direct, mapped or staged
staging.py          appends that wait in a buffer of the process
segment_span.py     what one segment of an open log holds
log_reader.py       reads a log that is not open, whole or damaged
log_files.py        the segment files of a log, as its directory lists them
segment_view.py     finds whole entries in the bytes of one segment
flaw.py             one damaged place
"""
