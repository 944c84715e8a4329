"""Spark's daemon, which forks the Python workers of a local session, with corrections of two faults.

    java ── python -m ledger.spark.worker_daemon ── fork ──> workers, which run one task after another

This is Spark's own daemon (`pyspark.daemon`) with wrapped workers; a Spark setting selects the module. The corrections:

- Spark's worker collects garbage after each task. Because of the many modules of numpy and pyarrow, the garbage
  collection took 20 ms for each task. Therefore the wrapper excludes imported modules from garbage collection.
- When the session ends, an idle worker writes the reason to a closed socket. With sockets of the Unix domain, writing
  to the closed socket printed a traceback on the user's terminal, so the wrapper ends the worker silently.

The module must not import modules that only tasks need, because no thread may exist before a fork.
"""

from __future__ import annotations

import gc
import sys
from socket import socket

from pyspark import daemon

_worker_of_spark = daemon.worker
# The number of imported modules when they were last excluded from garbage collection.
_known = 0


def worker(sock: socket, authenticated: bool) -> int:
    """Run one task. Return 0 if this worker process may run another task."""
    try:
        status: int = _worker_of_spark(sock, authenticated)
    except BrokenPipeError:
        return 1
    _keep_modules()
    return status


def _keep_modules() -> None:
    global _known
    if len(sys.modules) > _known:
        _known = len(sys.modules)
        gc.collect()
        gc.freeze()


if __name__ == "__main__":
    daemon.worker = worker
    daemon.manager()
