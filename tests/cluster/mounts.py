"""Runs processes in a mount namespace, where a directory is a small disk or a read-only disk.

Processes outside the namespace do not see the mounts, and the mounts end with the process. Root with CAP_SYS_ADMIN is
needed.
"""

from __future__ import annotations

import functools
import subprocess
from pathlib import Path
from types import TracebackType


@functools.cache
def may_mount() -> bool:
    """Return whether this user may mount in a mount namespace."""
    try:
        probe = small_disk(Path("/mnt"), 1 << 20)
        return subprocess.run([*probe, "true"], capture_output=True, timeout=10, check=False).returncode == 0
    except FileNotFoundError:
        return False


NO_MOUNTS = "needs `unshare -m` and mount, that is Linux and root with CAP_SYS_ADMIN: a real full or read-only disk"


def small_disk(directory: Path, size: int) -> list[str]:
    """Return a command prefix. The command then sees `directory`, which must exist, as an empty disk of `size`
    bytes."""
    return _with_mount(tmpfs(size), directory)


class Namespace:
    """A mount namespace that exists during a `with` block, for several processes one after another. `mount` is a
    shell command that makes the mount; in it $0 is `directory`."""

    def __init__(self, directory: Path, mount: str) -> None:
        self._directory = directory
        command = ["unshare", "-m", "sh", "-c", f"{mount} && echo mounted && exec cat", str(directory)]
        self._keeper = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._keeper.stdout is not None
        assert self._keeper.stdout.readline() == b"mounted\n"

    @property
    def inside(self) -> list[str]:
        """Return a command prefix that runs a command in this namespace."""
        return ["nsenter", "-t", str(self._keeper.pid), "-m", "--"]

    def run(self, command: str) -> None:
        """Run a shell command in this namespace. In the command $0 is the directory."""
        subprocess.run([*self.inside, "sh", "-c", command, str(self._directory)], check=True, capture_output=True)

    def seen(self, path: Path) -> Path:
        """Return the path, outside of the namespace, of a file that the namespace has at `path` (absolute)."""
        return seen_by(self._keeper.pid, path)

    def __enter__(self) -> Namespace:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._keeper.communicate()


def tmpfs(size: int) -> str:
    """Return a `mount` command for `Namespace` that mounts an empty disk of `size` bytes."""
    return f'mount -t tmpfs -o size={size} tmpfs "$0"'


def read_only(directory: Path) -> list[str]:
    """Return a command prefix. The command then cannot write to `directory`."""
    return _with_mount('mount --bind "$0" "$0" && mount -o remount,ro,bind "$0"', directory)


def seen_by(pid: int, path: Path) -> Path:
    """Return the path, outside of the namespace, of a file that process `pid` sees at `path` (absolute)."""
    return Path(f"/proc/{pid}/root{path}")


def _with_mount(mount: str, directory: Path) -> list[str]:
    return ["unshare", "-m", "sh", "-c", f'{mount} && exec "$@"', str(directory)]
