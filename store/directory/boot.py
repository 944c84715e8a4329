"""The boot record: in which run of the machine a node last wrote, so that a killed process is told from a lost machine.

The kernel draws a random boot id at each start of the machine. What was written under the same id is still in
the page cache; under another one, only what was flushed is there for certain. A container restarted on the same machine
has the same id (it was a kill); a directory copied to another machine without an orderly stop has another one, and is
mistrusted with reason. A virtual machine put back to a snapshot of itself is not noticed. After a failed sync the page
cache is no evidence either, nor is it of what a process that stages its writes was about to give it: an empty id is
recorded then.

A record is a line of JSON: {"boot_id": "6c2d9b6e-..."}
"""

from __future__ import annotations

import json
from pathlib import Path

KERNEL_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def read_boot_id(path: Path = KERNEL_BOOT_ID) -> str:
    """This run of the machine; empty where the system does not say. An empty id is never taken for the same run."""
    try:
        return path.read_text("ascii").strip()
    except (OSError, ValueError):
        return ""


def encode_boot_record(boot_id: str) -> bytes:
    return json.dumps({"boot_id": boot_id}).encode() + b"\n"


def decode_boot_record(data: bytes) -> str:
    """Raises `ValueError` when the bytes are no record."""
    try:
        boot_id = json.loads(data)["boot_id"]
    except (TypeError, KeyError) as error:
        raise ValueError(repr(error)) from error
    if not isinstance(boot_id, str):
        raise ValueError("the boot id is no text")
    return boot_id
