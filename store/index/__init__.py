"""The indexes of the CommitLog. Each index can be built again from the log.

This package contains, in reading order:

    unit_files.py      records of one length, over several files
    consume_queue.py   the ConsumeQueue: from the offset of a message to its entry and tag
    time_index.py      the first offset at or after a time, found in the log
    key_index.py       the batches that have a key, newest first
    key_file.py        one file of the key index
    timed_index.py     the messages that wait for their delivery time; begin with timed_unit.py and timed_bucket.py
    file_mark.py       length and checksum of an index file, kept in the checkpoint
"""
