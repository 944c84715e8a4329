"""The data directory of a node that runs, copied as `cp -r` would: what the node replaced or deleted in the meantime is
not there, and its lock stays its own."""

from __future__ import annotations

import shutil
from pathlib import Path


def copy_live(data: Path, to: Path) -> Path:
    shutil.copytree(data, to, ignore=shutil.ignore_patterns("lock", "*.sock"), copy_function=_copy_if_there)
    return to


def _copy_if_there(source: str, target: str) -> str:
    try:
        return shutil.copy2(source, target)
    except FileNotFoundError:
        return target
