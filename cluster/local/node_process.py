"""One node process of a local cluster, and its directory, which contains node.toml, the pid file, the log and the
data.

The pid file alone does not identify the process of a node, because the system can give the pid to another program
after the node has ended. A process belongs to the node only if it is alive *and* its command line names the node's
node.toml. A process that does not belong to the node never receives a signal.

    node-1/
      node.toml   the settings for `ledgermq server run`
      pid         the pid of the process that was started last
      log         the output of all processes of this node
      data/       the node's data directory
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Protocol

_POLL_SECONDS = 0.02
_COMMAND = ("-m", "ledgermq", "server", "run", "--config")
# How the command line of a node names its program. Nodes that an earlier version started have the second form.
_PROGRAMS = (b"-m ledgermq ", b"-m cluster.cli ")


class StartedProcess(Protocol):
    """A process that this program started, as `subprocess.Popen` describes it."""

    @property
    def pid(self) -> int: ...

    def poll(self) -> int | None:
        """Return None while the process runs. After the process has ended, reap the process and return its exit
        code."""


def start_detached(command: Sequence[str], directory: Path, output: BinaryIO) -> StartedProcess:
    """Start a process in `directory`, detached from the terminal and from this program. Its output is appended to
    `output`."""
    return subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=directory, start_new_session=True
    )


@dataclass(slots=True)
class DevNode:
    """The process of the node `node`, with its files in the absolute path `directory`. The node serves clients at
    `address` and HTTP at `http`."""

    node: int
    directory: Path
    address: str
    http: str
    rocketmq: str = ""
    # The node's process, if this program started it. This program must reap it, or it stays as a zombie.
    _child: StartedProcess | None = field(default=None, repr=False)

    @property
    def config(self) -> Path:
        return self.directory / "node.toml"

    @property
    def data(self) -> Path:
        return self.directory / "data"

    @property
    def log(self) -> Path:
        return self.directory / "log"

    @property
    def pid(self) -> int | None:
        """Return the pid of the node's process, or None if the node does not run."""
        if self._child is not None:
            if self._child.poll() is None:
                return self._child.pid  # the new process may not show its command line in /proc yet
            self._child = None
        try:
            pid = int((self.directory / "pid").read_text())
        except (FileNotFoundError, ValueError):
            return None
        return pid if self._is_ours(pid) else None

    def spawn(self) -> None:
        """Start the node's process, detached from the terminal and from this program. The caller makes sure that
        the node does not run."""
        with open(self.log, "ab") as log:
            self._child = start_detached([sys.executable, *_COMMAND, str(self.config)], self.directory, log)
        (self.directory / "pid").write_text(f"{self._child.pid}\n")

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the node's process. If the process does not run, nothing happens."""
        pid = self.pid
        if pid is None:
            return
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            return

    def wait_stopped(self, timeout_s: float) -> bool:
        """Wait until the process has ended. Return False if the process still runs after `timeout_s` seconds."""
        deadline = time.monotonic() + timeout_s
        while self.pid is not None:
            if time.monotonic() >= deadline:
                return False
            time.sleep(_POLL_SECONDS)
        return True

    def log_tail(self, lines: int = 15) -> str:
        """Return the last lines of the node's log, or an empty text if there is no log."""
        try:
            with open(self.log, "rb") as log:
                log.seek(max(0, log.seek(0, os.SEEK_END) - 16_384))
                text = log.read().decode(errors="replace")
        except FileNotFoundError:
            return ""
        return "\n".join(text.splitlines()[-lines:])

    def _is_ours(self, pid: int) -> bool:
        # A zombie has an empty command line. On a system without /proc (macOS) `ps` prints the command line.
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ")
        except OSError:
            if os.path.isdir("/proc/self"):
                return False
            command = subprocess.run(["ps", "-o", "command=", "-p", str(pid)], capture_output=True, check=False).stdout
        return os.fsencode(self.config) in command and any(program in command for program in _PROGRAMS)
