"""`ledgermq` without its imports: one process imports the command line, and forks for each command.

A command runs in a process of its own, with its own arguments, directory, environment, standard streams and status, and
ends as any Python process ends. Only the half second of imports is paid once for all tests of a worker.

    run() in command.py  --request, three descriptors-->  serve()  --fork-->  cluster.cli.main()
                         <----------- status -----------           <--wait--
"""

from __future__ import annotations

import atexit
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path

import click

from cluster.allocator import keep_large_buffers
from cluster.cli import ledgermq, main
from cluster.grpc_engine import prefer_older_engine

_ROOT = Path(__file__).resolve().parents[3]
_STATUS_BYTES = 4
_REQUEST_BYTES = 1 << 20
_MODULES = ("ledger.client.sync.clients", "ledger.client.sync.group_clients")
_COMMANDS = ("cluster", "consume", "dev", "dlq", "group", "message", "produce", "topic")


class PreparedProcess:
    """The process that forks. It ends with the process that made it."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._control, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__, str(theirs.fileno())],
                cwd=_ROOT,
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
            )
        atexit.register(self.close)

    def run(
        self,
        arguments: Sequence[str],
        directory: Path,
        environment: Mapping[str, str],
        streams: Sequence[int],
        timeout_s: float,
    ) -> int:
        """Runs a command to its end; returns its status. Raises TimeoutError, or ConnectionError."""
        request = json.dumps([list(arguments), str(directory), dict(environment)]).encode()
        with self._turn:
            self._control.settimeout(timeout_s)
            socket.send_fds(self._control, [len(request).to_bytes(4, "big") + request], list(streams))
            answer = self._control.recv(_STATUS_BYTES, socket.MSG_WAITALL)
        if len(answer) < _STATUS_BYTES:
            raise ConnectionError("the process that forks has ended: its standard error says why")
        return int.from_bytes(answer, "big", signed=True)

    def close(self) -> None:
        self._control.close()
        self._process.wait()


def serve(control: socket.socket) -> None:
    """Forks for each request. Returns in a forked process, to run the command; or when no more requests come."""
    while True:
        data, streams, _, _ = socket.recv_fds(control, _REQUEST_BYTES, 3)
        if not data:
            sys.exit()
        while len(data) < 4 + int.from_bytes(data[:4], "big"):
            data += control.recv(_REQUEST_BYTES)
        child = os.fork()
        if not child:
            control.close()
            _become(streams, *json.loads(data[4:]))
            return
        for stream in streams:
            os.close(stream)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        control.sendall(status.to_bytes(_STATUS_BYTES, "big", signed=True))


def _become(streams: Sequence[int], arguments: list[str], directory: str, environment: dict[str, str]) -> None:
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(directory)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv[1:] = arguments


def _import_all() -> None:
    """What the commands import, most of it only when they run."""
    for name in _COMMANDS:
        ledgermq.get_command(click.Context(ledgermq), name)
    for module in _MODULES:
        import_module(module)


if __name__ == "__main__":
    prefer_older_engine()
    keep_large_buffers()
    _import_all()
    serve(socket.socket(fileno=int(sys.argv[1])))
    main()
