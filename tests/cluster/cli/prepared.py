"""Runs `ledgermq` commands quickly: one process imports the command line once, and forks for each command.

Each command has its own process, arguments, directory, environment, standard streams and exit status. The imports take
half a second. All tests of a worker pay for them once.

    run() in command.py  --request, three descriptors-->  serve()  --fork-->  cluster.cli.main()
                         <----------- status -----------           <--wait--
"""

from __future__ import annotations

import atexit
import gc
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
    """The process that imports the command line and forks. It ends when the process that started it ends."""

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
        """Run a command to its end, and return its exit status. Raises TimeoutError, and ConnectionError if the
        forking process has ended."""
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
    """Fork for each request. In a forked process this function returns, and the process runs the command. Exit when
    no more requests come."""
    gc.collect()
    gc.freeze()  # a garbage collection in the forked process would copy the memory of all imported modules
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
    """Import all modules that commands import, most of them only when a command runs."""
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
