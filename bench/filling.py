"""A log of so many bytes, made by a producer of a cluster that runs; and a file that the page cache forgets."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import uvloop

from ledger.errors import TopicExistsError
from ledgermq import AsyncAdmin, AsyncProducer

TOPIC = "filling"
QUEUES = 4
SLICE_BYTES = 16 << 20


def fill(bootstrap: str, total_bytes: int, message_bytes: int) -> None:
    """Sends random messages, and returns once all are acknowledged."""
    uvloop.run(_fill(bootstrap, total_bytes, message_bytes))


async def _fill(bootstrap: str, total_bytes: int, message_bytes: int) -> None:
    data = os.urandom(SLICE_BYTES)
    values = [data[at : at + message_bytes] for at in range(0, SLICE_BYTES, message_bytes)]
    async with AsyncAdmin(bootstrap) as admin, AsyncProducer(bootstrap) as producer:
        with contextlib.suppress(TopicExistsError):
            await admin.create_topic(TOPIC, queues=QUEUES)
        for _ in range(max(1, total_bytes // SLICE_BYTES)):
            await producer.send_many(TOPIC, values)


def forget(path: Path) -> None:
    """Flushes the file, or all files below a directory, and has the page cache forget them."""
    for file in [path] if path.is_file() else path.rglob("*"):
        if file.is_file():
            descriptor = os.open(file, os.O_RDONLY)
            os.fsync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)
