"""Starts and ends the server processes of a peer. Each process has its own log file and its own session. A process is
ended by its pid, together with all processes that it started. The processes are also ended if a start failed half-way.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.peers.peer import PeerError
from cluster import process_use
from cluster.allocator import ENVIRONMENT

_STOP_S = 15.0
_POLL_S = 0.1
# The time in seconds that a killed process may take until it is gone and reaped.
_GONE_S = 5.0
_ROOT = Path(__file__).resolve().parents[2]
_LOG_TAIL = 1500


class Processes:
    """Starts, watches and stops the server processes of one peer."""

    def __init__(self) -> None:
        self._started: dict[str, subprocess.Popen[bytes]] = {}
        self._logs: dict[str, Path] = {}

    def spawn(
        self, directory: Path, name: str, command: Sequence[str | Path], environment: Mapping[str, str] | None = None
    ) -> None:
        """Start `command` with `directory` as its working directory; the log file of the process is also written
        there. The variables in `environment` are added to the environment variables of this process.
        """
        directory.mkdir(parents=True, exist_ok=True)
        self._logs[name] = directory / f"{name}.log"
        with self._logs[name].open("ab") as log:
            self._started[name] = subprocess.Popen(
                list(map(str, command)),
                cwd=directory,
                env=os.environ | dict(environment or {}),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def wait_open(self, ports: Sequence[int], timeout_s: float = 60.0) -> None:
        """Wait until all `ports` accept connections. Raise PeerError if a process ends, or if a port is not open in
        time.
        """
        deadline = time.monotonic() + timeout_s
        for port in ports:
            while not _is_open(port):
                self.check()
                if time.monotonic() > deadline:
                    raise PeerError(f"port {port} does not open within {timeout_s:g} s. {self._last_words()}")
                time.sleep(_POLL_S)

    def check(self) -> None:
        """Raise PeerError if a process has ended by itself."""
        for name, process in self._started.items():
            if process.poll() is not None:
                raise PeerError(f"{name} ended with status {process.returncode}. {self._last_words(name)}")

    @property
    def pids(self) -> tuple[int, ...]:
        return tuple(process.pid for process in self._started.values())

    def stop(self) -> None:
        for process in self._started.values():
            _signal(process, signal.SIGTERM)
        deadline = time.monotonic() + _STOP_S
        for process in self._started.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, deadline - time.monotonic()))
            _signal(process, signal.SIGKILL)  # also the processes that it started and left
            process.wait()
        for process in self._started.values():
            _wait_gone(process.pid)
        self._started.clear()

    def _last_words(self, *names: str) -> str:
        texts = {name: self._logs[name].read_text(errors="replace").strip() for name in names or self._started}
        return "\n".join(f"The end of {name}'s log: {text[-_LOG_TAIL:]}" for name, text in texts.items())


def cpu_s(pids: Sequence[int]) -> float:
    """Return the CPU time so far, in seconds, of these processes and of the living processes of their sessions."""
    total = 0.0
    for pid in (int(path.name) for path in Path("/proc").glob("[0-9]*")):
        with contextlib.suppress(OSError):  # the process has ended
            if pid in pids or os.getsid(pid) in pids:
                total += process_use.cpu_s(pid)
    return total


def load_environment() -> dict[str, str]:
    """Return the environment of a load process: all clients have the same allocator settings."""
    path = os.pathsep.join([str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    return os.environ | ENVIRONMENT | {"PYTHONPATH": path}


def free_ports(count: int) -> list[int]:
    """Return `count` different ports of the loopback interface that are free now."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    try:
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


def _is_open(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


def _signal(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    """Send the signal to all processes of the process group that `process` leads."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)


def _wait_gone(group: int) -> None:
    """Wait until all processes of the process group have ended, because only then are their ports free."""
    deadline = time.monotonic() + _GONE_S
    with contextlib.suppress(ProcessLookupError):
        while time.monotonic() < deadline:
            os.killpg(group, 0)
            time.sleep(_POLL_S)
