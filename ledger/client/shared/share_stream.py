"""One gRPC stream of a member of a shared group to the leader of one shard.

Each request has a number, and its answers repeat the number. If the stream breaks, every request without an answer ends
with the error; whoever made the request repeats it on another stream.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

import grpc
import grpc.aio

from ledger.client.connection.channels import NodeStub
from ledger.client.connection.stream_end import end_of_stream, unproven
from ledger.errors import AuthenticationError, InvalidArgumentError, LedgerError, UnavailableError, from_wire
from ledger.v1 import consumer_group_pb2

# How long a node may take to open a stream.
OPENING_S = 5.0

Response = consumer_group_pb2.ShareResponse


class ShareStream:
    """A stream to the node at `address`. `breaks` ends it, and then `error` is set."""

    def __init__(self, address: str, stub: NodeStub, opening: consumer_group_pb2.ShareOpening) -> None:
        self.address = address
        self.error: LedgerError | None = None
        self._has_filter = any(topic.filter for topic in opening.topics)
        self._loop = asyncio.get_running_loop()
        self._call: Any = stub.Share()
        self._number = 0
        # By number and part ("changed" or "received"): the answer that a request waits for.
        self._answers: dict[tuple[int, str], asyncio.Future[Response]] = {}
        self._outgoing: asyncio.Queue[consumer_group_pb2.ShareRequest] = asyncio.Queue()
        self.opened: asyncio.Future[None] = self._loop.create_future()
        self.opened.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._outgoing.put_nowait(consumer_group_pb2.ShareRequest(opening=opening))
        self._tasks = [self._loop.create_task(self._guard(work)) for work in (self._write, self._read)]

    def send(
        self, changes: Iterable[consumer_group_pb2.WantedChange], receive: consumer_group_pb2.Receive | None
    ) -> tuple[int, asyncio.Future[Response] | None, asyncio.Future[Response] | None]:
        """Send a request. Return its number, and the futures of the answers to its changes and its receive. The futures
        end in LedgerError if the stream breaks."""
        self._number += 1
        request = consumer_group_pb2.ShareRequest(number=self._number, changes=changes)
        if receive is not None:
            request.receive.CopyFrom(receive)
        changed = self._awaited("changed") if request.changes else None
        received = self._awaited("received") if receive is not None else None
        self._outgoing.put_nowait(request)
        return self._number, changed, received

    def cancel(self, number: int) -> None:
        """Tell the node that the member does not wait for this receive any more. It is answered all the same."""
        if (number, "received") in self._answers:
            self._outgoing.put_nowait(consumer_group_pb2.ShareRequest(cancelled=number))

    def breaks(self, error: LedgerError) -> None:
        """End the stream, and every request without an answer, with `error`."""
        if self.error is not None:
            return
        self.error = error
        self._call.cancel()
        for task in self._tasks:
            task.cancel()
        answers, self._answers = self._answers, {}
        waiting: list[asyncio.Future[Any]] = [self.opened, *answers.values()]
        for future in waiting:
            if not future.done():
                future.set_exception(error)

    async def close(self) -> None:
        self.breaks(UnavailableError(f"The stream to node {self.address} was closed by this client."))
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _awaited(self, part: str) -> asyncio.Future[Response]:
        future: asyncio.Future[Response] = self._loop.create_future()
        future.add_done_callback(lambda done: done.cancelled() or done.exception())
        if self.error is not None:
            future.set_exception(self.error)
        else:
            self._answers[self._number, part] = future
        return future

    async def _guard(self, work: Callable[[], Coroutine[None, None, None]]) -> None:
        try:
            await work()
        except Exception as error:
            self.breaks(await end_of_stream(self.address, self._call, error))

    async def _write(self) -> None:
        await self._call.wait_for_connection()
        while True:
            await self._call.write(await self._outgoing.get())

    async def _read(self) -> None:
        while True:
            response = await self._call.read()
            if response is grpc.aio.EOF:
                self.breaks(await end_of_stream(self.address, self._call))
                return
            if response.HasField("error"):
                error = from_wire(response.error)
                if isinstance(error, AuthenticationError):  # for example the user has a new password
                    error = unproven(self.address, self._call, error.message)
                self.breaks(error)
                return
            if not self.opened.done():
                if self._has_filter and not response.filters:
                    raise InvalidArgumentError(
                        f"Node {self.address} runs an older version of ledgermq, which has no filters: upgrade all "
                        "nodes."
                    )
                self.opened.set_result(None)
                continue
            for part, is_there in (("changed", response.has_changed), ("received", response.has_received)):
                future = self._answers.pop((response.number, part), None) if is_there else None
                if future is not None and not future.done():
                    future.set_result(response)
