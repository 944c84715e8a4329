"""The processes of test clusters, as the test's process sees them."""

from __future__ import annotations

import atexit
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, BinaryIO

import cluster
from cluster.testing.forking import requested

# The packages that a node imports and a client does not.
_OF_A_NODE = ("aiohttp", "prometheus_client", "pydantic_settings", "structlog", "uvloop")
_PROGRAM = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[3]); "
    "from cluster.testing.forking import main; main(*map(int, sys.argv[1:3]))"
)
_END_S = 10.0
_POLL_S = 0.001


class ClusterError(Exception):
    """A test cluster cannot do what it was asked for. The message says why, and what to do."""


class ClusterProcess:
    """A node, or the links of a cluster. A signal never reaches another process, because the kernel's descriptor of the
    process stays valid when the pid is used again."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._descriptor = os.pidfd_open(pid)
        self._ended = False

    @property
    def runs(self) -> bool:
        return not self.wait(0)

    def send(self, number: signal.Signals) -> None:
        """Send a signal. Nothing happens if the process has ended."""
        if not self._ended:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._descriptor, number)

    def wait(self, timeout_s: float) -> bool:
        """Wait until the process has ended. Return False if it still runs after `timeout_s` seconds."""
        if not self._ended and self._has_ended(timeout_s):
            self._ended = True
            os.close(self._descriptor)
        return self._ended

    def pause(self) -> None:
        """Stop the process with SIGSTOP, and return when it has stopped. Raises ClusterError if it has ended."""
        self.send(signal.SIGSTOP)
        while self.runs and self._state() != "T":
            time.sleep(_POLL_S)
        if not self.runs:
            raise ClusterError(f"process {self.pid} has ended and cannot be paused")

    def resume(self) -> None:
        """Let a paused process continue. Nothing happens if it is not paused."""
        self.send(signal.SIGCONT)

    def kill(self) -> None:
        """Kill the process with SIGKILL, and return when it has ended. Raises ClusterError if it does not end."""
        self.send(signal.SIGKILL)
        if not self.wait(_END_S):
            raise ClusterError(f"process {self.pid} still runs {_END_S:g} s after SIGKILL: its disk may hang")

    def _has_ended(self, timeout_s: float) -> bool:
        poll = select.poll()  # select() refuses descriptors from 1,024 on, and a test suite may have many files open
        poll.register(self._descriptor, select.POLLIN)
        return bool(poll.poll(timeout_s * 1000))

    def _state(self) -> str:
        """Return the letter that /proc has for the state of the process, or "" if it has ended."""
        try:
            return Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return ""


class ForkingProcess:
    """The process that forks (forking.py). It serves all clusters of this process."""

    def __init__(self) -> None:
        """Raises ClusterError if packages of a node are not installed."""
        if missing := [name for name in _OF_A_NODE if find_spec(name) is None]:
            raise ClusterError(
                f"a cluster needs {', '.join(missing)}, which is not installed: pip install 'ledgermq[testing]'"
            )
        self._turn = threading.Lock()
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours = str(Path(cluster.__file__).resolve().parents[1])  # first, so that no package of a test hides ours
        path = json.dumps([ours, *sys.path])
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", _PROGRAM, str(theirs.fileno()), str(os.getpid()), path],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C is for the test, which then stops its clusters
                env={name: value for name, value in os.environ.items() if not name.startswith("LEDGERMQ_")},
            )

    def start_node(self, config: Path, output: BinaryIO) -> ClusterProcess:
        """Start a node with the settings file `config`. Its log goes to `output`."""
        return self._start([output.fileno()], "node", config=str(config))

    def start_links(
        self, control: socket.socket, links: Sequence[tuple[int, int, int, socket.socket]], output: BinaryIO
    ) -> ClusterProcess:
        """Start the links of a cluster: source, target, the target's port, and the socket where the source connects."""
        descriptors = [control.fileno(), output.fileno(), *(listener.fileno() for *_, listener in links)]
        return self._start(descriptors, "links", links=[ends for *ends, _ in links])

    def keep(self, directory: Path) -> None:
        """Remove the directory when this process ends, unless `forget` is called before."""
        with self._turn:
            self._ask([], "keep", directory=str(directory))

    def forget(self, directory: Path) -> None:
        with self._turn:
            self._ask([], "forget", directory=str(directory))

    @property
    def runs(self) -> bool:
        return self._process.poll() is None

    def close(self) -> None:
        """End the process, and everything that it has forked."""
        with suppress(OSError):
            self._control.shutdown(socket.SHUT_RDWR)  # a process forked from the test may have the same open socket
        self._control.close()
        self._process.wait()

    def _start(self, descriptors: list[int], do: str, **values: Any) -> ClusterProcess:
        with self._turn:  # the next request may reap the process, and then its pid means nothing
            return ClusterProcess(self._ask(descriptors, do, **values))

    def _ask(self, descriptors: list[int], do: str, **values: Any) -> int:
        try:
            socket.send_fds(self._control, [requested(do, **values)], descriptors)
            answer = self._control.recv(64)
        except OSError:
            answer = b""
        if not answer:
            raise ClusterError("the process that starts nodes has ended: its standard error says why")
        return int(answer)


_turn = threading.Lock()
_made: dict[int, ForkingProcess] = {}


def forking_process() -> ForkingProcess:
    """Return the forking process of this process. The first call starts it; a process that was forked from a test has
    its own. Raises ClusterError."""
    with _turn:
        found = _made.get(os.getpid())
        if found is None or not found.runs:
            found = _made[os.getpid()] = ForkingProcess()
            atexit.register(_close, found, os.getpid())
        return found


def _close(process: ForkingProcess, owner: int) -> None:
    """End the forking process at the exit of its owner, but not at the exit of a process forked from the owner."""
    if os.getpid() == owner:
        process.close()
