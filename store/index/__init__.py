"""The indexes of the CommitLog. Each index can be built again from the log.

This package contains, in reading order:

    unit_files.py         records of one length, over several files
    consume_queue.py      the ConsumeQueue: from the offset of a message to its entry and tag
    time_index.py         the first offset at or after a time, found in the log
    key_index.py          the batches that have a key, newest first
    key_file.py           one file of the key index
    timed_unit.py         the records of the timed index: a message that waits, and a tombstone
    open_files.py         the files of buckets, of which a bounded number is open
    timed_bucket.py       the waiting messages with delivery times in one minute
    timed_tombstones.py   which messages of a bucket no longer wait, as one bit for each record
    timed_buckets.py      all buckets of a timed index
    bucket_table.py       one row for each bucket, in memory and on disk
    timed_journal.py      writes this table, so that a checkpoint has one mark for all buckets
    timed_window.py       the messages that are due next, in the memory of a leader
    timed_select.py       selects the records with the smallest keys from a bucket of any size
    timed_reading.py      answers questions about waiting messages, with bounded memory
    timed_index.py        the timed index: finds the messages that wait for their delivery time
    timed_files.py        reads a timed index as a checkpoint has it, and changes no file
    file_mark.py          length and checksum of an index file, kept in the checkpoint
"""
