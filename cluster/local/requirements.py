"""Checks what a new local cluster needs, before anything is written or started: packages, room on the disk, and a
directory that this user can write to. ports.py checks the ports."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path

from cluster.local.plan import DevError

# The packages of the extra `server`, by the names under which a node imports them.
SERVER_PACKAGES = ("aiohttp", "cryptography", "lark", "prometheus_client", "pydantic_settings", "structlog", "uvloop")
# A log allocates the segment in use and the next one when it is created.
_SEGMENTS = 2
# For indexes, checkpoints and logs of one node.
_BESIDE_BYTES = 16 << 20


def check_requirements(directory: Path, *, nodes: int, shards: int, segment_bytes: int) -> None:
    """Raise DevError if a new cluster with its files in `directory` cannot start. The message names all that is
    missing."""
    missing = [*_missing_packages(SERVER_PACKAGES), *_missing_room(directory, nodes, shards, segment_bytes)]
    if missing:
        raise DevError(f"the cluster cannot start, and nothing was started: {'; '.join(missing)}")


def room_needed(nodes: int, shards: int, segment_bytes: int) -> int:
    """Return the bytes that the files of a new cluster have after its start."""
    return nodes * (shards * _SEGMENTS * segment_bytes + _BESIDE_BYTES)


def _missing_packages(names: Iterable[str]) -> list[str]:
    if missing := [name for name in names if find_spec(name) is None]:
        return [f"the nodes need the packages {', '.join(missing)}: pip install 'ledgermq[server]'"]
    return []


def _missing_room(directory: Path, nodes: int, shards: int, segment_bytes: int) -> list[str]:
    place = next(each for each in (directory, *directory.parents) if each.exists())
    if not os.access(place, os.W_OK | os.X_OK):
        return [f"{place} cannot be written to: choose another --data"]
    free, needed = shutil.disk_usage(place).free, room_needed(nodes, shards, segment_bytes)
    if free < needed:
        return [
            f"the disk of {place} has {free >> 20:,} MiB free, and {nodes} nodes need {needed >> 20:,} MiB: choose "
            "another --data, fewer nodes or fewer shards"
        ]
    return []
