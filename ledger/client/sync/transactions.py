"""The synchronous form of a transaction."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterable
from types import TracebackType
from typing import Generic, cast

from ledger.client.producer.arguments import GivenHeaders
from ledger.client.records import RecordMetadata, Sent
from ledger.client.sync.loop_thread import LoopThread
from ledger.client.transactions.records import CheckedTransaction, CheckResult, TransactionChecker
from ledger.client.transactions.transaction import AsyncTransaction, TransactionState


class Transaction(Generic[Sent]):
    """A transaction: consumers get all its messages or none. Made by `Producer.transaction`.

    Within `with`, the transaction is committed at the end of the block, and rolled back if the block raises. A program
    can also call `commit` or `rollback` itself; then the end of the block does nothing.
    """

    def __init__(self, inner: AsyncTransaction[Sent], thread: LoopThread) -> None:
        self._inner = inner
        self._thread = thread

    @property
    def state(self) -> TransactionState:
        """The state of the transaction, as this program knows it."""
        return self._inner.state

    @property
    def id(self) -> str | None:
        """The id of the transaction, for `ledgermq transaction show`. None before the first send."""
        return self._inner.id

    def __enter__(self) -> Transaction[Sent]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._thread.run(self._inner.__aexit__(kind, error, traceback))

    def send(
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
        """Send one message in this transaction, as AsyncTransaction.send does."""
        self._thread.run(
            self._inner.send(
                value,
                topic=topic,
                key=key,
                tag=tag,
                headers=headers,
                timestamp_ms=timestamp_ms,
                queue=queue,
                look_up_keys=look_up_keys,
                message_id=message_id,
            )
        )

    def commit(self) -> RecordMetadata | None:
        """Commit the transaction, as AsyncTransaction.commit does."""
        return self._thread.run(self._inner.commit())

    def rollback(self) -> None:
        """Roll the transaction back, as AsyncTransaction.rollback does."""
        self._thread.run(self._inner.rollback())


def in_own_thread(checker: TransactionChecker) -> TransactionChecker:
    """Return a coroutine function that calls the plain function `checker` in a thread, so that it can call the
    synchronous client. A coroutine function is returned as it is."""
    if not callable(checker) or inspect.iscoroutinefunction(checker):
        return checker

    async def call(checked: CheckedTransaction) -> CheckResult:
        return cast("CheckResult", await asyncio.to_thread(checker, checked))

    return call
