"""Serves clients that read committed messages by offset, by time or by key.

This package contains, in reading order:

    fetch.py              messages by queue and offset; fetch_result.py has its types
    fetchable_queues.py   the queues of this node, as a fetch reads them
    tag_filter.py         finds the entries with wanted tags, and cuts batches that have other messages too
    fetch_waiters.py      wakes fetches that wait at the end of a queue
    offsets.py            the first and last offset of a queue, and the offset of a time
    queue_sizes.py        about how many bytes of the log the messages of a queue take
    query.py              messages by key
    response_budget.py    limits the bytes of responses that are not sent yet
"""
