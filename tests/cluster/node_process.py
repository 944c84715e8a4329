"""One node as a process of its own, as `ledgermq server run` starts it, perhaps on a disk made for the test."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from tests.cluster.waiter import until

_STOP_S = 10


class NodeProcess:
    """Runs in a `with` block. `before` is put before its command, `main` is a program in the place of `ledgermq`."""

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
        """All that it wrote."""
        return self._log.read_text()

    async def ended(self) -> int:
        """The exit status, once there is one."""
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
