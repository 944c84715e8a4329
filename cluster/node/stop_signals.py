"""What ends a process in order: SIGTERM, or Ctrl-C."""

from __future__ import annotations

import asyncio
import signal


def stop_requested() -> asyncio.Event:
    """Set once either signal has come. In the running loop, which is the main thread's."""
    requested = asyncio.Event()
    for each in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(each, requested.set)
    return requested
