"""The log of one shard, opened: what a start finds on the disk, and what follows from it.

    crashed?  ->  base and log (a loss is remembered before anything is cut)  ->  flushed  ->  this boot is recorded

Whatever the last run left (an orderly stop, a kill, a machine that went down, a log being replaced), after this the
log is whole and flushed, and it is said what may be missing. An orderly stop leaves a clean mark, so that the next
start can tell damage from a torn tail.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from google.protobuf.message import DecodeError

from cluster.node.checkpoints import Checkpoints
from cluster.node.metrics.node_metrics import MeasuredLog
from cluster.node.runtime import Runtime
from cluster.node.settings import NodeSettings
from raft.configuration_entry import ShardConfiguration, decode_configuration
from store import (
    CrashEnd,
    Disk,
    EntryKind,
    File,
    Header,
    LogCallbacks,
    LogSettings,
    NodeDirectory,
    PreviousRun,
    RepairMark,
    Snapshot,
    Snapshots,
    StoreError,
    Suspect,
)
from store.disk.numbered import name_of
from store.log.entry import HEADER_SIZE, EntryFlawError, padded, parse, verified

log = logging.getLogger("ledgermq.node.shard")


class ShardError(Exception):
    """The shard cannot run on this node. The sentence says why and what to do."""


class ShardLog:
    def __init__(
        self,
        number: int,
        settings: NodeSettings,
        disk: Disk,
        directory: NodeDirectory,
        observe_append: Callable[[float], None],
        runtime: Runtime,
        snapshots: Snapshots,
        checkpoints: Checkpoints,
        *,
        reads_again: bool = True,
    ) -> None:
        """Reads what no checkpoint knows of the log. `observe_append` is told how many seconds each group write takes.
        `reads_again`: something of what a checkpoint knows, too.
        Raises StoreError, LogDamagedError among them, and ShardError."""
        self.snapshots = snapshots
        self.configurations: list[tuple[int, ShardConfiguration]] = []
        """Those that the log, and the base before it, held at the start; and the first one, once it is written."""
        self.max_message_bytes = settings.max_message_bytes
        """As set; less where the shard began with smaller entries."""
        self._number = number
        self._settings = settings
        self._disk = disk
        self._directory = directory
        self._runtime = runtime
        self._checkpoints = checkpoints
        self.segment_bytes = settings.segment_bytes
        """As set, or as the shard began."""
        self.log = self._open(directory.log_directory(number), reads_again=reads_again)
        self.log.observe, self.log.clock_ms = observe_append, runtime.monotonic_ms
        self._check_peers()

    def close(self) -> None:
        """Orderly: flushed, with a clean mark."""
        try:
            self.log.sync()
            self._directory.marks(self._number).write_clean_mark(self.log.clean_mark())
        except StoreError as error:
            log.error("shard %d: no clean mark, the log could not be flushed: %s", self._number, error)
        finally:
            self.log.close()

    def _open(self, path: Path, *, reads_again: bool) -> MeasuredLog:
        started, boot_id = time.perf_counter(), self._runtime.boot_id()
        directory, number, snapshot, found = (
            self._directory,
            self._number,
            self.snapshots.snapshot,
            self._checkpoints.found,
        )
        repair = directory.marks(number).repair()
        clean = directory.marks(number).clean_mark() if repair is None or not repair.ends else None
        if found is not None:
            self.configurations.append((found.configuration_index, decode_configuration(found.snapshot.configuration)))
        elif snapshot is not None:
            self.configurations.append((snapshot.index, decode_configuration(snapshot.configuration)))
        self._take_fixed_sizes(path)
        opened = MeasuredLog.open(
            self._disk,
            path,
            LogSettings(segment_bytes=self.segment_bytes, writing=self._settings.writing),
            PreviousRun(
                snapshot=snapshot,
                known=self._checkpoints.known,
                reads_again=reads_again,
                is_resetting=self.snapshots.is_resetting,
                clean=clean,
                has_crashed=directory.marks(number).crashed(boot_id),
            ),
            LogCallbacks(
                on_loss=lambda: directory.marks(number).distrust_page_cache(),
                before_cut=self._remember_loss,
                on_entry=self._remember_configuration,
                on_progress=tell_progress(),
            ),
        )
        opened.sync()  # what a killed process left in the page cache counts from now on, in both flush modes
        if repair is not None:
            self._end_repair(repair, is_as_stopped=clean is not None)
        self.snapshots.finish_reset()
        directory.marks(number).record_boot(boot_id if self._settings.write != "staged" else "")
        directory.marks(number).remove_clean_mark()  # until then it vouches for what is here
        seconds = time.perf_counter() - started
        log.info(
            "shard %d: a log of %d entries, %d bytes, read in %.2f s", number, opened.last_index, opened.end, seconds
        )
        return opened

    def _remember_configuration(self, header: Header, body: memoryview) -> None:
        found = self._checkpoints.found
        if header.kind is EntryKind.CONFIGURATION and (found is None or header.index > found.index):
            self.configurations.append((header.index, decode_configuration(bytes(body))))

    def _remember_loss(self, end: CrashEnd) -> None:
        """The machine went down, or a process that staged its writes was killed. In `sync` mode what was acknowledged
        is there, unless the log was torn in its middle; in `async` mode its last entries may be missing without a
        trace."""
        if self._settings.flush == "sync" and not end.reason:
            return
        reason = end.reason or "the machine went down (or a node that stages its writes) before the log was flushed"
        found = Suspect(reason=reason, since_ms=self._runtime.now_ms(), last_index=end.last_index)
        mark = self._directory.marks(self._number).mark_suspect(found)
        log.warning(
            "shard %d: entries behind index %d may be lost here (%s): this node neither votes nor counts until it has "
            "caught up with a leader",
            self._number,
            mark.last_index,
            mark.reason,
        )

    def _end_repair(self, repair: RepairMark, *, is_as_stopped: bool) -> None:
        """The log was repaired, and its own bytes were not found again behind that: they may have been more."""
        if not is_as_stopped:
            mark = self._directory.marks(self._number).mark_suspect(repair.doubt)
            log.warning(
                "shard %d: %s: this node neither votes nor counts until it has caught up with a leader",
                self._number,
                mark.reason,
            )
        self._directory.marks(self._number).clear_repair()

    # -- what is fixed for ever

    def _take_fixed_sizes(self, path: Path) -> None:
        """Segment size, and the bound on messages, as the shard's first configuration entry fixed them; as the settings
        say before there is one."""
        settings = self._settings
        fixed = configuration_at_start(self._disk, path, self.snapshots.snapshot)
        if fixed is None:
            return
        if fixed.segment_bytes != settings.segment_bytes:
            self.segment_bytes = fixed.segment_bytes
            log.warning("`segment_bytes` is ignored: this shard began with %d, and keeps it", fixed.segment_bytes)
        beside_the_message = settings.largest_entry_bytes - settings.max_message_bytes
        if fixed.max_entry_bytes < settings.largest_entry_bytes:
            self.max_message_bytes = fixed.max_entry_bytes - beside_the_message
            log.warning("`max_message_bytes` is %d here: this shard began with that", self.max_message_bytes)

    def _check_peers(self) -> None:
        members = self.configurations[-1][1].members if self.configurations else {}
        peers = self._settings.peers
        if missing := [node for node, member in members.items() if not member.address and node not in peers]:
            self.log.close()
            raise ShardError(f"`peers` lacks node {missing[0]}, a member of shard {self._number}: add its address")


def configuration_at_start(disk: Disk, log_directory: Path, snapshot: Snapshot | None) -> ShardConfiguration | None:
    """The one that the log, or its base, begins with; None where there is none that can be read."""
    if snapshot is not None:
        return decode_configuration(snapshot.configuration)
    path = log_directory / name_of(0)
    if not disk.exists(path):
        return None
    file = disk.open(path)
    try:
        return first_entry(file)
    finally:
        file.close()


def first_entry(first_segment: File) -> ShardConfiguration | None:
    """What entry 1 says; None where the file does not begin with a whole configuration (opening the log tells why)."""
    try:
        header = parse(first_segment.read(0, HEADER_SIZE), 0)
        data = first_segment.read(0, padded(header.size))
        verified(data, np.frombuffer(data, np.uint8), 0)
        if header.kind is EntryKind.CONFIGURATION:
            return decode_configuration(data[HEADER_SIZE : header.size])
    except (EntryFlawError, DecodeError):
        pass
    return None


def tell_progress() -> Callable[[int, int], None]:
    """Reports about reading a long log, every few seconds."""
    told = time.monotonic()

    def tell(done: int, total: int) -> None:
        nonlocal told
        if time.monotonic() - told > 2:
            told = time.monotonic()
            log.info("reading the log: %d of %d MB", done >> 20, total >> 20)

    return tell
