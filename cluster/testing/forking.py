"""The process that forks the nodes of test clusters. It imports the modules of a node once, so that a node starts in
some ten milliseconds instead of a second.

    ForkingProcess (processes.py) ──request, descriptors──> serve() ──fork──> run_node() or serve_links()
                                  <─────────pid────────────

It ends with the test's process, however that ends: then it kills what it has forked and removes the clusters'
directories. What it has forked ends with it, because the kernel kills the children (PR_SET_PDEATHSIG).
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import select
import shutil
import signal
import socket
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from cluster.allocator import keep_large_buffers
from cluster.grpc_engine import log_only_errors, prefer_older_engine

REQUEST_BYTES = 1 << 16
MOST_DESCRIPTORS = 128
_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


def main(control: int, parent: int) -> None:
    """Serve the requests that come in at the socket `control`, until the process `parent` ends."""
    prefer_older_engine()
    log_only_errors()
    keep_large_buffers()
    import cluster.node.node  # noqa: F401 (after the settings of gRPC; forked processes have it)

    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    server = _Server(socket.socket(fileno=control), os.pidfd_open(parent))
    try:
        server.serve()
    finally:
        server.clean_up()


class _Server:
    def __init__(self, control: socket.socket, parent: int) -> None:
        self._control = control
        self._parent = parent
        self._children: set[int] = set()
        # The directories of the clusters that have not been stopped.
        self._directories: set[str] = set()

    def serve(self) -> None:
        """Carry out requests until the test's process ends or closes its socket. Forked processes of the test may still
        hold the socket open, so the end of the process counts too."""
        gc.collect()
        gc.freeze()  # a garbage collection in the forked process would copy the memory of all imported modules
        while True:
            ready, _, _ = select.select([self._control.fileno(), self._parent], [], [])
            if self._parent in ready:
                return
            data, descriptors, _, _ = socket.recv_fds(self._control, REQUEST_BYTES, MOST_DESCRIPTORS)
            if not data:
                return
            self._reap()
            request = json.loads(data)
            answer = getattr(self, f"_do_{request.pop('do')}")(descriptors, **request)
            for descriptor in descriptors:
                os.close(descriptor)
            self._control.sendall(str(answer).encode())

    def clean_up(self) -> None:
        for child in self._children:
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        for child in self._children:
            with suppress(ChildProcessError):
                os.waitpid(child, 0)
        for directory in self._directories:
            shutil.rmtree(directory, ignore_errors=True)

    def _do_node(self, descriptors: list[int], config: str) -> int:
        """Fork a node with the settings file `config`. Its output goes to the descriptor."""

        def run() -> int:
            from cluster.node.node import run_node
            from cluster.node.settings import NodeSettings, SettingsError

            try:
                return run_node(NodeSettings.load(Path(config)))
            except SettingsError as error:
                sys.stderr.write(f"{error}\n")
                return 1

        return self._fork(run, output=descriptors[0])

    def _do_links(self, descriptors: list[int], links: list[list[int]]) -> int:
        """Fork a process for links. `links` has source, target and the target's port; the descriptors are the control
        socket, the output, and the listener of each link."""
        from cluster.testing.links import ServedLink, serve_links

        control, log, *listeners = descriptors

        def run() -> int:
            made = [
                ServedLink(source, target, port, socket.socket(fileno=listener))
                for (source, target, port), listener in zip(links, listeners, strict=True)
            ]
            serve_links(socket.socket(fileno=control), made)
            return 0

        return self._fork(run, output=log)

    def _do_keep(self, _: list[int], directory: str) -> int:
        """Remove the directory when the test's process ends."""
        self._directories.add(directory)
        return 0

    def _do_forget(self, _: list[int], directory: str) -> int:
        self._directories.discard(directory)
        return 0

    def _fork(self, run: Callable[[], int], output: int) -> int:
        me = os.getpid()
        child = os.fork()
        if not child:
            self._run_forked(run, output, me)
        self._children.add(child)
        return child

    def _run_forked(self, run: Callable[[], int], output: int, parent: int) -> NoReturn:
        status = 70
        try:
            _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() == parent:  # otherwise it ended before the call
                signal.signal(signal.SIGTERM, signal.SIG_DFL)
                self._control.close()
                os.dup2(output, 1)
                os.dup2(output, 2)
                status = run()
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)

    def _reap(self) -> None:
        """Reap what has ended. The test's process has a descriptor of each process, so a pid may be used again."""
        with suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG)[0]) != 0:
                self._children.discard(ended)


def requested(do: str, **values: Any) -> bytes:
    """Return a request in its form on the socket."""
    return json.dumps({"do": do, **values}).encode()
