"""How many files the process of a node may have open, and how many of them are for the ConsumeQueues of a shard.

A queue that is written to keeps its file open, since to open and close it around each batch costs more than to write
it; so the bound on them follows from what the system allows, which is usually far more than a process begins with.
"""

from __future__ import annotations

import resource
from contextlib import suppress

_LEAST_QUEUES, _MOST_QUEUES = 16, 4096


def raise_file_limit() -> None:
    """As far as the system lets a process do that by itself: from the soft limit, often 1,024, to the hard one."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):  # more than the kernel allows by now: it is quick with fewer files too
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def file_limit() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return soft if soft != resource.RLIM_INFINITY else 1 << 30


def queues_open_at_once(files: int, shards: int) -> int:
    """How many queues of a shard may have files open, two each at most, where the process may have so many `files`, and
    there are so many `shards` by now, the last of which is this one. Those of all shards have less than two thirds of
    the files, also where shards come one by one; 64 shards from 4,096 files on."""
    return max(_LEAST_QUEUES, min(_MOST_QUEUES, files // (16 * shards)))
