"""Startup repair: repairs a log that cannot be opened, from its first flaw on, with entries of other nodes.

    damaged log ──> read the whole entries before the flaw ──> ask each other node for the next entries ──> open again
                                                          ^────── no node has them: wait, then again ─┘

During a startup repair this node runs and takes no part in the shard. The node reports why it takes no part, and sends
its own whole entries to other nodes that request them. `store.LogRepair` decides which entries are accepted and which
bytes are allowed to be cut. This module decides which nodes are asked for entries, and when. After the repair the
caller opens the log, and the opening checks whether the log is whole.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from cluster.node.process.workers import Worker, result_of
from cluster.node.repair.entry_source import EntryAsker, EntryReader, other_members
from cluster.node.repair.repair_retries import RepairRetries
from cluster.node.runtime import Runtime
from cluster.node.settings import NodeSettings
from ledger.broker.node_events import NodeEvents
from ledger.words import entries_are
from raft.configuration_entry import decode_configuration
from raft.v1 import raft_pb2
from store import (
    Disk,
    EntryKind,
    Flaw,
    FlawKind,
    Header,
    LogDamagedError,
    LogRepair,
    LogTail,
    LogToRepair,
    NodeDirectory,
    NoSpaceError,
    RepairCallbacks,
    RepairMark,
    Snapshots,
    StoreError,
    Suspect,
    Taken,
)
from store.log.tail import EMPTY

log = logging.getLogger("ledgermq.node.startup_repair")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class DamagedLog:
    """`DamagedLog` describes a shard's log that cannot be opened: its damage, and what the node knows about the
    shard from files other than the log."""

    number: int
    segment_bytes: int
    snapshots: Snapshots
    # The known addresses of other nodes.
    members: Mapping[int, str]
    damage: LogDamagedError
    # Whether damage before the last checkpoint may be left for scrub repair, after the log is open.
    may_wait: bool


class StartupRepair:
    """`StartupRepair` repairs one damaged log."""

    def __init__(
        self,
        damaged: DamagedLog,
        settings: NodeSettings,
        disk: Disk,
        directory: NodeDirectory,
        runtime: Runtime,
        events: NodeEvents,
        on_repaired: Callable[[int], object],
    ) -> None:
        """`on_repaired` is called with the number of bytes taken from other nodes."""
        # Reads whole entries for other nodes; None until the whole part of this log has been read.
        self.reader: EntryReader | None = None
        # After `run`: a flaw before the last checkpoint that no node could repair. It is left for scrub repair, and the
        # rest of the log can be used meanwhile.
        self.left: Flaw | None = None
        self._damaged = damaged
        self._settings = settings
        self._disk = disk
        self._directory = directory
        self._runtime = runtime
        self._events = events
        self._on_repaired = on_repaired
        self._members = dict(damaged.members)
        self._answers: dict[int, str] = {}
        self._retries = RepairRetries()

    @property
    def reason(self) -> str:
        """Return a sentence that says why this node takes no part in the shard."""
        damage, number = self._damaged.damage, self._damaged.number
        answers = "; ".join(self._answers.values())
        place = f" after entry {self.reader.log.last_index}" if self.reader is not None else ""
        return (
            f"the log of shard {number} is damaged{place}: {damage.path} at position {damage.position}: "
            f"{damage.reason}. It is repaired from the other replicas{f' ({answers})' if answers else ''}"
        )

    async def run(self) -> None:
        """Repair the damaged log. Return when the log can be opened again: the log is whole, or `left` names a flaw
        before the last checkpoint that no node could repair. Raises StoreError if the disk fails."""
        log.error("%s", self.reason)
        self._events.happened(self._damaged.number, "damage", self.reason)
        worker = self._runtime.worker("repair")
        try:
            await self._run(worker)
        finally:
            await worker.stop()

    async def _run(self, worker: Worker) -> None:
        repair = await self.beside(worker, self._look)
        settings, damaged = self._settings, self._damaged
        source = self._runtime.entry_source(self._members)
        asker = EntryAsker(settings.cluster, damaged.number, settings.node, damaged.segment_bytes, source)
        try:
            last = repair.tail.index
            while not await self._ask_all(worker, repair, asker):
                if repair.tail.index > last:
                    self._retries.begin_again()
                last = repair.tail.index
                if self._retries.should_log(self.reason):
                    log.error("%s", self.reason)
                if self._damaged.may_wait and repair.tail.index < await self.beside(worker, self._known_index):
                    self.left = await self.beside(worker, partial(self._flaw_left, repair))
                    return
                await asyncio.sleep(self._retries.next_s())
        finally:
            await source.close()

    def _look(self) -> LogRepair:
        damaged, number, snapshots = self._damaged, self._damaged.number, self._damaged.snapshots
        snapshot = snapshots.snapshot
        repair = LogRepair(
            self._disk,
            LogToRepair(
                directory=self._directory.log_directory(number),
                segment_bytes=damaged.segment_bytes,
                start_tail=snapshot.tail if snapshot is not None else EMPTY,
                clean=self._directory.marks(number).clean_mark(),
                known_index=self._known_index(),
            ),
            RepairCallbacks(
                on_begin=lambda ends: self._remember(repair.tail.index, ends=ends),
                on_found_again=self._forget,
                on_entry=self._learn_members,
            ),
        )
        self._show(repair)
        return repair

    def _show(self, repair: LogRepair) -> None:
        """Let other nodes read the entries that are whole by now."""
        damaged, settings = self._damaged, self._settings
        commit = min(repair.prefix.known_commit, repair.tail.index)
        self.reader = EntryReader(
            settings.cluster, damaged.number, settings.node, damaged.segment_bytes, repair.prefix, commit, True
        )

    def _known_index(self) -> int:
        """Return the index of the checkpoint, or 0 if there is no checkpoint."""
        checkpoint = self._damaged.snapshots.checkpoint()
        return checkpoint.index if checkpoint is not None else 0

    def _flaw_left(self, repair: LogRepair) -> Flaw:
        damage, first = self._damaged.damage, repair.tail.index + 1
        following = repair.first_behind()
        end = following.position if following is not None else None
        return Flaw(FlawKind.DAMAGE, damage.path, repair.tail.end, first, damage.reason, end)

    def _learn_members(self, header: Header, body: memoryview) -> None:
        if header.kind is EntryKind.CONFIGURATION:
            self._members |= other_members(decode_configuration(bytes(body)), self._settings)

    # -- the repair mark on the disk

    def _remember(self, last_index: int, *, ends: bool) -> None:
        """Write a durable mark that the log is being repaired. With `ends`, the log was cut, and the mark makes
        this node a suspect."""
        reason = f"the log was damaged after entry {last_index}"
        suspect = Suspect(reason=reason, since_ms=self._runtime.now_ms(), last_index=last_index)
        self._directory.marks(self._damaged.number).mark_repair(RepairMark(suspect, ends))

    def _forget(self) -> None:
        """Remove the repair mark, unless the log was cut. After a cut, keep the repair mark, because entries after
        the cut may be missing."""
        mark = self._directory.marks(self._damaged.number).repair()
        if mark is not None and not mark.ends:
            self._directory.marks(self._damaged.number).clear_repair()

    # -- requests to other nodes

    async def _ask_all(self, worker: Worker, repair: LogRepair, asker: EntryAsker) -> bool:
        """Request the next entries from each known node. Return True if the log can be opened again."""
        try:
            peers = [_Peer(self, worker, repair, asker, node) for node in sorted(self._members)]
            for peer in peers:
                if await peer.ask():
                    return True
                self._answers[peer.node] = peer.said
                self._show(repair)
            if not any(peer.would_cut_at == repair.tail for peer in peers):
                return False
            await self.beside(worker, partial(self._cut, repair))
        except NoSpaceError as full:
            self._answers[self._settings.node] = str(full)
            return False
        log.error(
            "shard %d: the log was cut after entry %d on this node; the leader sends the later entries",
            self._damaged.number,
            repair.tail.index,
        )
        text = f"the log was cut after entry {repair.tail.index}; the leader sends the later entries"
        self._events.happened(self._damaged.number, "repair", text)
        return True

    def _cut(self, repair: LogRepair) -> None:
        self._damaged.snapshots.forget_checkpoint()  # the checkpoint may be after the cut
        repair.cut()

    async def beside(self, worker: Worker, work: Callable[[], T]) -> T:
        """Run `work` on the helper thread and return its result. Raises StoreError."""
        try:
            return await result_of(worker, work)
        except NoSpaceError:
            raise
        except StoreError:  # the page cache may have bytes that never reached the disk
            self._directory.marks(self._damaged.number).distrust_page_cache()
            raise

    async def take(self, worker: Worker, repair: LogRepair, answer: raft_pb2.ReadEntriesResponse) -> Taken:
        """Write the entries of an answer to the log, up to the first entry that `store.LogRepair` does not accept.
        Raises StoreError."""
        before = repair.tail
        taken = await self.beside(worker, lambda: repair.take(answer.entries, answer.commit))
        if taken is not Taken.NOTHING:
            self._on_repaired(repair.tail.end - before.end)
            text = f"{entries_are(before.index + 1, repair.tail.index)} repaired"
            log.warning("shard %d: %s", self._damaged.number, text)
            self._events.happened(self._damaged.number, "repair", f"{self._damaged.damage.path.name}: {text}")
        return taken


class _Peer:
    """Another node, which the repair asks until that node has no further entries for the repair."""

    def __init__(
        self, repair: StartupRepair, worker: Worker, log_repair: LogRepair, asker: EntryAsker, node: int
    ) -> None:
        self.node = node
        # Why the node cannot give further entries.
        self.said = ""
        # If this node's log is cut there, no entry is lost that is still readable and was not replaced by a leader.
        self.would_cut_at: LogTail | None = None
        self._session = repair
        self._worker = worker
        self._repair = log_repair
        self._asker = asker

    async def ask(self) -> bool:
        """Request entries until the other node has no more entries. Return True if the repair reached the whole
        entries after the flaw, so that the log can be opened."""
        while True:
            answer = await self._read(self._repair.tail)
            if answer is None:
                return False
            if answer.differs:
                if not await self._align():
                    return False
            elif answer.first_index > self._repair.tail.index + 1:
                self.would_cut_at = self._repair.tail if await self._supersedes(answer) else None
                return False
            elif answer.refusal:
                return False
            elif await self._beside(lambda: self._repair.may_end):
                self.would_cut_at = self._repair.tail
                return False
            else:
                taken = await self._session.take(self._worker, self._repair, answer)
                if taken is Taken.NOTHING:
                    self.said = f"node {self.node} has no committed entry after entry {self._repair.tail.index}"
                    self.would_cut_at = self._repair.tail if await self._may_cut(answer.commit) else None
                if taken is not Taken.MORE:
                    return taken is Taken.ALL

    async def _beside(self, work: Callable[[], T]) -> T:
        """Run `work` on the helper thread. Most questions to `LogRepair` read files, often whole segments."""
        return await self._session.beside(self._worker, work)

    async def _may_cut(self, commit: int) -> bool:
        return await self._beside(partial(self._repair.may_cut, commit))

    async def _read(self, prev: LogTail) -> raft_pb2.ReadEntriesResponse | None:
        answer = await self._asker.ask(self.node, prev)
        self.said = f"node {self.node} does not answer" if answer is None else answer.refusal
        return answer

    async def _align(self) -> bool:
        """The repair calls `_align` when the other node's log lacks this node's last whole entry. Find the last
        entry that both logs have, and cut this node's log after that entry if the cut is safe. Return True if this
        node should ask the other node again."""
        common = await self._beside(self._repair.committed_tail)
        while common.index < self._repair.tail.index:
            answer = await self._read(common)
            if answer is None or answer.refusal:
                return False
            align = partial(self._repair.align, common, answer.entries, answer.commit)
            found = await self._beside(align)
            if found is None or (found == common and found != self._repair.tail):
                return False
            common = found
        return True

    async def _supersedes(self, answer: raft_pb2.ReadEntriesResponse) -> bool:
        """The repair calls `_supersedes` when the other node's log begins after the flaw. Return True if the other
        log has all whole entries that this log has after the flaw, or later entries that replaced these entries."""
        last = await self._beside(self._repair.last_behind)
        if last is None or last.index < answer.first_index:
            return await self._may_cut(answer.commit) if last is None else True
        again = await self._read(LogTail.of(last))
        if again is None:
            return False
        return not again.refusal or (again.differs and last.index <= again.commit)
