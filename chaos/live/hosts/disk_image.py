"""The disk of one node: a separate file system, stored in a file. A run can cut the power of this disk, and can fill
the disk.

A killed process loses nothing that it wrote, because the kernel still has the pages. To lose unsynced data, the file
system is shut down in the middle of its work (EXT4_IOC_SHUTDOWN, which file systems' own crash tests use). The
shutdown drops all data and names that were not synced, and keeps all synced data and names. After that the program
mounts the file system again, and the file system recovers from its journal, as after a power cut.

    disk.img (ext4) ── loop device ── disk/ ── the node's data
"""

from __future__ import annotations

import fcntl
import os
import struct
import time
from contextlib import suppress
from pathlib import Path

import google_crc32c

from chaos.errors import ChaosError
from chaos.live.hosts.shell import run

_SHUTDOWN = 0x8004587D  # EXT4_IOC_SHUTDOWN, _IOR('X', 125, __u32)
_NO_LOG_FLUSH = struct.pack("I", 2)  # what the journal has in memory is lost too
_UNMOUNT_TIMEOUT_S = 10.0
_PIECE = 1 << 20
_PROBE = "written-before-the-power-was-cut"

PROGRAMS = {"mkfs.ext4": "e2fsprogs", "mount": "mount", "umount": "mount", "losetup": "mount"}


class DiskImage:
    """A disk of `size_bytes` at `mountpoint`, stored in the file `image`. Neither `image` nor `mountpoint` may
    exist before `make`."""

    def __init__(self, image: Path, mountpoint: Path, size_bytes: int) -> None:
        self.image = image
        self.mountpoint = mountpoint
        self.size_bytes = size_bytes

    def make(self) -> None:
        """Create a new, empty file system and mount it."""
        self.mountpoint.mkdir(parents=True)
        with self.image.open("wb") as file:
            file.truncate(self.size_bytes)
        run("mkfs.ext4", "-q", "-F", "-m", "0", str(self.image))
        self._mount()

    def remove(self) -> None:
        """Unmount the disk and delete its file. Do nothing if the disk does not exist."""
        with suppress(ChaosError):
            self._unmount()
        self.image.unlink(missing_ok=True)

    def cut_power(self) -> str:
        """Cut the disk's power: all data that was not synced is lost. No process may have a file open on the disk.

        Return the names of the lost files. One of the lost files is a probe: this method wrote the probe and did not
        sync it. All lost files but the probe are files of the node; with `flush = sync` it is possible that the node
        lost no file. If the probe was not lost, return "", because the cut lost no data.
        """
        probe = self.mountpoint / _PROBE
        probe.write_bytes(b"not synced")
        before = self._contents()
        disk = os.open(self.mountpoint, os.O_RDONLY)
        try:
            fcntl.ioctl(disk, _SHUTDOWN, _NO_LOG_FLUSH)
        finally:
            os.close(disk)
        self._unmount()
        self._mount()
        after = self._contents()
        if probe.exists():
            probe.unlink()
            return ""
        gone = len(before.keys() - after.keys()) - 1
        other = sum(after[path] != content for path, content in before.items() if path in after)
        return (
            f"unsynced data is lost: {gone} of the node's {len(before) - 1} files are gone, {other} have other contents"
        )

    def fill(self) -> str:
        """Allocate every free byte. Return the number of allocated bytes."""
        free = self.free_bytes
        with self._ballast.open("ab") as file, suppress(OSError):
            for step in (_PIECE, 4096):
                while True:
                    try:
                        os.posix_fallocate(file.fileno(), os.fstat(file.fileno()).st_size, step)
                    except OSError:
                        break
        return f"{free - self.free_bytes:,} bytes taken, {self.free_bytes:,} free"

    def empty(self) -> None:
        """Free the bytes that `fill` allocated."""
        self._ballast.unlink(missing_ok=True)

    @property
    def free_bytes(self) -> int:
        space = os.statvfs(self.mountpoint)
        return space.f_bavail * space.f_frsize

    @property
    def _ballast(self) -> Path:
        return self.mountpoint / "ballast"

    def _mount(self) -> None:
        run("mount", "-o", "loop", str(self.image), str(self.mountpoint))

    def _unmount(self) -> None:
        """Unmount the disk and wait until its loop device is gone.

        A process that was killed a moment ago may still use the disk. A starting container may also use the disk,
        because a container begins with all mounts of the machine. If the file system were mounted again too early, the
        kernel would continue with the file system that was shut down.
        """
        deadline = time.monotonic() + _UNMOUNT_TIMEOUT_S
        while True:
            try:
                run("umount", str(self.mountpoint))
                break
            except ChaosError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)
        while self._is_attached():
            if time.monotonic() > deadline:
                raise ChaosError(f"{self.image} is unmounted but still in use after {_UNMOUNT_TIMEOUT_S:.0f} s")
            time.sleep(0.01)

    def _is_attached(self) -> bool:
        """Return whether the disk still has a loop device."""
        return bool(run("losetup", "--associated", str(self.image)).strip())

    def _contents(self) -> dict[str, int]:
        files = (path for path in self.mountpoint.rglob("*") if path.is_file())
        return {str(path): _crc(path) for path in files}


def _crc(path: Path) -> int:
    crc = 0
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            crc = google_crc32c.extend(crc, piece)
    return crc
