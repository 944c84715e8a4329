"""The limit of open files of a node's process, and the share of the limit for the ConsumeQueues of one shard.

A ConsumeQueue keeps its file open between writes, because opening and closing the file for each batch costs more than
the write. Therefore the system's limit of open files determines how many queues can keep their files open. A process
usually starts with a soft limit of open files far below the hard limit.
"""

from __future__ import annotations

import resource
from contextlib import suppress

from cluster.node.settings import SettingsError

_LEAST_QUEUES, _MOST_QUEUES = 16, 4096
# With fewer files a node could not serve its connections, and gRPC ends the process without a word.
LEAST_FILES = 256
_LEAST_CONNECTIONS = 64


def raise_file_limit() -> None:
    """Raise the soft limit of open files to the hard limit. The soft limit is often 1,024."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):  # the kernel allows fewer by now; a node also works with fewer open files
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def check_file_limit() -> None:
    """Raise SettingsError if this process may open too few files for a node."""
    if file_limit() < LEAST_FILES:
        raise SettingsError(
            f"this process may open {file_limit()} files, and a node needs at least {LEAST_FILES}: raise the limit of "
            "open files, for example with `ulimit -n 4096`, or with LimitNOFILE= in the unit of systemd"
        )


def file_limit() -> int:
    """Return the soft limit of open files of this process."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return soft if soft != resource.RLIM_INFINITY else 1 << 30


def connections_open_at_once(wanted: int, files: int) -> int:
    """Return how many connections of one port are allowed to be open. Each connection has an open file. `wanted` is the
    setting, and `files` is the limit of open files of the process. The connections of both ports together use at most
    half of the limit."""
    return min(wanted, max(_LEAST_CONNECTIONS, files // 4))


def queues_open_at_once(files: int, shards: int) -> int:
    """Return how many queues of one shard are allowed to keep their files open. Each queue has at most two open
    files. `files` is the limit of open files of the process. `shards` is the number of shards, including this
    shard. The queues of all shards together use less than two thirds of the limit, also if shards are added one
    after another. With 64 shards, this bound of two thirds holds for limits of 4,096 files or more."""
    return max(_LEAST_QUEUES, min(_MOST_QUEUES, files // (16 * shards)))
