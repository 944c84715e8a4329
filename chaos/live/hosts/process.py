"""Runs one node as a child process of this program."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from signal import SIGKILL, SIGSTOP, SIGTERM, Signals

from chaos.errors import ChaosError

_STOP_TIMEOUT_S = 30.0
_POLL_S = 0.01


class NodeProcess:
    """Runs `command` with this program's environment variables and those in `environment`. The output is appended
    to `log`."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        self._command = command
        self._environment = environment
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        process = self._process
        return process.pid if process is not None and process.poll() is None else None

    def start(self) -> str:
        if self.pid is None:
            with self._log.open("ab") as log:
                self._process = subprocess.Popen(
                    self._command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env={**os.environ, **self._environment},
                    cwd=self._log.parent,  # `python -m` searches this directory first
                    start_new_session=True,
                )
        return f"pid {self.pid}"

    def stop(self) -> str:
        """Stop the process with SIGTERM. Raises ChaosError if the process does not end."""
        return self._end(SIGTERM)

    def kill(self) -> str:
        """Kill the process with SIGKILL. Raises ChaosError if the process does not end."""
        return self._end(SIGKILL)

    def signal(self, number: Signals) -> str:
        return halt_or_go_on(self._running(), number)

    def _end(self, number: Signals) -> str:
        pid, process = self._running(), self._process
        assert process is not None
        begun = time.monotonic()
        os.kill(pid, number)
        try:
            status = process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired as error:
            raise ChaosError(f"pid {pid} did not end within {_STOP_TIMEOUT_S:.0f} s of {number.name}") from error
        how = Signals(-status).name if status < 0 else f"exit status {status}"
        return f"pid {pid} ended by {how} after {time.monotonic() - begun:.3f} s"

    def _running(self) -> int:
        pid = self.pid
        if pid is None:
            raise ChaosError(f"the node with the log {self._log} does not run")
        return pid


def halt_or_go_on(pid: int, number: Signals) -> str:
    """Send SIGSTOP or SIGCONT. Returns when /proc shows that the process has stopped or runs again."""
    os.kill(pid, number)
    stopped = number is SIGSTOP
    while (_state(pid) == "T") is not stopped:
        time.sleep(_POLL_S)
    return f"pid {pid} is {'stopped' if stopped else 'running'}"


def _state(pid: int) -> str:
    stat = Path(f"/proc/{pid}/stat").read_text()
    return stat[stat.rindex(")") + 2]
