"""Carries out an operator's request in all shards that it concerns, one shard after the other.

Each shard gets its own request, because a shard does not pass a request on to other shards. All requests are
idempotent, so an interrupted operation can be repeated. A node joins shard 0 first and leaves it last, because shard 0
has a replica on every node. Before the client changes members, holds or the start of the log in all shards, or lists
the holds, it asks the leader of shard 0 for the list of shards. Without this request, it could miss a new shard.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ledger.client.admin.log_admin import LogAdmin
from ledger.client.admin.members_admin import Deadline, MembersAdmin, OnProgress
from ledger.client.admin.placement_admin import PlacementAdmin
from ledger.client.connection.cluster_client import ClusterClient
from ledger.client.records import Doubt, LogCut, LogHold
from ledger.errors import InvalidArgumentError, NotSuspectError, ShardShortError, UnknownTopicError
from ledger.topics import TOPICS_SHARD


class EveryShard:
    """Sends an operator's request to each shard that it concerns, over the connections of one admin client.

    If the argument `shard` of a method is given, the method sends the request to that shard only; None means all
    shards.
    """

    def __init__(self, client: ClusterClient) -> None:
        self._client = client

    async def numbers(self, shard: int | None = None) -> list[int]:
        """Return the numbers of the shards in the route table, or, if `shard` is given, a list of only that number.

        If `shard` is not in the route table, the leader of shard 0 is asked, because the shard may be new. Raises
        InvalidArgumentError if the cluster has no shard with the number `shard`.
        """
        known = self._known()
        if shard is None:
            return known
        if shard not in known and shard not in (known := await self._client.shards()):
            raise InvalidArgumentError(f"There is no shard {shard}: the last one is {known[-1]}.")
        return [shard]

    async def _all(self, shard: int | None, timeout_ms: float | None) -> list[int]:
        """Return the numbers of all shards, read from the leader of shard 0."""
        return await self._client.shards(timeout_ms) if shard is None else await self.numbers(shard)

    def _known(self) -> list[int]:
        return sorted(self._client.routes.table.leaders) or [TOPICS_SHARD]

    # -- members

    async def add(
        self,
        node: int,
        address: str,
        shard: int | None,
        *,
        promote: bool,
        wait: bool,
        timeout_ms: float,
        on_progress: OnProgress | None,
    ) -> None:
        deadline = Deadline(timeout_ms)
        for number in await self._all(shard, deadline.left_ms):
            await MembersAdmin(self._client, number).add(
                node, address, promote=promote, wait=wait, timeout_ms=deadline.left_ms, on_progress=on_progress
            )

    async def promote(
        self, node: int, shard: int | None, *, wait: bool, timeout_ms: float, on_progress: OnProgress | None
    ) -> None:
        deadline = Deadline(timeout_ms)
        for number in await self._shards_of(node, shard, deadline):
            await MembersAdmin(self._client, number).promote(
                node, wait=wait, timeout_ms=deadline.left_ms, on_progress=on_progress
            )

    async def remove(
        self,
        node: int,
        shard: int | None,
        *,
        force: bool = False,
        wait: bool,
        timeout_ms: float,
        on_progress: OnProgress | None,
    ) -> None:
        """Raises LedgerError. Shard 0 says who the nodes of the cluster are, so a node that serves other shards stays a
        member of it, unless `force` is given."""
        deadline = Deadline(timeout_ms)
        if shard == TOPICS_SHARD and not force:
            await self._check_serves_no_other(node)
        for number in reversed(await self._shards_of(node, shard, deadline)):
            await MembersAdmin(self._client, number).remove(
                node, force=force, wait=wait, timeout_ms=deadline.left_ms, on_progress=on_progress
            )

    async def _check_serves_no_other(self, node: int) -> None:
        placement = await PlacementAdmin(self._client).placement()
        others = [
            str(shard.shard)
            for shard in placement.shards
            if shard.shard != TOPICS_SHARD and any(each.node == node and each.answers for each in shard.replicas)
        ]
        if others:
            raise ShardShortError(
                f"node {node} serves shards {', '.join(others)}, and would be no node of the cluster any more: leave "
                "out --shard, so that its replicas move to other nodes first; --force removes it from shard 0 "
                "nevertheless"
            )

    async def _shards_of(self, node: int, shard: int | None, deadline: Deadline) -> list[int]:
        """Return the numbers of the shards of which the node is a member; a single shard is returned without a check.

        If the node is a member of no shard, return shard 0, whose leader then rejects the request.
        """
        shards = await self._all(shard, deadline.left_ms)
        if len(shards) == 1:
            return shards
        members = {number: await MembersAdmin(self._client, number).members(deadline.left_ms) for number in shards}
        return [number for number in shards if members[number].get(node) is not None] or [TOPICS_SHARD]

    async def recover(self, node: int, shard: int | None, *, accept_loss: bool, timeout_ms: float) -> list[Doubt]:
        """Return one `Doubt` for each shard in which the node is suspect. Raises NotSuspectError if the node is
        suspect in no shard."""
        deadline, shards = Deadline(timeout_ms), await self.numbers(shard)
        doubts, trusted = [], None
        for number in shards:
            try:
                operator = MembersAdmin(self._client, number)
                doubts.append(await operator.recover(node, accept_loss=accept_loss, timeout_ms=deadline.left_ms))
            except NotSuspectError as error:
                trusted = trusted or error
        if not doubts and trusted is not None:
            raise trusted
        return doubts

    # -- the log's start

    async def trim(
        self,
        shard: int | None,
        *,
        before_time_ms: int | None,
        keep_bytes: int | None,
        before: tuple[str, int, int] | None,
        dry_run: bool,
        timeout_ms: float | None,
    ) -> LogCut:
        if before is not None:
            shard = await self._shard_of(*before[:2])
        cuts = [
            await LogAdmin(self._client, number).trim(
                before_time_ms=before_time_ms,
                keep_bytes=keep_bytes,
                before=before,
                dry_run=dry_run,
                timeout_ms=timeout_ms,
            )
            for number in await self._all(shard, timeout_ms)
        ]
        return cuts[0] if len(cuts) == 1 else summed(cuts)

    async def _shard_of(self, name: str, queue: int) -> int:
        """Return the number of the shard that stores the queue. If the topic or the queue does not exist, return shard
        0, whose leader rejects the request.
        """
        try:
            shards = (await self._client.topic(name)).shards
        except UnknownTopicError:
            return TOPICS_SHARD
        return shards[queue] if 0 <= queue < len(shards) else TOPICS_SHARD

    async def hold(self, name: str, shard: int | None, *, ttl_ms: int, timeout_ms: float | None) -> LogHold:
        """Take the hold in each shard, and return the hold that expires first."""
        taken = [
            await LogAdmin(self._client, number).hold(name, ttl_ms=ttl_ms, timeout_ms=timeout_ms)
            for number in await self._all(shard, timeout_ms)
        ]
        return min(taken, key=lambda hold: hold.expires_ms)

    async def release(self, name: str, shard: int | None, *, timeout_ms: float | None) -> bool:
        """Release the hold in each shard. Return True if at least one shard had the hold."""
        released = [
            await LogAdmin(self._client, number).release(name, timeout_ms=timeout_ms)
            for number in await self._all(shard, timeout_ms)
        ]
        return any(released)

    async def holds(self, shard: int | None, *, timeout_ms: float | None) -> list[LogHold]:
        found: list[LogHold] = []
        for number in await self._all(shard, timeout_ms):
            found += await LogAdmin(self._client, number).holds(timeout_ms)
        return found


def summed(cuts: list[LogCut]) -> LogCut:
    """Return one `LogCut` for several shards: the sums of their figures, with the result of each shard in
    `by_shard`."""

    def total(of: Callable[[LogCut], int]) -> int:
        return sum(of(cut) for cut in cuts)

    return replace(
        cuts[0],
        first_index=0,
        entries=total(lambda cut: cut.entries),
        bytes=total(lambda cut: cut.bytes),
        messages=total(lambda cut: cut.messages),
        newest_ms=max(cut.newest_ms for cut in cuts),
        bytes_kept=total(lambda cut: cut.bytes_kept),
        held_by=tuple(sorted({name for cut in cuts for name in cut.held_by})),
        by_shard=tuple(cuts),
    )
