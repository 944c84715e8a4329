"""Receives the signals that ask a process to stop in an orderly way: SIGTERM and SIGINT (Ctrl-C)."""

from __future__ import annotations

import asyncio
import signal


def stop_requested() -> asyncio.Event:
    """Return an event that is set by SIGTERM or SIGINT. Call this function in the event loop of the main thread."""
    requested = asyncio.Event()
    for each in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(each, requested.set)
    return requested
