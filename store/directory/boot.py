"""The boot record: a file that says in which run of the machine a node last wrote, and with which setting `flush`. The
boot record distinguishes the kill of a process from a crash of the machine.

The kernel chooses a random boot id at each start of the machine. If a start finds the same boot id as in the boot
record, all earlier writes of the node are in the page cache or on the disk. If the boot id has changed, only flushed
bytes are certainly on the disk. Some cases:

- A container that is restarted on the same machine has the same boot id, so its stop counts as a kill. - A directory
  that was copied to another machine without an orderly stop finds another boot id, so its stop counts as a crash. - If
  a virtual machine is set back to a snapshot of itself, the boot id does not show this. - After a failed sync, the
  page cache does not prove what is on the disk. For this reason, the node renames the boot record after a failed sync,
  and its stop counts as a crash. - A process that stages its writes loses the staged bytes when it is killed.
  Therefore a node with staged writes records an empty boot id, and every stop that is not orderly counts as a crash.

After a crash, the setting `flush` of the run that crashed says whether acknowledged entries may be missing. The setting
of the present run does not, because an operator can change it after the crash. A record without `flush`, of an earlier
version of this program, counts as "async".

A record is a line of JSON: {"boot_id": "6c2d9b6e-...", "flush": "sync"}
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

KERNEL_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def read_boot_id(path: Path = KERNEL_BOOT_ID) -> str:
    """Return the boot id of this run of the machine, or "" if the system does not provide one. An empty boot id
    never proves that the machine has run without interruption."""
    try:
        return path.read_text("ascii").strip()
    except (OSError, ValueError):
        return ""


@dataclass(frozen=True, slots=True)
class BootRecord:
    boot_id: str
    # The setting `flush` of the run that wrote last: "async" or "sync".
    flush: str

    def encode(self) -> bytes:
        return json.dumps(asdict(self)).encode() + b"\n"

    @staticmethod
    def decode(data: bytes) -> BootRecord:
        """Return the boot record. Raise `ValueError` if the bytes are no boot record."""
        fields = json.loads(data)
        try:
            record = BootRecord(fields["boot_id"], fields.get("flush", "async"))
        except (TypeError, KeyError) as error:
            raise ValueError(repr(error)) from error
        if not (isinstance(record.boot_id, str) and isinstance(record.flush, str)):
            raise ValueError("a field is not a string")
        return record
