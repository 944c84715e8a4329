"""Records the conditions of a measurement: the machine, its memory, and the versions of programs and libraries."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from ledger.version import VERSION

LIBRARIES = ("grpcio", "uvloop", "numpy", "protobuf", "google-crc32c", "hdrhistogram")


def machine() -> dict[str, str]:
    """Return the conditions of the measurement: the name and the text of each condition."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    return {
        "processor": f"{_processor()}, {len(os.sched_getaffinity(0))} cores",
        "memory": f"{memory:.0f} GiB",
        "system": f"{platform.system()} {platform.release()}",
        "load before": " ".join(f"{each:.2f}" for each in os.getloadavg()),
        "Python": platform.python_version(),
        **{name: _version(name) for name in LIBRARIES},
        "GRPC_EXPERIMENTS": os.environ.get("GRPC_EXPERIMENTS", ""),
        "ledgermq": f"{VERSION} {_commit()}".strip(),
    }


def default_warm_gib() -> float:
    """Return how many GiB of memory to touch before a measurement starts. The result is the memory that a
    measurement writes, but at most a quarter of the free memory."""
    free = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES") / (1 << 30)
    return round(min(3.0, free / 4), 1)


def touch_memory(gib: float) -> None:
    """Allocate `gib` GiB of memory, touch every page, and release the memory.

    If the host of a virtual machine reclaims free memory, the first use of a page takes ten times as long as later
    uses. After the call, the next program receives pages that were used before, so its first use of each page is fast.
    """
    if size := int(gib * (1 << 30)):
        code = f"import mmap; mmap.mmap(-1, {size}, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE)"
        subprocess.run([sys.executable, "-c", code], check=False)  # the machine may have too little memory


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "?"


def _commit() -> str:
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip()
