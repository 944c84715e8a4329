"""Runs `ledgermq` commands and nodes quickly: one process imports all of their modules once, and forks for each.

Each command and each node has its own process, arguments, directory, environment, standard streams and exit status.
The imports take half a second for a command and a second for a node. All tests of a worker pay for them once.

    run()    --request, three descriptors-->  serve()  --fork-->  ledgermq.__main__.main()
             <-------- exit status ---------           <--wait--
    start()  --request, three descriptors-->  serve()  --fork-->  ledgermq.__main__.main(), in a new session
             <------------- pid ------------
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import BinaryIO

import click

from cluster.allocator import keep_large_buffers
from cluster.cli import ledgermq
from cluster.grpc_engine import prefer_older_engine
from cluster.local.node_process import StartedProcess
from cluster.local.node_process import start_detached as start_anew
from ledgermq.__main__ import main

_LEDGERMQ = [sys.executable, "-m", "ledgermq"]
_ROOT = Path(__file__).resolve().parents[2]
_ANSWER_BYTES = 4
_REQUEST_BYTES = 1 << 20
_START_TIMEOUT_S = 30
# The answer for a command that did not end in time. It is no exit status.
_TIMED_OUT = -1_000
_MODULES = (
    "ledger.client.sync.admin",
    "ledger.client.sync.clients",
    "ledger.client.sync.group_clients",
    "cluster.node.node",
)
_COMMANDS = ("cluster", "consume", "dev", "dlq", "group", "message", "produce", "server", "topic")
# The forking process has this argument, so that a forked process has room for its own command line.
_ROOM = "-" * 1024


class PreparedProcess:
    """The process that imports the command line and forks. It ends when the process that started it ends."""

    def __init__(self) -> None:
        self._turn = threading.RLock()
        self._control, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__, str(theirs.fileno()), _ROOM],
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
        """Run a command to its end, and return its exit status. A command that does not end in time is killed.
        Raises TimeoutError, and ConnectionError if the forking process has ended."""
        status = self._ask(timeout_s, arguments, directory, environment, streams)
        if status == _TIMED_OUT:
            raise TimeoutError(f"`ledgermq {' '.join(arguments)}` did not end within {timeout_s:g} s and was killed")
        return status

    def start(
        self, arguments: Sequence[str], directory: Path, environment: Mapping[str, str], streams: Sequence[int]
    ) -> ForkedProcess:
        """Start a command in a new session, and return its process. Raises ConnectionError if the forking process
        has ended."""
        with self._turn:  # the next request may reap the process, and then its pid means nothing
            return ForkedProcess(self._ask(None, arguments, directory, environment, streams))

    def _ask(
        self,
        timeout_s: float | None,
        arguments: Sequence[str],
        directory: Path,
        environment: Mapping[str, str],
        streams: Sequence[int],
    ) -> int:
        """Return the exit status of a command that has `timeout_s` seconds to end, or without a time the pid of a
        command that goes on."""
        request = json.dumps([timeout_s, list(arguments), str(directory), dict(environment)]).encode()
        with self._turn:
            # The forking process answers in time. An answer that came later would be taken for the next command's.
            self._control.settimeout((timeout_s or 0) + _START_TIMEOUT_S)
            socket.send_fds(self._control, [len(request).to_bytes(4, "big") + request], list(streams))
            answer = self._control.recv(_ANSWER_BYTES, socket.MSG_WAITALL)
        if len(answer) < _ANSWER_BYTES:
            raise ConnectionError("the process that forks has ended: its standard error says why")
        return int.from_bytes(answer, "big", signed=True)

    def close(self) -> None:
        self._control.close()
        self._process.wait()


class ForkedProcess:
    """A process that the forking process has started. It implements `cluster.local.node_process.StartedProcess`."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._descriptor = os.pidfd_open(pid)
        self._ended = False

    def poll(self) -> int | None:
        """Return None while the process runs, and 0 after its end. Only the forking process knows the exit status."""
        if not self._ended and select.select([self._descriptor], [], [], 0)[0]:
            self._ended = True
            os.close(self._descriptor)
        return 0 if self._ended else None


@cache
def prepared() -> PreparedProcess:
    """Return the forking process of these tests. The first call starts it."""
    return PreparedProcess()


def start_detached(command: Sequence[str], directory: Path, output: BinaryIO) -> StartedProcess:
    """Start `python -m ledgermq ...` as `cluster.local.node_process.start_detached` does, but fork the process, unless
    it must preload a library."""
    if "LD_PRELOAD" in os.environ:
        return start_anew(command, directory, output)
    assert command[: len(_LEDGERMQ)] == _LEDGERMQ
    with open(os.devnull, "rb") as nothing:
        streams = [nothing.fileno(), output.fileno(), output.fileno()]
        return prepared().start(command[len(_LEDGERMQ) :], directory, os.environ, streams)


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
        _reap()
        timeout_s, *request = json.loads(data[4:])
        child = os.fork()
        if not child:
            control.close()
            if timeout_s is None:
                os.setsid()
            _become(streams, *request)
            return
        for stream in streams:
            os.close(stream)
        answer = child if timeout_s is None else _end_of(child, timeout_s)
        control.sendall(answer.to_bytes(_ANSWER_BYTES, "big", signed=True))


def _end_of(child: int, timeout_s: float) -> int:
    """Return the exit status of a process. A process that does not end in time is killed."""
    descriptor = os.pidfd_open(child)
    in_time = bool(select.select([descriptor], [], [], timeout_s)[0])
    os.close(descriptor)
    if not in_time:
        os.kill(child, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return status if in_time else _TIMED_OUT


def _reap() -> None:
    """Reap the processes of `start` that have ended."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _become(streams: Sequence[int], arguments: list[str], directory: str, environment: dict[str, str]) -> None:
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(directory)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv[1:] = arguments
    _show_command_line([*_LEDGERMQ, *arguments])


def _show_command_line(arguments: Sequence[str]) -> None:
    """Write the command line over the one that this process has from its parent, so that /proc and `ps` show it."""
    start, end = map(int, Path("/proc/self/stat").read_text().rpartition(")")[2].split()[45:47])
    shown = b"".join(os.fsencode(each) + b"\0" for each in arguments)
    ctypes.memmove(start, shown[: end - start - 1].ljust(end - start, b"\0"), end - start)


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
