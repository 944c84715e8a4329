"""Errors of the synchronous consumers of groups, without a cluster."""

from __future__ import annotations

import threading
from collections.abc import Coroutine
from types import SimpleNamespace
from typing import Any

import pytest

from ledger.client.records import Message
from ledger.client.sync.group_clients import GroupConsumer
from ledger.client.sync.shared_consumer import SharedConsumer
from ledger.errors import ClosedError, InvalidArgumentError

MESSAGE: Message[bytes] = Message("orders", 0, 1, 0, 0, None, b"1", None, (), 0)


class Group(GroupConsumer[bytes]):
    """A consumer that passes what is finished to nothing but a list."""

    def __init__(self) -> None:
        self.told: list[Any] = []
        self._done, self._tell_at, self._progress = [], 0.0, threading.Event()

    def _tell(self) -> None:
        self.told += self._done
        self._done = []


@pytest.mark.parametrize("wrong", [[MESSAGE, MESSAGE], tuple(MESSAGE), None, 7, MESSAGE.id])
def test_something_else_than_a_message_is_not_finished_and_harms_no_later_call(wrong: Any) -> None:
    """It would be passed to the consumer's own thread with every later call, and raise there each time."""
    consumer = Group()
    with pytest.raises(InvalidArgumentError, match=r"messages has .*: give each message by itself"):
        consumer.finish(MESSAGE, wrong)
    consumer.finish(MESSAGE)
    assert consumer.told == [MESSAGE]


class Shared(SharedConsumer[bytes]):
    """A consumer whose client is closed, or whose thread belongs to the parent process."""

    def __init__(self, *, is_copy: bool) -> None:
        self._thread: Any = SimpleNamespace(run=self._refuse, is_copy=is_copy, alive=False)

    def _refuse(self, work: Coroutine[Any, Any, Any], **_: Any) -> None:
        work.close()
        raise ClosedError("closed")


def test_an_iteration_in_a_forked_process_says_that_it_cannot_work_there() -> None:
    with pytest.raises(ClosedError):
        next(Shared(is_copy=True))


def test_an_iteration_of_a_closed_consumer_ends() -> None:
    assert list(Shared(is_copy=False)) == []
