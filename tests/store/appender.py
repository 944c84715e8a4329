"""A process that appends to a log until it is killed or refused. It prints what it was promised.

python -m tests.store.appender DIRECTORY MODE [STEPS]        "synced 7", "refused NoSpaceError", "appended 8", ...
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from pathlib import Path

from store import CommitLog, LogSettings, PosixDisk, PreviousRun, StoreError, Writing
from store.log.writing import WriteMode
from tests.store.sample_log import draft

SEGMENT_BYTES = 64 << 10
SYNC_EVERY = 5
ROLL_EVERY = 3


def open_log(directory: Path, mode: WriteMode) -> CommitLog:
    """Open the log as a node does after a kill. A process that staged its writes may have lost the end of the log."""
    return CommitLog.open(
        PosixDisk(),
        directory,
        LogSettings(segment_bytes=SEGMENT_BYTES, writing=Writing(mode, staged_segments=2)),
        PreviousRun(has_crashed=mode == "staged"),
    )


def append_until_the_end(directory: Path, mode: WriteMode, tell: Callable[[str, int], None], steps: int = 0) -> None:
    log = open_log(directory, mode)
    log.sync()
    tell("synced", log.last_index)
    for step in itertools.count(1) if not steps else range(1, steps + 1):
        first = log.last_index + 1
        try:
            drafts = [draft(number, 50 + 977 * number % 5000) for number in range(first, first + 1 + step % 4)]
            log.append(drafts, term=1, commit=first - 1, now_ms=step)
            tell("appended", log.last_index)
            if step % ROLL_EVERY == 0:
                log.write_out()
                log.prepare_next()
            if step % SYNC_EVERY == 0:
                tell("synced", log.sync()[0])
        except StoreError as refusal:
            tell(f"refused {type(refusal).__name__}", log.last_index)


if __name__ == "__main__":

    def tell(what: str, index: int) -> None:
        print(what, index, flush=True)

    append_until_the_end(Path(sys.argv[1]), sys.argv[2], tell, int(sys.argv[3]))  # type: ignore[arg-type]
