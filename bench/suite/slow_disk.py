"""Makes the disk of single processes slow: a small library, which these processes preload, delays their fsyncs.

The delay of a process can be changed while the process runs, so that the same nodes are measured with several delays.
The library sees calls of fsync and fdatasync through the C library. These are all syncs that a node makes
(`store/disk/disk.py`). Nothing of the system is changed, and no special rights are needed.
"""

from __future__ import annotations

import shutil
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cluster.process_variables import changed_variables

_SOURCE = Path(__file__).with_name("slow_disk.c")
_COMPILERS = ("cc", "gcc", "clang")
_COMPILE_TIMEOUT_S = 60.0
# The variable that tells the library where it makes its files.
_DIRECTORY_VARIABLE = "LEDGERMQ_SLOW_DISK"
_DELAY = _COUNT = struct.Struct("=Q")
_COUNT_AT = 8


class NoSlowDiskError(Exception):
    """This machine cannot make a disk slow. The message says why, and what to do."""


class SlowDisks:
    """Sets the delays of the processes that are started inside `preloaded`, and counts their fsyncs."""

    def __init__(self, directory: Path) -> None:
        """Compile the library into `directory`, which must exist. Raises NoSlowDiskError."""
        self._library = directory / "slow_disk.so"
        self._processes = directory / "slow-processes"
        self._processes.mkdir(exist_ok=True)
        compiler = next(filter(None, map(shutil.which, _COMPILERS)), None)
        if compiler is None:
            raise NoSlowDiskError(f"no C compiler was found ({', '.join(_COMPILERS)}): install one, for example gcc")
        command = [compiler, "-O2", "-shared", "-fPIC", "-o", str(self._library), str(_SOURCE), "-ldl"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_COMPILE_TIMEOUT_S, check=False)
        if done.returncode:
            raise NoSlowDiskError(f"{compiler} cannot compile {_SOURCE.name}: {done.stderr.strip()[-500:]}")

    @contextmanager
    def preloaded(self) -> Iterator[None]:
        """Let the processes that are started inside the `with` block preload the library. Their delay is 0 at first."""
        with changed_variables({"LD_PRELOAD": str(self._library), _DIRECTORY_VARIABLE: str(self._processes)}):
            yield

    def delay(self, pid: int, delay_ms: float) -> None:
        """Let each fsync of the process that begins from now on take `delay_ms` longer. Raise NoSlowDiskError if the
        process has not preloaded the library."""
        with self._file(pid).open("r+b") as file:
            file.write(_DELAY.pack(round(delay_ms * 1000)))

    def syncs(self, pid: int) -> int:
        """Return the number of fsyncs that the process has finished. Raise NoSlowDiskError if the process has not
        preloaded the library."""
        return int(_COUNT.unpack(self._file(pid).read_bytes()[_COUNT_AT:])[0])

    def _file(self, pid: int) -> Path:
        path = self._processes / str(pid)
        if not path.exists():
            raise NoSlowDiskError(f"process {pid} has not preloaded {self._library.name}: is it linked statically?")
        return path
