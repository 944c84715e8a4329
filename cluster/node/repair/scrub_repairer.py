"""Scrub repair: replaces damaged entries of an open log with the same entries of another node.

    flaw ──> stop leading, refuse reads of the entries ──> write another node's entries over them ──> flush, read again
                                                      ^───── no node has them: wait, then again ─┘

The node knows the position, length and term of each damaged entry, and the entries before and after them are whole.
Only the original bytes match the known position, length and term of the damaged entries and the chain of the entries
around them. Scrub repair writes the original bytes in place and never cuts the log. During a scrub repair the node
serves the undamaged entries of the log.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from cluster.node.repair.entry_source import EntryAsker, other_members
from cluster.node.repair.repair_retries import RepairRetries
from cluster.node.repair.scrub import Beside
from cluster.node.runtime import Runtime
from cluster.node.settings import NodeSettings
from ledger.broker.broker_replica import BrokerReplica
from ledger.broker.node_events import NodeEvents
from ledger.words import entries_are
from raft.v1 import raft_pb2
from store import Flaw, LogDamagedError

log = logging.getLogger("ledgermq.node.scrub_repair")

# The repaired entries are read again in pieces of this size, so that the event loop never waits long.
CHECK_BYTES = 1 << 20
NOT_FLUSHED = "the repaired entries of a damaged log could not be flushed, so the repair will be tried again"


class ScrubRepairer:
    """Repairs the flaws of one shard's open log, one after the other."""

    def __init__(
        self,
        replica: BrokerReplica,
        settings: NodeSettings,
        segment_bytes: int,
        runtime: Runtime,
        events: NodeEvents,
        on_repaired: Callable[[int], object],
    ) -> None:
        """`on_repaired` is called with the number of bytes that were replaced."""
        # A sentence that says what is damaged; empty while no flaw is being repaired.
        self.reason = ""
        self._replica = replica
        self._settings = settings
        self._segment_bytes = segment_bytes
        self._runtime = runtime
        self._events = events
        self._on_repaired = on_repaired
        self._answers: dict[int, str] = {}

    async def repair(self, flaw: Flaw, beside: Beside) -> None:
        """Repair the flaw in the open log. Return when the damaged entries are whole again, or retention has
        removed them."""
        commit_log, driver = self._replica.log, self._replica.driver
        end = flaw.end or flaw.position - flaw.position % self._segment_bytes + self._segment_bytes
        entries = commit_log.reading.entries_in(flaw.position, end)
        if not entries or entries[0] < commit_log.first_index:
            return  # retention has removed the damaged entries
        damage = LogDamagedError(flaw.path, flaw.position, flaw.reason)
        self.reason = self._description(flaw, entries)
        log.error("%s", self.reason)
        self._events.happened(self._replica.shard, "damage", self.reason)
        driver.fail(damage)
        commit_log.reading.mark_damaged(entries)
        await self._until_whole(entries, damage, beside)
        commit_log.reading.mark_whole()
        self.reason = ""
        driver.repaired(damage)
        text = f"{entries_are(entries[0], entries[-1])} repaired"
        log.warning("shard %d: %s", self._replica.shard, text)
        self._events.happened(self._replica.shard, "repair", f"{flaw.path.name}: {text}")

    def _description(self, flaw: Flaw, entries: range) -> str:
        return (
            f"the log of shard {self._replica.shard} is damaged: {flaw.path} at position {flaw.position}: "
            f"{flaw.reason}. Entries {entries[0]} to {entries[-1]} cannot be read until they are repaired from the "
            "other replicas"
        )

    async def _until_whole(self, entries: range, damage: LogDamagedError, beside: Beside) -> None:
        retries, began = RepairRetries(), entries[0]
        while not await self._ask_all(entries, beside) and began >= self._replica.log.first_index:
            text = f"{self.reason} ({'; '.join(self._answers.values()) or 'there are no other replicas'})"
            if retries.should_log(text):
                log.error("%s", text)
            await asyncio.sleep(retries.next_s())
            if self._replica.driver.failure is None:  # another failure (a full disk) had replaced ours, and has ended
                self._replica.driver.fail(damage)

    async def _ask_all(self, entries: range, beside: Beside) -> bool:
        """Ask each other member for the damaged entries. Return True if all entries are whole after the requests."""
        configuration, settings, missing = self._replica.newest_configuration(), self._settings, entries[0]
        others = other_members(configuration, settings) if configuration is not None else {}
        source = self._runtime.entry_source(others)
        asker = EntryAsker(settings.cluster, self._replica.shard, settings.node, self._segment_bytes, source)
        try:
            for other in others:
                missing = await self._ask(asker, other, missing, entries[-1])
                if missing > entries[-1]:
                    return await self._is_whole(entries, beside)
        except LogDamagedError as damage:  # the entry before the damaged ones is damaged too
            self._answers[self._settings.node] = str(damage)
        finally:
            await source.close()
        return False

    async def _ask(self, asker: EntryAsker, other: int, first: int, last: int) -> int:
        """Request the entries from index `first` on from node `other`, and write them over the damaged entries.
        Return the first index that was not written."""
        commit_log = self._replica.log
        while first <= last and first >= commit_log.first_index:
            answer = await asker.ask(other, commit_log.scrub_repair.tail_at(first - 1))
            behind = (
                commit_log.scrub_repair.overwrite(answer.entries, first)
                if answer is not None and not answer.refusal
                else first
            )
            if behind == first:
                self._answers[other] = _said(other, answer)
                break
            self._on_repaired(commit_log.scrub_repair.tail_at(behind - 1).end - commit_log.reading.position(first))
            first = behind
        return first

    async def _is_whole(self, entries: range, beside: Beside) -> bool:
        """Flush the log and read the repaired entries again. Return True if the repaired entries are whole and
        flushed."""
        flushed: list[object] = []
        await beside(lambda: flushed.append(self._replica.log.sync()), NOT_FLUSHED)
        try:
            return bool(flushed) and await self._are_readable(entries)
        except LogDamagedError as damage:
            log.error("shard %d: the entries of the other nodes do not fit the log: %s", self._replica.shard, damage)
            return False

    async def _are_readable(self, entries: range) -> bool:
        """Read the entries again, and let the event loop do other work after each piece. A helper thread must not read
        them, because the event loop changes the table of their positions. Return False if retention has removed
        entries meanwhile. Raise LogDamagedError if the entries are not whole."""
        commit_log, first = self._replica.log, entries[0]
        while first <= entries[-1]:
            if entries[0] < commit_log.first_index:
                return False
            last = min(commit_log.reading.reach(first, CHECK_BYTES), entries[-1])
            commit_log.scrub_repair.check_whole(range(first, last + 1))
            first = last + 1
            await asyncio.sleep(0)
        return True


def _said(other: int, answer: raft_pb2.ReadEntriesResponse | None) -> str:
    if answer is None:
        return f"node {other} does not answer"
    return answer.refusal or f"node {other} gave entries that do not fit"
