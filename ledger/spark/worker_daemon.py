"""Spark's daemon, which forks the Python workers of a local session, with two things mended.

    java ── python -m ledger.spark.worker_daemon ── fork ──> workers, which live on behind their tasks

It is Spark's own (`pyspark.daemon`), which a setting lets anybody replace; only its workers are wrapped. A worker
collects garbage behind each task, and what it has imported is no garbage: with numpy and pyarrow that took 20 ms a
task. And a worker that waits while the session ends tells the closed socket why it ends: nobody reads that, and where
sockets are of the Unix domain, a trace of it was printed on the user's terminal.

It must not import what only tasks need: no thread may be there before a fork.
"""

from __future__ import annotations

import gc
import sys
from socket import socket

from pyspark import daemon

_worker_of_spark = daemon.worker
_known = 0
"""How many modules there were when garbage was last told from what stays."""


def worker(sock: socket, authenticated: bool) -> int:
    """One task; 0 where the worker may have another one."""
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
