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


class HostedNodeProcess:
    """Runs `command` with this program's environment variables and those in `environment`. The output is appended
    to `log`. `name` names the node in evidence, for example `node 2`."""

    def __init__(self, name: str, command: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        self._name = name
        self._command = command
        # The variables of the next start.
        self.environment = environment
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        process = self._process
        return process.pid if process is not None and process.poll() is None else None

    def start(self) -> str:
        started = self._process is not None
        if self.pid is None:
            with self._log.open("ab") as log:
                self._process = subprocess.Popen(
                    self._command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env={**os.environ, **self.environment},
                    cwd=self._log.parent,  # `python -m` searches this directory first
                    start_new_session=True,
                )
        return f"{self._name} was started{' again' if started else ''}"

    def stop(self) -> str:
        """Stop the process with SIGTERM. Raises ChaosError if the process does not end."""
        return self._end(SIGTERM)

    def kill(self) -> str:
        """Kill the process with SIGKILL. Raises ChaosError if the process does not end."""
        return self._end(SIGKILL)

    def signal(self, number: Signals) -> str:
        halt_or_go_on(self._running(), number)
        return halted_or_going_on(self._name, number)

    def _end(self, number: Signals) -> str:
        pid, process = self._running(), self._process
        assert process is not None
        begun = time.monotonic()
        os.kill(pid, number)
        try:
            status = process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired as error:
            raise ChaosError(f"{self._name} did not end within {_STOP_TIMEOUT_S:.0f} s of {number.name}") from error
        seconds = time.monotonic() - begun
        if status == -SIGKILL:
            return f"{self._name} was killed (SIGKILL)"
        how = f"by {Signals(-status).name}" if status < 0 else f"with exit status {status}"
        return f"{self._name} ended {how} {seconds:.2f} s after {number.name}"

    def _running(self) -> int:
        pid = self.pid
        if pid is None:
            raise ChaosError(f"{self._name} does not run: see {self._log}")
        return pid


def halt_or_go_on(pid: int, number: Signals) -> None:
    """Send SIGSTOP or SIGCONT. Returns when /proc shows that the process has stopped or runs again."""
    os.kill(pid, number)
    stopped = number is SIGSTOP
    while (_state(pid) == "T") is not stopped:
        time.sleep(_POLL_S)


def halted_or_going_on(name: str, number: Signals) -> str:
    """Return the evidence that a node was stopped with SIGSTOP, or continued with SIGCONT."""
    return f"{name} is {'paused' if number is SIGSTOP else 'running again'}"


def _state(pid: int) -> str:
    stat = Path(f"/proc/{pid}/stat").read_text()
    return stat[stat.rindex(")") + 2]
