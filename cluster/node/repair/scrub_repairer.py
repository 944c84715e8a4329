"""The mending of one shard's log while it is open: entries that were read once, and are damaged now.

    flaw ──> no lead, no reads there ──> the same entries of another node in their place ──> flushed, read again
                                    ^─────────── nobody has them: after a while, again ─┘

Where these entries stand, how long they are and of which term is known, and what came before and after them is whole:
there is only one set of bytes that fits. So they are written over what lies there, and nothing is ever cut. Until
then all else of the log is served.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from cluster.backoff import Backoff
from cluster.node.repair.entry_source import EntryAsker, other_members
from cluster.node.runtime import Runtime
from cluster.node.scrub import Beside
from cluster.node.settings import NodeSettings
from ledger.broker.broker_replica import BrokerReplica
from raft.v1 import raft_pb2
from store import Flaw, LogDamagedError

log = logging.getLogger("ledgermq.node.scrub_repair")


class ScrubRepairer:
    """One flaw after the other."""

    def __init__(
        self,
        replica: BrokerReplica,
        settings: NodeSettings,
        segment_bytes: int,
        runtime: Runtime,
        on_mended: Callable[[int], object],
    ) -> None:
        """`on_mended` is told how many bytes were written over."""
        self.reason = ""
        """What is damaged, in a sentence; empty while nothing is."""
        self._replica = replica
        self._settings = settings
        self._segment_bytes = segment_bytes
        self._runtime = runtime
        self._on_mended = on_mended
        self._answers: dict[int, str] = {}

    async def mend(self, flaw: Flaw, beside: Beside) -> None:
        """Returns when the log is whole there."""
        commit_log, driver = self._replica.log, self._replica.driver
        end = flaw.end or flaw.position - flaw.position % self._segment_bytes + self._segment_bytes
        entries = commit_log.reading.entries_in(flaw.position, end)
        if not entries or entries[0] < commit_log.first_index:
            return  # let go meanwhile
        damage = LogDamagedError(flaw.path, flaw.position, flaw.reason)
        self.reason = self._told(flaw, entries)
        log.error("%s", self.reason)
        driver.fail(damage)
        commit_log.reading.mark_damaged(entries)
        await self._until_whole(entries, damage, beside)
        commit_log.reading.mark_whole()
        self.reason = ""
        driver.repaired(damage)
        log.warning("shard %d: entries %d to %d are repaired", self._replica.shard, entries[0], entries[-1])

    def _told(self, flaw: Flaw, entries: range) -> str:
        return (
            f"the log of shard {self._replica.shard} is damaged: {flaw.path} at position {flaw.position}: "
            f"{flaw.reason}. Entries {entries[0]} to {entries[-1]} are not read until they are repaired from the other "
            "replicas"
        )

    async def _until_whole(self, entries: range, damage: LogDamagedError, beside: Beside) -> None:
        backoff, began = Backoff(), entries[0]
        while not await self._ask_all(entries, beside) and began >= self._replica.log.first_index:
            text = f"{self.reason} ({'; '.join(self._answers.values()) or 'there are none'})"
            if backoff.has_news(text):
                log.error("%s", text)
            await asyncio.sleep(backoff.next_s())
            if self._replica.driver.failure is None:  # a disk that was full besides has room again
                self._replica.driver.fail(damage)

    async def _ask_all(self, entries: range, beside: Beside) -> bool:
        """Whether all of them are whole."""
        configuration, settings, missing = self._replica.newest_configuration(), self._settings, entries[0]
        others = other_members(configuration, settings) if configuration is not None else {}
        source = self._runtime.entry_source(others)
        asker = EntryAsker(settings.cluster, self._replica.shard, settings.node, self._segment_bytes, source)
        try:
            for other in others:
                missing = await self._ask(asker, other, missing, entries[-1])
                if missing > entries[-1]:
                    return await self._is_whole(entries, beside)
        finally:
            await source.close()
        return False

    async def _ask(self, asker: EntryAsker, other: int, first: int, last: int) -> int:
        """The first index behind those that this one gave."""
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
            self._on_mended(commit_log.scrub_repair.tail_at(behind - 1).end - commit_log.reading.position(first))
            first = behind
        return first

    async def _is_whole(self, entries: range, beside: Beside) -> bool:
        """Flushed, and read again."""
        flushed: list[object] = []
        await beside(lambda: flushed.append(self._replica.log.sync()))
        try:
            self._replica.log.scrub_repair.check_whole(entries)
        except LogDamagedError as damage:
            log.error("shard %d: what the others gave does not fit: %s", self._replica.shard, damage)
            return False
        return bool(flushed)


def _said(other: int, answer: raft_pb2.ReadEntriesResponse | None) -> str:
    if answer is None:
        return f"node {other} does not answer"
    return answer.refusal or f"node {other} gives other entries"
