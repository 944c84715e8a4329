"""Where a client works: in the process that started it, and in the event loop that started it.

gRPC does not survive a fork. If a process has used gRPC, a new client in a process that is forked from it would hang,
or gRPC would end the process.
"""

from __future__ import annotations

import asyncio
import os

from ledger.errors import ClosedError


class _Process:
    """What is known of gRPC in this process."""

    has_used_grpc = False
    was_forked_from_user = False


def _note_fork() -> None:
    _Process.was_forked_from_user = _Process.has_used_grpc


os.register_at_fork(after_in_child=_note_fork)


def check_process() -> None:
    """Note that a client uses gRPC in this process. Raises ClosedError if the process was forked from one that had
    done so."""
    if _Process.was_forked_from_user:
        raise ClosedError(
            "This process was forked from a process that had a client before, and gRPC does not work after a fork. Use "
            'the start method "spawn" or "forkserver" of multiprocessing, or make the first client after the fork.'
        )
    _Process.has_used_grpc = True


def check_loop(loop: asyncio.AbstractEventLoop) -> None:
    """Raise ClosedError if the caller runs in another event loop than `loop`, in which its client was started."""
    try:
        present = asyncio.get_running_loop()
    except RuntimeError:
        return  # the thread of a synchronous client, which passes the call on
    if present is not loop:
        raise ClosedError(
            "This client was started in another event loop: start, use and stop a client inside one `asyncio.run`."
        )
