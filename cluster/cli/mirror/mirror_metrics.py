"""The metrics of `ledgermq mirror --metrics-file`, written while the mirror runs and when it ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager

from cluster.cli.failure import CommandError
from cluster.cli.metrics_file import FileMetric, MetricsFile
from cluster.cli.output import say
from ledger.mirror.copy_tally import CopyTally

# In seconds. Prometheus usually asks every 15 s or less often.
_EVERY_S = 10.0


@asynccontextmanager
async def metrics_written(file: MetricsFile | None, tally: CopyTally, now_ms: Callable[[], int]) -> AsyncIterator[None]:
    """Write the metrics into the file now, every 10 s, and at the end of the body. Raises CommandError if they cannot
    be written at the beginning. Later, the mirror goes on without them, and says so."""
    if file is None:
        yield
        return
    file.write(_metrics(tally, now_ms()))
    writing = asyncio.create_task(_write(file, tally, now_ms), name="metrics of a mirror")
    try:
        yield
    finally:
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)
        _try(file, tally, now_ms)


async def _write(file: MetricsFile, tally: CopyTally, now_ms: Callable[[], int]) -> None:
    while True:
        await asyncio.sleep(_EVERY_S)
        _try(file, tally, now_ms)


def _try(file: MetricsFile, tally: CopyTally, now_ms: Callable[[], int]) -> None:
    try:
        file.write(_metrics(tally, now_ms()))
    except CommandError as error:
        say(str(error))


def _metrics(tally: CopyTally, now_ms: int) -> Iterator[FileMetric]:
    yield FileMetric("ledgermq_mirror_messages_total", "Messages that this process has copied.", tally.total)
    yield FileMetric("ledgermq_mirror_bytes_total", "Bytes of the batches that it has copied.", tally.sent_bytes)
    yield FileMetric("ledgermq_mirror_errors_total", "Errors after which it tried again.", tally.troubles)
    yield FileMetric("ledgermq_mirror_lag_messages", "Messages at the source that are not copied yet.", tally.lag)
    behind_s = tally.behind_s(now_ms)
    yield FileMetric("ledgermq_mirror_lag_seconds", "Age of the newest copied message, in the last queue.", behind_s)
    yield FileMetric(
        "ledgermq_mirror_skipped_messages", "Messages that the source removed too early.", tally.skipped_messages
    )
    yield FileMetric(
        "ledgermq_mirror_groups_not_moved", "Consumer groups whose offsets cannot be moved.", len(tally.kept_back)
    )
