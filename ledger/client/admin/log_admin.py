"""The admin client's operations on the log of one shard: trims and holds.

Each operation is one idempotent request. The client repeats the request until a leader carries it out.
"""

from __future__ import annotations

from ledger.client.connection.cluster_client import ClusterClient
from ledger.client.records import LogCut, LogHold
from ledger.errors import InvalidArgumentError
from ledger.holds import validate_hold
from ledger.topics import TOPICS_SHARD
from ledger.v1 import operations_pb2


class LogAdmin:
    """Trims the log of one shard, and takes and releases holds of the log, over the connections of one admin
    client."""

    def __init__(self, client: ClusterClient, shard: int = TOPICS_SHARD) -> None:
        self._client = client
        self._shard = shard

    async def trim(
        self,
        *,
        before_time_ms: int | None,
        keep_bytes: int | None,
        before: tuple[str, int, int] | None,
        dry_run: bool,
        timeout_ms: float | None,
    ) -> LogCut:
        if (before_time_ms, keep_bytes, before).count(None) != 2:
            raise InvalidArgumentError(
                "Give exactly one of before_time_ms, keep_bytes and before: it says which messages are kept."
            )
        request = operations_pb2.TrimLogRequest(shard=self._shard, dry_run=dry_run)
        if before_time_ms is not None:
            request.since_ms = before_time_ms
        elif keep_bytes is not None:
            if keep_bytes < 0:
                raise InvalidArgumentError(f"keep_bytes is {keep_bytes}: it must be at least 0.")
            request.bytes = keep_bytes
        elif before is not None:
            topic, queue, offset = before
            if queue < 0 or offset < 0:
                raise InvalidArgumentError(f"before is {before}: queues and offsets count from 0.")
            request.place.CopyFrom(operations_pb2.QueueOffset(topic=topic, queue=queue, offset=offset))
        response = await self._client.call(
            self._shard, lambda stub, s: stub.TrimLog(request, timeout=s), timeout_ms=timeout_ms
        )
        return LogCut(
            first_index=response.first_index,
            entries=response.entries,
            bytes=response.bytes,
            messages=response.messages,
            newest_ms=response.newest_ms,
            bytes_kept=response.bytes_kept,
            held_by=tuple(response.held_by),
            dry_run=dry_run,
            shard=self._shard,
        )

    async def hold(self, name: str, *, ttl_ms: int, timeout_ms: float | None) -> LogHold:
        validate_hold(name, ttl_ms)
        request = operations_pb2.HoldLogRequest(shard=self._shard, name=name, ttl_ms=ttl_ms)
        response = await self._client.call(
            self._shard, lambda stub, s: stub.HoldLog(request, timeout=s), timeout_ms=timeout_ms
        )
        return self._hold(response.hold)

    async def release(self, name: str, *, timeout_ms: float | None) -> bool:
        request = operations_pb2.ReleaseLogRequest(shard=self._shard, name=name)
        response = await self._client.call(
            self._shard, lambda stub, s: stub.ReleaseLog(request, timeout=s), timeout_ms=timeout_ms
        )
        return bool(response.released)

    async def holds(self, timeout_ms: float | None) -> list[LogHold]:
        request = operations_pb2.GetHoldsRequest(shard=self._shard)
        response = await self._client.call(
            self._shard, lambda stub, s: stub.GetHolds(request, timeout=s), timeout_ms=timeout_ms
        )
        return [self._hold(each) for each in response.holds]

    def _hold(self, hold: operations_pb2.Hold) -> LogHold:
        return LogHold(hold.name, hold.index, hold.taken_ms, hold.expires_ms, self._shard)
