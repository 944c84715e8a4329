"""The open log of one shard: opens the CommitLog, and records which entries the last run of the node may have lost.

The opening has four steps: find out whether the last run crashed, open the snapshot and the log, flush the log, and
record this boot. A possible loss is recorded before the log is cut.

The last run may have ended by an orderly stop, a kill or a power loss, or while a snapshot replaced the log. After the
constructor of `ShardLog` returns, the log is whole and flushed. If entries may be missing, the data directory marks
this node as a suspect. An orderly stop leaves a clean mark. With this mark the next start can distinguish damage from
an entry that a crash cut off.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import numpy as np

from cluster.node.metrics.node_metrics import MeasuredLog
from cluster.node.replica.checkpoints import Checkpoints
from cluster.node.resources import NodeResources
from raft.configuration_entry import InvalidConfigurationError, ShardConfiguration, decode_configuration
from store import (
    CrashEnd,
    Disk,
    EntryKind,
    File,
    Header,
    LogCallbacks,
    LogSettings,
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
    """`ShardError` says that the shard cannot run on this node. The error message names the reason and says what to
    do."""


class ShardLog:
    """The open log of shard `number`, with its configurations, its segment size and its largest message size."""

    def __init__(
        self,
        number: int,
        node: NodeResources,
        snapshots: Snapshots,
        checkpoints: Checkpoints,
        observe_append: Callable[[float], None],
        *,
        reads_again: bool = True,
    ) -> None:
        """Open the log and read the entries after the last checkpoint. With `reads_again`, read some entries before
        the checkpoint too. `observe_append` is called with the seconds that each group write takes.

        Raise ShardError or StoreError if the log cannot be opened. LogDamagedError is a subclass of StoreError."""
        self.snapshots = snapshots
        # The configurations in the snapshot and the log, with their indexes, as of the start. The first start appends
        # the configuration of entry 1.
        self.configurations: list[tuple[int, ShardConfiguration]] = []
        # The setting of the same name, or less if the shard began with a smaller limit.
        self.max_message_bytes = node.settings.max_message_bytes
        # The largest entry, header included. Also the setting, or less if the shard began with less.
        self.max_entry_bytes = node.settings.largest_entry_bytes
        self._number = number
        self._settings = node.settings
        self._disk = node.disk
        self._directory = node.directory
        self._runtime = node.runtime
        self._events = node.events
        self._checkpoints = checkpoints
        # The segment size that the shard began with, or the setting for a shard that has not begun.
        self.segment_bytes = node.settings.segment_bytes
        self.log = self._open(node.directory.log_directory(number), reads_again=reads_again)
        self.log.observe, self.log.clock_ms = observe_append, node.runtime.monotonic_ms
        self._check_peers()

    def close(self) -> None:
        """Flush the log, write a clean mark and close the log."""
        try:
            self.log.sync()
            self._directory.marks(self._number).write_clean_mark(self.log.clean_mark())
        except StoreError as error:
            log.error(
                "shard %d: the log could not be flushed, so no clean mark was written; the next start treats this stop "
                "as a crash: %s",
                self._number,
                error,
            )
        finally:
            self.log.close()

    def abandon(self) -> None:
        """Close the log without a flush and without a clean mark, because its files will be deleted."""
        self.log.close()

    def _open(self, path: Path, *, reads_again: bool) -> MeasuredLog:
        began_ms, boot_id = self._runtime.monotonic_ms(), self._runtime.boot_id()
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
                on_progress=tell_progress(self._runtime.monotonic_ms),
            ),
        )
        try:
            opened.sync()  # entries that a killed process left in the page cache count as held from now on
            if repair is not None:
                self._end_repair(repair, is_as_stopped=clean is not None)
            self.snapshots.finish_reset()
            surviving = boot_id if self._settings.write != "staged" else ""
            directory.marks(number).record_boot(surviving, self._settings.flush)
            # The clean mark is removed last: after a kill before this line, the log is still as the mark says.
            directory.marks(number).remove_clean_mark()
        except BaseException:
            opened.close()
            raise
        seconds = (self._runtime.monotonic_ms() - began_ms) / 1000
        log.info(
            "shard %d: opened a log of %d entries, %d bytes, read in %.2f s",
            number,
            opened.last_index,
            opened.end,
            seconds,
        )
        return opened

    def _remember_configuration(self, header: Header, body: memoryview) -> None:
        found = self._checkpoints.found
        if header.kind is EntryKind.CONFIGURATION and (found is None or header.index > found.index):
            self.configurations.append((header.index, decode_configuration(bytes(body))))

    def _remember_loss(self, end: CrashEnd) -> None:
        """Mark this node as a suspect if entries may be missing. Entries may be missing after a crash of the machine,
        or after a kill of a node that stages its writes.

        If the last run had the setting `flush = sync`, no acknowledged entry is missing, unless the log is torn
        before the end of its last flush. If the log is torn before the end of its last flush, `end.reason` says so.
        If the last run had `flush = async`, the last entries may be missing without a trace."""
        flush = self._directory.marks(self._number).last_flush()
        if flush == "sync" and not end.reason:
            return
        reason = end.reason or "the machine went down (or a node that stages its writes) before the log was flushed"
        found = Suspect(reason=reason, since_ms=self._runtime.now_ms(), last_index=end.last_index)
        mark = self._directory.marks(self._number).mark_suspect(found)
        log.warning(
            "shard %d: entries after index %d may be lost on this node (%s): this node neither votes nor counts until "
            "it has caught up with a leader",
            self._number,
            mark.last_index,
            mark.reason,
        )
        text = f"entries after index {mark.last_index} may be lost on this node: {mark.reason}"
        self._events.happened(self._number, "suspect", text)

    def _end_repair(self, repair: RepairMark, *, is_as_stopped: bool) -> None:
        """Mark this node as a suspect after a startup repair, because the log may have had more entries than the
        repair found. If the clean mark shows that the log has all its entries, do not mark the node."""
        if not is_as_stopped:
            mark = self._directory.marks(self._number).mark_suspect(repair.doubt)
            log.warning(
                "shard %d: %s: this node neither votes nor counts until it has caught up with a leader",
                self._number,
                mark.reason,
            )
            self._events.happened(self._number, "suspect", mark.reason)
        self._directory.marks(self._number).clear_repair()

    # -- sizes and members in the configuration

    def _take_fixed_sizes(self, path: Path) -> None:
        """Read the segment size and the largest message size from the shard's first configuration entry. Until the
        log has a configuration entry, the sizes of the settings apply."""
        settings = self._settings
        fixed = configuration_at_start(self._disk, path, self.snapshots.snapshot)
        if fixed is None:
            return
        if fixed.segment_bytes != settings.segment_bytes:
            self.segment_bytes = fixed.segment_bytes
            log.warning(
                "shard %d: the setting `segment_bytes` is ignored, because the shard began with %d",
                self._number,
                fixed.segment_bytes,
            )
        beside_the_message = settings.largest_entry_bytes - settings.max_message_bytes
        if fixed.max_entry_bytes < settings.largest_entry_bytes:
            self.max_message_bytes = fixed.max_entry_bytes - beside_the_message
            self.max_entry_bytes = fixed.max_entry_bytes
            log.warning(
                "shard %d: `max_message_bytes` is %d instead of the setting, because the shard began with it",
                self._number,
                self.max_message_bytes,
            )

    def _check_peers(self) -> None:
        members = self.configurations[-1][1].members if self.configurations else {}
        peers = self._settings.peers
        if missing := [node for node, member in members.items() if not member.address and node not in peers]:
            self.log.close()
            raise ShardError(
                f"`peers` does not name node {missing[0]}, which is a member of shard {self._number}: add its address"
            )


def configuration_at_start(disk: Disk, log_directory: Path, snapshot: Snapshot | None) -> ShardConfiguration | None:
    """Return the configuration in the snapshot or, if there is no snapshot, in entry 1 of the log. Return None if
    there is no configuration, or if the configuration is damaged."""
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
    """Return the configuration in entry 1, or None if the file does not begin with a whole configuration entry. If
    the result is None, the opening of the log reports the reason."""
    try:
        header = parse(first_segment.read(0, HEADER_SIZE), 0)
        data = first_segment.read(0, padded(header.size))
        verified(data, np.frombuffer(data, np.uint8), 0)
        if header.kind is EntryKind.CONFIGURATION:
            return decode_configuration(data[HEADER_SIZE : header.size])
    except (EntryFlawError, InvalidConfigurationError):
        pass
    return None


def tell_progress(monotonic_ms: Callable[[], float]) -> Callable[[int, int], None]:
    """Return a callback that logs the progress of reading a long log, at most every 2 s of the given clock."""
    told_ms = monotonic_ms()

    def tell(done: int, total: int) -> None:
        nonlocal told_ms
        if monotonic_ms() - told_ms > 2_000:
            told_ms = monotonic_ms()
            log.info("reading the log: %d of %d MB", done >> 20, total >> 20)

    return tell
