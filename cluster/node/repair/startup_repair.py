"""The repair of one shard's log that could not be opened: from the first flaw that a start finds, by the other nodes.

    damaged ──> what is whole is read ──> each other node is asked for what follows ──> open it again
                                    ^────── nobody has it: after a while, again ─┘

Meanwhile this node stays up, takes no part in the shard, says why, and gives others what it has. What may be taken
and what may be cut is decided by `store.LogRepair`; here is only who is asked, and how long.

It must not open the log: whether it is whole then is for the next start of the shard to say.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from cluster.backoff import Backoff
from cluster.node.repair.entry_source import EntryAsker, EntryReader, other_members
from cluster.node.runtime import Runtime
from cluster.node.settings import NodeSettings
from cluster.node.workers import Worker
from raft.configuration_entry import decode_configuration
from raft.v1 import raft_pb2
from store import (
    Disk,
    DiskFullError,
    EntryKind,
    Flaw,
    FlawKind,
    Header,
    LogDamagedError,
    LogRepair,
    LogTail,
    LogToRepair,
    NodeDirectory,
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
    """Where it lies, and what is known of it without it."""

    number: int
    segment_bytes: int
    snapshots: Snapshots
    members: Mapping[int, str]
    """Addresses of the other nodes, as far as they are known."""
    damage: LogDamagedError
    may_wait: bool
    """What a checkpoint vouches for may be repaired later, when the log is open."""


class Repair:
    def __init__(
        self,
        damaged: DamagedLog,
        settings: NodeSettings,
        disk: Disk,
        directory: NodeDirectory,
        runtime: Runtime,
        on_repaired: Callable[[int], object],
    ) -> None:
        """`on_repaired` is told how many bytes were taken from others."""
        self.reader: EntryReader | None = None
        """For others that lack entries; None until it is known what is whole here."""
        self.left: Flaw | None = None
        """What is left to be repaired when `run` has ended: nobody had it, and all else can be used meanwhile."""
        self._damaged = damaged
        self._settings = settings
        self._disk = disk
        self._directory = directory
        self._runtime = runtime
        self._on_repaired = on_repaired
        self._members = dict(damaged.members)
        self._answers: dict[int, str] = {}
        self._backoff = Backoff()

    @property
    def reason(self) -> str:
        """Why this node takes no part, in a sentence."""
        damage, number = self._damaged.damage, self._damaged.number
        answers = "; ".join(self._answers.values())
        behind = f" behind entry {self.reader.log.last_index}" if self.reader is not None else ""
        return (
            f"the log of shard {number} is damaged{behind}: {damage.path} at position {damage.position}: "
            f"{damage.reason}. It is repaired from the other replicas{f' ({answers})' if answers else ''}"
        )

    async def run(self) -> None:
        """Ends when the log may be opened again: it is whole, or there is something `left` before the last checkpoint.
        Raises StoreError where the disk fails."""
        log.error("%s", self.reason)
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
                    self._backoff.begin_anew()
                last = repair.tail.index
                if self._backoff.has_news(self.reason):
                    log.error("%s", self.reason)
                if self._damaged.may_wait and repair.tail.index < self._known_index():
                    self.left = self._flaw_left(repair)
                    return
                await asyncio.sleep(self._backoff.next_s())
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
        """What others may have of it."""
        damaged, settings = self._damaged, self._settings
        commit = min(repair.prefix.known_commit, repair.tail.index)
        self.reader = EntryReader(
            settings.cluster, damaged.number, settings.node, damaged.segment_bytes, repair.prefix, commit, True
        )

    def _known_index(self) -> int:
        """Of the last entry that a checkpoint vouches for; 0: there is none."""
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

    # -- what is remembered on the disk

    def _remember(self, last_index: int, *, ends: bool) -> None:
        reason = f"the log was damaged behind entry {last_index}"
        doubt = Suspect(reason=reason, since_ms=self._runtime.now_ms(), last_index=last_index)
        self._directory.marks(self._damaged.number).mark_repair(RepairMark(doubt, ends))

    def _forget(self) -> None:
        """Unless its end was given up before: then some of it may be gone that this did not bring back."""
        mark = self._directory.marks(self._damaged.number).repair()
        if mark is not None and not mark.ends:
            self._directory.marks(self._damaged.number).clear_repair()

    # -- who is asked

    async def _ask_all(self, worker: Worker, repair: LogRepair, asker: EntryAsker) -> bool:
        """Whether the log may be opened again."""
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
        except DiskFullError as full:
            self._answers[self._settings.node] = str(full)
            return False
        log.error(
            "shard %d: the log ends with entry %d here: the leader has the rest",
            self._damaged.number,
            repair.tail.index,
        )
        return True

    def _cut(self, repair: LogRepair) -> None:
        self._damaged.snapshots.forget_checkpoint()  # it may vouch for more than stays
        repair.cut()

    async def beside(self, worker: Worker, work: Callable[[], T]) -> T:
        """On a helper thread."""
        over: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        results: list[T] = []

        def done(error: BaseException | None) -> None:
            if over.done():
                return
            if error is not None:
                over.set_exception(error)
            else:
                over.set_result(results[0])

        worker.run(lambda: results.append(work()), done)
        try:
            return await over
        except DiskFullError:
            raise
        except StoreError:  # the page cache may show what never reached the disk
            self._directory.marks(self._damaged.number).distrust_page_cache()
            raise

    async def take(self, worker: Worker, repair: LogRepair, answer: raft_pb2.ReadEntriesResponse) -> Taken:
        before = repair.tail
        taken = await self.beside(worker, lambda: repair.take(answer.entries, answer.commit))
        if taken is not Taken.NOTHING:
            self._on_repaired(repair.tail.end - before.end)
            log.warning(
                "shard %d: entries %d to %d are repaired", self._damaged.number, before.index + 1, repair.tail.index
            )
        return taken


class _Peer:
    """One other node, asked until it can help no further."""

    def __init__(self, repair: Repair, worker: Worker, log_repair: LogRepair, asker: EntryAsker, node: int) -> None:
        self.node = node
        self.said = ""
        """Why it cannot help."""
        self.would_cut_at: LogTail | None = None
        """If our log ended there, nothing would be lost that could be read, or was not replaced."""
        self._session = repair
        self._worker = worker
        self._repair = log_repair
        self._asker = asker

    async def ask(self) -> bool:
        """Whether our own log goes on behind what it gave."""
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
            elif await self._session.beside(self._worker, lambda: self._repair.may_end):
                self.would_cut_at = self._repair.tail
                return False
            else:
                taken = await self._session.take(self._worker, self._repair, answer)
                if taken is Taken.NOTHING:
                    self.said = f"node {self.node} has nothing committed behind entry {self._repair.tail.index}"
                    self.would_cut_at = self._repair.tail if self._repair.may_cut(answer.commit) else None
                if taken is not Taken.MORE:
                    return taken is Taken.ALL

    async def _read(self, prev: LogTail) -> raft_pb2.ReadEntriesResponse | None:
        answer = await self._asker.ask(self.node, prev)
        self.said = f"node {self.node} does not answer" if answer is None else answer.refusal
        return answer

    async def _align(self) -> bool:
        """Our last whole entry is not in its log: goes back to where both are the same, and cuts there if that is
        certain. Whether it is worth while to ask again."""
        common = self._repair.committed_tail()
        while common.index < self._repair.tail.index:
            answer = await self._read(common)
            if answer is None or answer.refusal:
                return False
            align = partial(self._repair.align, common, answer.entries, answer.commit)
            found = await self._session.beside(self._worker, align)
            if found is None or (found == common and found != self._repair.tail):
                return False
            common = found
        return True

    async def _supersedes(self, answer: raft_pb2.ReadEntriesResponse) -> bool:
        """Its log begins behind the flaw: whether it has all that is whole here, or what has taken its place."""
        last = self._repair.last_behind()
        if last is None or last.index < answer.first_index:
            return self._repair.may_cut(answer.commit) if last is None else True
        again = await self._read(LogTail.of(last))
        if again is None:
            return False
        return not again.refusal or (again.differs and last.index <= again.commit)
