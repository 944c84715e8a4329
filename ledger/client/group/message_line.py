"""The line of messages in which the messages of a push consumer wait for its listener. No I/O.

    runs that were read  ->  messages (wait)  ->  the listener  ->  consumed, until `settle`

A listener usually consumes all messages in the order of the line. Then `settle` finishes them as parts of runs, which
costs nothing for each message. Otherwise `settle` finishes each message by itself.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Protocol

from ledger.client.group.assigned_queue import QueueRun
from ledger.client.records import Message


class Finishing(Protocol):
    """An interface: what a line needs of the group consumer."""

    def finish_held(self, messages: Iterable[Message]) -> None: ...

    def _finish_next(self, run: QueueRun, count: int) -> None: ...


class MessageLine:
    """Messages that wait for the listener, and messages that it has consumed.

    `keeps_runs` False: finish each message by itself. It must be False if threads take messages from the line: threads
    may use only `messages` and `consumed`.
    """

    def __init__(self, *, keeps_runs: bool) -> None:
        self.messages: deque[Message] = deque()
        # Messages that the listener consumed, until `settle`.
        self.consumed: deque[Message] = deque()
        # True: `settle` will be called soon.
        self.is_settling = False
        # The consumer's `losses` at a time when the member owned all waiting messages. If the consumer has more losses
        # by now, another member may own the queue of a waiting message.
        self.losses = -1
        self._keeps_runs = keeps_runs
        # The runs of the messages that were added last and are not settled. Empty: a message was not settled in order.
        self._runs: deque[QueueRun] = deque()
        # How many messages were added and are neither settled nor left out. All of them wait, are with the listener, or
        # are consumed.
        self._unsettled = 0

    def add(self, runs: Sequence[QueueRun]) -> None:
        """Let the messages of these runs wait, behind all others."""
        if self._keeps_runs:
            self._runs = deque(runs) if self._unsettled == 0 else deque()
        for run in runs:
            self.messages.extend(run.messages)
            self._unsettled += len(run.messages)

    def left_out(self) -> None:
        """Record that a message was taken from the line, and that `settle` will not finish it."""
        self._unsettled -= 1
        self._runs.clear()

    def settle(self, consumer: Finishing) -> None:
        """Finish the consumed messages. Threads can add more of them at the same time."""
        self.is_settling = False  # must come first: a message that a thread adds from now on needs another call
        count = len(self.consumed)
        self._unsettled -= count
        # All messages that were taken from the line since its runs were added have been consumed.
        if self._runs and self._unsettled == len(self.messages):
            self.consumed.clear()
            self._settle_runs(consumer, count)
        else:
            self._runs.clear()
            consumer.finish_held([self.consumed.popleft() for _ in range(count)])

    def _settle_runs(self, consumer: Finishing, count: int) -> None:
        while count:
            run = self._runs[0]
            rest = len(run.messages) - run.finished
            if count >= rest:
                self._runs.popleft()
            consumer._finish_next(run, min(count, rest))
            count -= min(count, rest)
