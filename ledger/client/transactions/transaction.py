"""One transaction of an asyncio producer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Iterable
from enum import Enum
from types import TracebackType
from typing import Any, Generic, Protocol, TypeVar

from ledger.client.producer.arguments import GivenHeaders
from ledger.client.producer.outgoing import OutgoingMessage
from ledger.client.records import RecordMetadata, Sent
from ledger.client.transactions.ends import EndPlace
from ledger.client.transactions.half_selection import PlacedHalf
from ledger.errors import InvalidArgumentError, LedgerError
from ledger.transactions import MAX_HALVES, TransactionId

log = logging.getLogger("ledgermq.client.producer")


class TransactionState(Enum):
    """The state of a transaction in its program."""

    OPEN = "open"
    COMMITTED = "committed"
    ROLLED_BACK = "rolled back"
    # A commit or rollback has failed. The cluster may have ended it so, or will ask a producer of the group.
    IN_DOUBT = "in doubt"


Sent_contra = TypeVar("Sent_contra", contravariant=True)


class TransactionPort(Protocol[Sent_contra]):
    """What a transaction needs of its producer."""

    async def send_half(
        self, group: str, transaction: tuple[int, int] | None, topic: str, message: OutgoingMessage[Sent_contra]
    ) -> PlacedHalf:
        """Send one message as a half batch. Return its place when a majority has it. Raises LedgerError."""

    async def end(self, transaction: TransactionId, halves: list[PlacedHalf], *, commit: bool) -> EndPlace | None:
        """End the transaction. Raises LedgerError."""

    def finish(self, work: Coroutine[Any, Any, None]) -> None:
        """Let `work` go on in the background. The end of the producer waits for it."""


class AsyncTransaction(Generic[Sent]):
    """A transaction: consumers get all its messages or none. Made by `AsyncProducer.transaction`.

    Within `async with`, the transaction is committed at the end of the block, and rolled back if the block raises. A
    program can also call `commit` or `rollback` itself; then the end of the block does nothing. If the block is
    cancelled, for example by `asyncio.timeout`, the block ends at once, and the producer rolls the transaction back in
    the background.
    """

    def __init__(self, port: TransactionPort[Sent], topic: str, group: str) -> None:
        self._port = port
        self._topic = topic
        self._group = group
        self._state = TransactionState.OPEN
        # The half batches, in the order of the sends; None for a send that has no result yet.
        self._halves: list[PlacedHalf | None] = []
        # The topic of each send.
        self._topics: list[str] = []
        self._pending: set[asyncio.Task[PlacedHalf]] = set()
        # Ends when the first half batch has a result.
        self._first: asyncio.Task[PlacedHalf] | None = None
        self._failure: BaseException | None = None
        self._lock = asyncio.Lock()

    @property
    def state(self) -> TransactionState:
        """The state of the transaction, as this program knows it."""
        return self._state

    @property
    def id(self) -> str | None:
        """The id of the transaction, for `ledgermq transaction show`. None before the first send."""
        found = self._id()
        return None if found is None else str(found)

    def _id(self) -> TransactionId | None:
        first = self._halves[0] if self._halves else None
        return None if first is None else TransactionId(first.topic_id, first.shard, first.number)

    async def __aenter__(self) -> AsyncTransaction[Sent]:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._state is not TransactionState.OPEN:
            return
        if error is None:
            await self.commit()
        elif isinstance(error, asyncio.CancelledError):
            # The rollback waits for the sends that are not complete, and a cancelled caller has no time for that.
            self._state = TransactionState.IN_DOUBT
            self._port.finish(self._roll_back())
        else:
            await self._roll_back()

    async def _roll_back(self) -> None:
        """Roll the transaction back at the end of a block, or log why that failed."""
        try:
            await self.rollback()
        except LedgerError as failure:  # the error of the block matters more
            log.warning("a transaction could not be rolled back (the cluster will ask for its outcome): %s", failure)

    async def send(
        self,
        value: Sent,
        *,
        topic: str | None = None,
        key: bytes | str | None = None,
        tag: str | None = None,
        headers: GivenHeaders = None,
        timestamp_ms: int | None = None,
        queue: int | None = None,
        look_up_keys: Iterable[bytes | str] | None = None,
        message_id: bytes | str | None = None,
    ) -> None:
        """Send one message in this transaction, to `topic` or, without it, to the topic of the transaction. Return when
        a majority of the voters has the message. Consumers do not get it before the commit.

        The first message can have a `message_id`, as AsyncProducer.send explains it. If it was sent before, this
        transaction is the one that the first message began: it has the same id and the same outcome.

        If a send fails, the transaction can only be rolled back. Raises InvalidArgumentError if the transaction has
        ended or has too many messages, and the errors of `AsyncProducer.send`.
        """
        self._check_open()
        if len(self._halves) >= MAX_HALVES:
            raise InvalidArgumentError(f"A transaction can have at most {MAX_HALVES} messages: use more transactions.")
        place = len(self._halves)
        if place and message_id is not None:
            raise InvalidArgumentError("Only the first message of a transaction can have a message_id.")
        self._halves.append(None)
        self._topics.append(topic or self._topic)
        message = OutgoingMessage(value, key, tag, headers, timestamp_ms, queue, None, None, look_up_keys, message_id)
        work = self._send(self._first if place else None, self._topics[place], message)
        task = asyncio.get_running_loop().create_task(work)
        if not place:
            self._first = task
        self._pending.add(task)
        task.add_done_callback(lambda done: self._sent(place, done))
        # A caller that is cancelled does not cancel the send: it may be in a log already.
        await asyncio.shield(task)

    async def _send(
        self, first: asyncio.Task[PlacedHalf] | None, topic: str, message: OutgoingMessage[Sent]
    ) -> PlacedHalf:
        begun = None
        if first is not None:
            try:
                place = await asyncio.shield(first)
            except LedgerError as error:
                raise InvalidArgumentError("The first send of this transaction failed: roll it back.") from error
            begun = (place.shard, place.number)
        return await self._port.send_half(self._group, begun, topic, message)

    def _sent(self, place: int, done: asyncio.Task[PlacedHalf]) -> None:
        self._pending.discard(done)
        if done.cancelled():
            self._failure = self._failure or asyncio.CancelledError()
        elif (error := done.exception()) is not None:
            self._failure = self._failure or error
        else:
            self._halves[place] = done.result()

    async def commit(self) -> RecordMetadata | None:
        """Commit the transaction: consumers get its messages. Wait for sends that are not complete first.

        Return the place of the message if the transaction has one message and this call has committed it. Otherwise
        return None. A transaction without messages ends without a request.

        Raises InvalidArgumentError if a send of the transaction has failed or if the transaction was rolled back,
        TransactionEndedError if the cluster has rolled it back, and DeliveryTimeoutError if no leader has answered in
        time. After a DeliveryTimeoutError, the transaction may be committed or not: the program can call commit()
        again.
        """
        async with self._lock:
            if self._state is TransactionState.COMMITTED:
                return None
            if self._state is TransactionState.ROLLED_BACK:
                raise InvalidArgumentError("This transaction was rolled back: begin a new one.")
            await self._all_sent()
            if self._failure is not None:
                raise InvalidArgumentError(
                    "A send of this transaction has failed, so it cannot be committed: roll it back."
                ) from self._failure
            return await self._end(commit=True)

    async def rollback(self) -> None:
        """Roll the transaction back: consumers never get its messages. Wait for sends that are not complete first.

        Raises InvalidArgumentError if the transaction was committed, TransactionEndedError if the cluster has committed
        it, and DeliveryTimeoutError if no leader has answered in time. The program can call rollback() again.
        """
        async with self._lock:
            if self._state is TransactionState.ROLLED_BACK:
                return
            if self._state is TransactionState.COMMITTED:
                raise InvalidArgumentError("This transaction was committed: its messages cannot be taken back.")
            await self._all_sent()
            await self._end(commit=False)

    async def _end(self, *, commit: bool) -> RecordMetadata | None:
        found, halves = self._id(), [half for half in self._halves if half is not None]
        place = None
        if found is not None:
            self._state = TransactionState.IN_DOUBT
            place = await self._port.end(found, halves, commit=commit)
        self._state = TransactionState.COMMITTED if commit else TransactionState.ROLLED_BACK
        if place is None or len(halves) != 1:
            return None
        return RecordMetadata(
            self._topics[0], halves[0].queue, place.base_offset, place.append_time_ms, place.term, False
        )

    async def _all_sent(self) -> None:
        while self._pending:
            await asyncio.wait(list(self._pending))

    def _check_open(self) -> None:
        if self._state is not TransactionState.OPEN:
            raise InvalidArgumentError(f"This transaction is {self._state.value}: begin a new one.")
        if self._failure is not None:
            raise InvalidArgumentError("A send of this transaction has failed: roll it back.") from self._failure
