"""Helper functions that the measurements share: they start a fresh cluster on this machine, fill a topic, and clear
the page cache."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import uvloop

from cluster.load.topics import fill_topic
from cluster.local.processes import DevCluster

TOPIC = "filling"
QUEUES = 4
START_TIMEOUT_S = 60.0
_CALL_BYTES = 16 << 20


@contextmanager
def fresh_cluster(
    directory: Path,
    nodes: int,
    *,
    flush: str | None = None,
    shards: int | None = None,
    segment_bytes: int | None = None,
    secure: bool = False,
) -> Iterator[DevCluster]:
    """Start a cluster of processes with its data in `directory`, and remove the cluster when the `with` block ends."""
    cluster = DevCluster(directory)
    try:
        cluster.start(
            nodes,
            flush=flush,
            shards=shards,
            segment_bytes=segment_bytes,
            secure=secure,
            timeout_s=START_TIMEOUT_S,
        )
        yield cluster
    finally:
        cluster.purge()


def fill(bootstrap: str, total_bytes: int, message_bytes: int) -> None:
    """Send random messages to the topic TOPIC. Return when all messages are committed."""
    calls, call_messages = max(1, total_bytes // _CALL_BYTES), _CALL_BYTES // message_bytes
    filling = fill_topic(
        bootstrap, TOPIC, QUEUES, calls=calls, call_messages=call_messages, message_bytes=message_bytes
    )
    uvloop.run(filling)


def forget(path: Path) -> None:
    """Flush the file, or all files below the directory, and drop their pages from the page cache."""
    for file in [path] if path.is_file() else path.rglob("*"):
        if file.is_file():
            descriptor = os.open(file, os.O_RDONLY)
            os.fsync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)
