"""The program of a client process, which a run starts as `python -m chaos.live.load.client SPEC`.

On SIGTERM the process finishes its operations and exits. A kill of the process at any time loses no finished operation
of its history. The process also ends when the run that started it no longer exists.
"""

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
from chaos.live.load.sharing import share
from chaos.live.load.spec import ClientSpec
from chaos.live.load.transacting import answer_checks

GROUP = "chaos"


_LOOK_S = 1.0


def end_with_the_run(run: int) -> None:
    """Start a thread that ends this process when its parent is no longer the process `run`. The run may be killed at
    any time, even before this process reads the pid of its parent.
    """

    def look() -> None:
        while os.getppid() == run:
            time.sleep(_LOOK_S)
        os._exit(1)

    threading.Thread(target=look, name="looks for the run", daemon=True).start()


async def run(spec: ClientSpec) -> None:
    """Do the work of the role until it is finished, or until SIGTERM."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    match spec.role:
        case "producers":
            await produce(spec, stop)
        case "consumers":
            await asyncio.gather(consume(spec, stop), watch_progress(spec, GROUP, stop))
        case "checkers":
            await answer_checks(spec, stop)
        case "sharers":
            await share(spec, stop)
        case "final":
            await read_to_the_end(spec, stop)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the run, which then stops its clients
    told = ClientSpec.load(Path(sys.argv[1]))
    end_with_the_run(told.run)
    asyncio.run(run(told))
