"""Makes system calls of a running process fail or take long, by attaching strace.

The kernel itself returns the error, so the program under test is unchanged. strace prints each call that it changes;
these lines are the evidence. strace selects calls by their name.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from chaos.errors import ChaosError

PROGRAMS = {"strace": "strace"}
_ATTACH_TIMEOUT_S = 10.0
_DETACH_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class Injection:
    """An error or a delay to inject into system calls. `calls` are names of system calls. `what` is in strace's syntax,
    such as `error=EIO` or `delay_enter=200000` (in µs).
    """

    calls: tuple[str, ...]
    what: str


class Injector:
    """Makes the system calls of one process fail, or delays them, from `attach` to `detach`. An object can be used
    once."""

    def __init__(self, pid: int, output: Path) -> None:
        self._pid = pid
        self._output = output
        self._strace: subprocess.Popen[bytes] | None = None

    def attach(self, injection: Injection) -> None:
        """Attach strace, and return when system calls are being changed. Raises ChaosError if strace
        cannot attach."""
        calls = ",".join(injection.calls)
        command = ["strace", "-f", "-p", str(self._pid), "-o", str(self._output), "-e", f"trace={calls}"]
        command += ["-e", f"inject={calls}:{injection.what}"]
        errors = self._output.with_suffix(".errors")
        with errors.open("wb") as said:
            self._strace = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=said, stderr=said)
        deadline = time.monotonic() + _ATTACH_TIMEOUT_S
        while not self._traced():
            if self._strace.poll() is not None or time.monotonic() > deadline:
                raise ChaosError(f"strace cannot attach to pid {self._pid}: {errors.read_text().strip()}")
            time.sleep(0.01)

    def detach(self) -> int:
        """Detach strace, and return the number of calls that strace changed."""
        if self._strace is not None and self._strace.poll() is None:
            self._strace.send_signal(signal.SIGINT)
            try:
                self._strace.wait(_DETACH_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self._strace.kill()
                self._strace.wait()
        if not self._output.exists():
            return 0
        with self._output.open(errors="replace") as lines:
            return sum(line.rstrip().endswith(("(INJECTED)", "(DELAYED)")) for line in lines)

    def _traced(self) -> bool:
        """Return whether strace traces all threads of the process."""
        try:
            threads = os.listdir(f"/proc/{self._pid}/task")
            states = [Path(f"/proc/{self._pid}/task/{thread}/status").read_text() for thread in threads]
        except OSError:
            return False
        return all("TracerPid:\t0\n" not in state for state in states)
