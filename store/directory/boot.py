"""The boot record: a file that says in which run of the machine a node last wrote. The boot record distinguishes the
kill of a process from a crash of the machine.

The kernel chooses a random boot id at each start of the machine. If a start finds the same boot id as in the boot
record, all earlier writes of the node are in the page cache or on the disk. If the boot id has changed, only flushed
bytes are certainly on the disk. Some cases:

- A container that is restarted on the same machine has the same boot id, so its stop counts as a kill. - A directory
  that was copied to another machine without an orderly stop finds another boot id, so its stop counts as a crash. - If
  a virtual machine is set back to a snapshot of itself, the boot id does not show this. - After a failed sync, the
  page cache does not prove what is on the disk. For this reason, the node removes the boot record after a failed sync,
  and its stop counts as a crash. - A process that stages its writes loses the staged bytes when it is killed.
  Therefore a node with staged writes records an empty boot id, and every stop that is not orderly counts as a crash.

A record is a line of JSON: {"boot_id": "6c2d9b6e-..."}
"""

from __future__ import annotations

import json
from pathlib import Path

KERNEL_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def read_boot_id(path: Path = KERNEL_BOOT_ID) -> str:
    """Return the boot id of this run of the machine, or "" if the system does not provide one. An empty boot id
    never proves that the machine has run without interruption."""
    try:
        return path.read_text("ascii").strip()
    except (OSError, ValueError):
        return ""


def encode_boot_record(boot_id: str) -> bytes:
    return json.dumps({"boot_id": boot_id}).encode() + b"\n"


def decode_boot_record(data: bytes) -> str:
    """Return the boot id of a boot record. Raise `ValueError` if the bytes are no boot record."""
    try:
        boot_id = json.loads(data)["boot_id"]
    except (TypeError, KeyError) as error:
        raise ValueError(repr(error)) from error
    if not isinstance(boot_id, str):
        raise ValueError("the boot id is not a string")
    return boot_id
