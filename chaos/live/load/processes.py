"""Starts, kills, replaces and stops the client processes of a run.

Every process writes its own history. The clients of a process have numbers that no other process uses. The history of
a killed process ends at an arbitrary line, and the next process begins a new history.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from signal import Signals

from chaos.errors import ChaosError
from chaos.live.checker.completeness import QueueHolders
from chaos.live.load.spec import ClientSpec, Role

# The number of client numbers that each process may use.
_NUMBERS = 100_000


class ClientTimeoutError(ChaosError):
    """Raised if a client process did not end in its time."""


@dataclass(frozen=True, slots=True)
class ClientOfRun:
    """A client process that a run started. `was_killed`: the process had no chance to finish its history."""

    number: int
    role: Role
    was_killed: bool


class ClientProcesses:
    """The client processes of a run, with their files in `directory`. `spec` has the values that are the same for all
    client processes.
    """

    def __init__(self, directory: Path, spec: ClientSpec) -> None:
        self._directory = directory
        self._spec = spec
        self._running: dict[int, tuple[Role, subprocess.Popen[bytes]]] = {}
        self._roles: dict[int, Role] = {}
        self._killed: set[int] = set()

    def start(self, role: Role) -> int:
        """Start one more process. Returns the number of the process."""
        number = len(self._roles) + 1
        self._roles[number] = role
        path = self._directory / f"client-{number}"
        history = path.with_suffix(".jsonl")
        first = number * _NUMBERS
        spec = replace(self._spec, role=role, first_process=first, seed=self._spec.seed + first, history=str(history))
        spec.save(path.with_suffix(".json"))
        with path.with_suffix(".log").open("wb") as log:
            command = [sys.executable, "-m", "chaos.live.load.client", str(path.with_suffix(".json"))]
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self._directory,  # a package `store` in the user's directory would hide ours
                start_new_session=True,
            )
        self._running[number] = (role, process)
        return number

    def every(self) -> list[ClientOfRun]:
        """Return all processes that were started, running or not."""
        return [ClientOfRun(number, role, number in self._killed) for number, role in self._roles.items()]

    def reach(self, nodes: Sequence[int], bootstrap: Sequence[str], holders: QueueHolders) -> None:
        """Let all processes that start from now on use these nodes and addresses. `holders` says which nodes have
        replicas of which queues."""
        self._spec = replace(self._spec, nodes=tuple(nodes), bootstrap=tuple(bootstrap), holders=dict(holders))

    def kill_one(self, random: Random) -> str:
        """Kill a producer process in the middle of its work, and start a new one. Returns evidence. Implements
        `chaos.live.faults.fault.LoadClients`.
        """
        number = random.choice([number for number, (role, _) in self._running.items() if role == "producers"])
        role, process = self._running.pop(number)
        self._killed.add(number)
        process.kill()
        status = process.wait()
        return f"client {number} was killed ({Signals(-status).name}); client {self.start(role)} began"

    def check(self) -> None:
        """Raise ChaosError if a process has ended before the run stopped it."""
        for number, (_, process) in self._running.items():
            if process.poll() is not None:
                raise ChaosError(f"client {number} ended by itself: {self._last_words(number)}")

    def stop(self, role: Role, within_s: float) -> None:
        """Stop all processes of the role with SIGTERM. Raises ChaosError if a process does not end."""
        ours = {number: process for number, (role_of, process) in self._running.items() if role_of == role}
        for process in ours.values():
            process.terminate()
        self._wait(ours, within_s)

    def finish(self, role: Role, within_s: float) -> None:
        """Wait until all processes of the role have finished. Raises ClientTimeoutError if a process does not
        finish in time, and ChaosError if it fails."""
        self._wait({number: process for number, (one, process) in self._running.items() if one == role}, within_s)

    def end(self) -> None:
        """Kill all processes that still run."""
        for number, (_, process) in self._running.items():
            self._killed.add(number)
            process.kill()
            process.wait()
        self._running.clear()

    def _wait(self, processes: dict[int, subprocess.Popen[bytes]], within_s: float) -> None:
        for number, process in processes.items():
            try:
                status = process.wait(within_s)
            except subprocess.TimeoutExpired as error:
                raise ClientTimeoutError(f"client {number} did not end within {within_s:.0f} s") from error
            del self._running[number]
            if status:
                raise ChaosError(f"client {number} failed: {self._last_words(number)}")

    def _last_words(self, number: int) -> str:
        log = (self._directory / f"client-{number}.log").read_text(errors="replace").strip()
        return log[-2000:] or "it printed nothing"
