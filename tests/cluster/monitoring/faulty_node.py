"""The program of a node with a fault. A fault begins when a test writes the node's trigger file.

slow disk      each fsync of the log takes longer by the seconds in the file
failed disk    each write of the log fails
clock          the wall clock is ahead by the milliseconds in the file
program        no command can be applied
mute           the node acknowledges no entries to leaders
"""

from __future__ import annotations

import time
from pathlib import Path

from cluster.node.node import Node
from cluster.node.runtime import now_ms
from ledger.broker.applied_state import AppliedResult, AppliedState
from ledgermq.__main__ import main
from raft.core import AppendResponse, RaftMessage
from raft.transport.grpc_transport import GrpcTransport
from store import Header, PosixDisk
from store.disk.disk import PosixFile, Writable
from store.errors import DiskFailedError


def program_with(fault: str, trigger: Path) -> str:
    """Return Python code for `NodeProcess`."""
    return f"from tests.cluster.monitoring.faulty_node import run; run({fault!r}, {str(trigger)!r})"


def run(fault: str, trigger: str) -> None:
    """Run a node with this fault. The arguments of the program are those of `ledgermq`."""
    file = Path(trigger)
    match fault:
        case "slow disk" | "failed disk":
            disk = FaultyDisk(file, fails=fault == "failed disk")
            Node.__init__.__defaults__ = (disk,)
        case "clock":
            Node.__init__.__kwdefaults__ = {
                **(Node.__init__.__kwdefaults__ or {}),
                "now_ms": lambda: now_ms() + int(_value(file)),
            }
        case "program":
            AppliedState.apply_command = _broken(file)  # type: ignore[method-assign]
        case "mute":
            GrpcTransport.send = _mute(file)  # type: ignore[method-assign]
        case _:
            raise ValueError(fault)
    main()


def _value(trigger: Path) -> float:
    try:
        return float(trigger.read_text())
    except FileNotFoundError:
        return 0.0


def _broken(trigger: Path):  # type: ignore[no-untyped-def]
    apply = AppliedState.apply_command

    def apply_command(self: AppliedState, header: Header, body: memoryview) -> AppliedResult:
        if trigger.exists():
            raise RuntimeError("this program has a fault")
        return apply(self, header, body)

    return apply_command


def _mute(trigger: Path):  # type: ignore[no-untyped-def]
    send = GrpcTransport.send

    def send_others(self: GrpcTransport, message: RaftMessage) -> None:
        if not (isinstance(message, AppendResponse) and trigger.exists()):
            send(self, message)

    return send_others


class FaultyDisk(PosixDisk):
    """A disk that is slow, or that fails, once the trigger file is there."""

    def __init__(self, trigger: Path, *, fails: bool) -> None:
        self.trigger = trigger
        self.fails = fails

    def open(self, path: Path) -> PosixFile:
        file = super().open(path)
        return FaultyFile(path, file, self) if path.parent.name == "log" else file


class FaultyFile(PosixFile):
    """A file of the CommitLog on a `FaultyDisk`."""

    def __init__(self, path: Path, file: PosixFile, disk: FaultyDisk) -> None:
        super().__init__(path, file._descriptor)
        self._disk = disk

    def write(self, offset: int, *pieces: Writable) -> None:
        if self._disk.fails and self._disk.trigger.exists():
            raise DiskFailedError(self._path, "Input/output error")
        super().write(offset, *pieces)

    def sync(self) -> None:
        if not self._disk.fails:
            time.sleep(_value(self._disk.trigger))
        super().sync()
