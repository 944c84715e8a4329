"""A client process: `python -m chaos.live.load.client SPEC`.

SIGTERM ends it in order; it may be killed at any time, and does not outlive the run that started it."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
import time
from pathlib import Path

from chaos.live.load.consuming import consume, watch_progress
from chaos.live.load.final_reading import read_to_the_end
from chaos.live.load.producing import produce
from chaos.live.load.spec import ClientSpec

GROUP = "chaos"


_LOOK_S = 1.0


def end_with_the_run(run: int) -> None:
    """A thread that looks whether the process `run` is there still, which started this one: it may be killed, too, and
    before this one is so far that it could ask who that was."""

    def look() -> None:
        while os.getppid() == run:
            time.sleep(_LOOK_S)
        os._exit(1)

    threading.Thread(target=look, name="looks for the run", daemon=True).start()


async def run(spec: ClientSpec) -> None:
    """What its role is, until it is over or this process is told to stop."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    match spec.role:
        case "producers":
            await produce(spec, stop)
        case "consumers":
            await asyncio.gather(consume(spec, stop), watch_progress(spec, GROUP, stop))
        case "final":
            await read_to_the_end(spec, stop)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the run, which ends its clients itself
    told = ClientSpec.load(Path(sys.argv[1]))
    end_with_the_run(told.run)
    asyncio.run(run(told))
