"""Commands that run a process where a directory is a small or a read-only disk, in a mount namespace of its own.

Nothing is mounted for anybody else, and all of it is gone when the process ends. It needs root with CAP_SYS_ADMIN.
"""

from __future__ import annotations

import functools
import subprocess
from pathlib import Path
from types import TracebackType


@functools.cache
def may_mount() -> bool:
    """Whether this user may mount in a namespace of its own."""
    try:
        probe = small_disk(Path("/mnt"), 1 << 20)
        return subprocess.run([*probe, "true"], capture_output=True, timeout=10, check=False).returncode == 0
    except FileNotFoundError:
        return False


NO_MOUNTS = "needs `unshare -m` and mount, that is Linux and root with CAP_SYS_ADMIN: a real full or read-only disk"


def small_disk(directory: Path, size: int) -> list[str]:
    """What to put before a command, so that `directory` (which exists) is an empty disk of `size` bytes for it."""
    return _with_mount(tmpfs(size), directory)


class Namespace:
    """A mount namespace that lasts for a `with` block, in which several processes may live one after the other:
    `mount` is a shell command, in which $0 is `directory`."""

    def __init__(self, directory: Path, mount: str) -> None:
        self._directory = directory
        command = ["unshare", "-m", "sh", "-c", f"{mount} && echo mounted && exec cat", str(directory)]
        self._keeper = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._keeper.stdout is not None
        assert self._keeper.stdout.readline() == b"mounted\n"

    @property
    def inside(self) -> list[str]:
        """What to put before a command that is to live there."""
        return ["nsenter", "-t", str(self._keeper.pid), "-m", "--"]

    def run(self, command: str) -> None:
        """A shell command, in which $0 is the directory."""
        subprocess.run([*self.inside, "sh", "-c", command, str(self._directory)], check=True, capture_output=True)

    def seen(self, path: Path) -> Path:
        """An absolute path as it is there, from outside."""
        return seen_by(self._keeper.pid, path)

    def __enter__(self) -> Namespace:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._keeper.communicate()


def tmpfs(size: int) -> str:
    """What to give to `Namespace`, for an empty disk of `size` bytes."""
    return f'mount -t tmpfs -o size={size} tmpfs "$0"'


def read_only(directory: Path) -> list[str]:
    """What to put before a command, so that `directory` cannot be written by it."""
    return _with_mount('mount --bind "$0" "$0" && mount -o remount,ro,bind "$0"', directory)


def seen_by(pid: int, path: Path) -> Path:
    """An absolute path as that process sees it, from outside of its namespace."""
    return Path(f"/proc/{pid}/root{path}")


def _with_mount(mount: str, directory: Path) -> list[str]:
    return ["unshare", "-m", "sh", "-c", f'{mount} && exec "$@"', str(directory)]
