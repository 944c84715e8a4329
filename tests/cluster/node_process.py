"""Runs one node as a process, by `ledgermq server run`, on the usual disk or on a disk made for the test."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from tests.cluster.waiter import until

_STOP_S = 10


class NodeProcess:
    """A node process that runs during a `with` block. `before` is a command prefix. `main` is Python code that runs
    instead of the program `ledgermq`."""

    def __init__(self, config: Path, *, before: Sequence[str] = (), main: str = "") -> None:
        program = ["-c", main] if main else ["-m", "ledgermq"]
        self._log = config.with_suffix(".log")
        with open(self._log, "ab") as log:
            self._process = subprocess.Popen(
                [*before, sys.executable, *program, "server", "run", "--config", str(config)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def runs(self) -> bool:
        return self._process.poll() is None

    def send_signal(self, number: int) -> None:
        self._process.send_signal(number)

    @property
    def log(self) -> str:
        """The whole output of the process."""
        return self._log.read_text()

    async def ended(self) -> int:
        """Wait until the process ends, and return its exit status."""
        return (await until(self._status, "the process ends"))[0]

    def _status(self) -> tuple[int] | None:
        status = self._process.poll()
        return None if status is None else (status,)

    def __enter__(self) -> NodeProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
