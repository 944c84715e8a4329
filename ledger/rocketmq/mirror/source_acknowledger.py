"""Acknowledges copied messages at the servers. Acknowledgements that wait share a request."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from ledger.rocketmq.mirror.source_connection import SourceConnection
from ledger.rocketmq.mirror.source_settings import MirrorError
from ledger.rocketmq.v2 import definition_pb2 as pb
from ledger.rocketmq.v2 import service_pb2

MAX_ENTRIES = 32
# A request that has no answer is sent again. Later the servers hand the message out again.
_ATTEMPTS = 3
_AGAIN_S = 0.5


class _Waiting(NamedTuple):
    entry: service_pb2.AckMessageEntry
    answer: asyncio.Future[bool]


class SourceAcknowledger:
    """Acknowledges messages of one topic. Its callers wait, and so they bound how many there are."""

    def __init__(self, group: str, topic: str, connection: Callable[[], SourceConnection]) -> None:
        """`connection()` returns the connection to use now."""
        self._group = pb.Resource(name=group)
        self._topic = pb.Resource(name=topic)
        self._connection = connection
        self._waiting: list[_Waiting] = []
        self._task: asyncio.Task[None] | None = None

    async def acknowledge(self, message_id: str, handle: str) -> bool:
        """Acknowledge a message. Return whether the servers took the acknowledgement; otherwise they hand the message
        out again."""
        entry = service_pb2.AckMessageEntry(message_id=message_id, receipt_handle=handle)
        answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting(entry, answer))
        if self._task is None:
            self._task = asyncio.create_task(self._send_all(), name=f"acknowledgements of {self._topic.name}")
        return await answer

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _send_all(self) -> None:
        try:
            while self._waiting:
                taken, self._waiting = self._waiting[:MAX_ENTRIES], self._waiting[MAX_ENTRIES:]
                await self._send(taken)
        finally:
            self._task = None

    async def _send(self, taken: list[_Waiting]) -> None:
        request = service_pb2.AckMessageRequest(
            group=self._group, topic=self._topic, entries=[each.entry for each in taken]
        )
        accepted: set[str] = set()
        try:
            for attempt in range(1, _ATTEMPTS + 1):
                try:
                    answer = await self._connection().call("AckMessage", request)
                except MirrorError:
                    if attempt < _ATTEMPTS:
                        await asyncio.sleep(_AGAIN_S * attempt)
                    continue
                accepted = _accepted(answer, request)
                break
        finally:
            for each in taken:
                if not each.answer.done():
                    each.answer.set_result(each.entry.receipt_handle in accepted)


def _accepted(answer: service_pb2.AckMessageResponse, request: service_pb2.AckMessageRequest) -> set[str]:
    """Return the handles of the messages whose acknowledgements the servers took."""
    if answer.status.code == pb.OK:
        return {each.receipt_handle for each in request.entries}
    return {each.receipt_handle for each in answer.entries if each.status.code == pb.OK}
