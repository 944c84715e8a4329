"""The synchronous clients of consumer groups: GroupConsumer and PushConsumer.

Iteration reads ahead. So a message is finished when the program asks for the next one, not when it was read.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from typing import Any

from ledger.client.admin.offsets import QueueTimes
from ledger.client.connection.lifetime import Lifetime
from ledger.client.group.group_consumer import AsyncGroupConsumer
from ledger.client.group.push_consumer import AsyncPushConsumer, Listener
from ledger.client.records import Message, TopicQueue
from ledger.client.sync.loop_thread import made, started, stopped
from ledger.client.sync.read_ahead import next_ahead
from ledger.errors import ClosedError

_ITERATION_MESSAGES = 100
# To cross to the other thread for each message would cost more than the message.
_TELL_EVERY_S = 0.1


class GroupConsumer(Lifetime):
    """The synchronous `AsyncGroupConsumer`; takes the same arguments, and joins when it is made."""

    def __init__(
        self,
        *topics: str,
        group: str,
        bootstrap_servers: str | list[str] | tuple[str, ...],
        auto_acknowledge: bool = True,
        **settings: Any,
    ) -> None:
        self._client = AsyncGroupConsumer(
            *topics, group=group, bootstrap_servers=bootstrap_servers, auto_acknowledge=False, **settings
        )
        self._thread = started(self._client, "ledgermq-group-consumer")
        self._auto = auto_acknowledge
        self._ahead: deque[Message] = deque()
        # By the last read: with the program still.
        self._handed_out: list[Message] = []
        # Finished, which the other thread is not told yet.
        self._done: list[Message] = []
        self._tell_at = 0.0

    def __iter__(self) -> Iterator[Message]:
        return self

    def __next__(self) -> Message:
        """The next message, however long that takes. When the consumer has been closed, iteration is over."""
        try:
            self._finish_handed_out()
            message = self._next_ahead()
            while message is None and not self._client.closed:
                self._tell()
                self._ahead.extend(self._thread.run(self._client.getmany(_ITERATION_MESSAGES)))
                message = self._next_ahead()
        except ClosedError:
            if not self._client.closed:
                raise  # of no use for another reason: this is behind a fork
        if self._client.closed or message is None:
            raise StopIteration
        self._handed_out = [message]
        return message

    def getmany(self, max_messages: int = 500, timeout_ms: float | None = None) -> list[Message]:
        """Up to so many messages: what is there, else what comes first within `timeout_ms` (None: however long)."""
        self._finish_handed_out()
        self._tell()
        messages: list[Message] = []
        while len(messages) < max_messages and (message := self._next_ahead()) is not None:
            messages.append(message)
        self._handed_out = messages or self._thread.run(self._client.getmany(max_messages, timeout_ms))
        return list(self._handed_out)

    def finish(self, *messages: Message) -> None:
        """These are consumed: for `auto_acknowledge = False`."""
        self._done += messages
        self._tell()

    def reconsume_later(self, message: Message) -> None:
        """It could not be consumed: it comes again, to any member, after a while; after the last attempt it is given
        up."""
        self._thread.run(self._client.reconsume_later(message))

    def give_up(self, message: Message) -> None:
        """It goes to the dead letters."""
        self._thread.run(self._client.give_up(message))

    def acknowledge(self) -> None:
        """Tell the cluster what is finished; returns when that is committed."""
        self._tell()
        self._thread.run(self._client.acknowledge())

    @property
    def assignment(self) -> list[TopicQueue]:
        """The queues that this member consumes at the moment."""
        return self._thread.run(made(lambda: self._client.assignment))

    @property
    def member(self) -> str:
        """This member's name in the consumer group."""
        return self._client.member

    def position(self, topic: str, queue: int) -> int:
        """The offset of the next message that will be handed out."""
        for message in self._ahead:
            if (message.topic, message.queue) == (topic, queue) and self._client.holds(message):
                return message.offset
        return self._thread.run(made(lambda: self._client.position(topic, queue)))

    def seek(self, topic: str, queue: int, offset: int) -> None:
        """Go on at `offset` of this queue. What lies before it counts as finished; what lies behind it is handed out,
        again where it was before."""
        self._tell()
        self._handed_out = [one for one in self._handed_out if (one.topic, one.queue) != (topic, queue)]
        self._thread.run(self._client.seek(topic, queue, offset))
        self._ahead = deque(one for one in self._ahead if (one.topic, one.queue) != (topic, queue))

    def pause(self, *places: tuple[str, int]) -> None:
        """Hand out nothing of these queues, given as (topic, queue), until resume(); of all that this member has at the
        moment, where none is given."""
        self._thread.run(made(lambda: self._client.pause(*places)))

    def resume(self, *places: tuple[str, int]) -> None:
        """The opposite of pause()."""
        self._thread.run(made(lambda: self._client.resume(*places)))

    @property
    def paused(self) -> list[TopicQueue]:
        """The queues of which nothing is handed out."""
        return self._thread.run(made(lambda: self._client.paused))

    def offsets_for_times(self, times: QueueTimes) -> dict[TopicQueue, int]:
        """For each queue the offset of the first message that was appended at that time (ms since 1970) or later; the
        end offset where there is none yet. What to give to seek()."""
        return self._thread.run(self._client.offsets_for_times(times))

    def close(self) -> None:
        """Acknowledge what is finished, and leave, also while other threads read. To do it twice is harmless."""
        try:
            self._tell()
        except ClosedError:
            pass
        finally:
            stopped(self._client, self._thread)

    def _next_ahead(self) -> Message | None:
        """Of what was read ahead, the next message of a queue that is not paused. What is this member's no more, since
        its queue went elsewhere, is let go."""
        while self._ahead and not self._client.holds(self._ahead[0]):
            self._ahead.popleft()
        return next_ahead(self._ahead, self._may_go)

    def _may_go(self, message: Message) -> bool:
        return self._client.holds(message) and not self._client.is_paused(message.topic, message.queue)

    def _finish_handed_out(self) -> None:
        if self._auto:
            self._done += self._handed_out
        self._handed_out = []
        if time.monotonic() >= self._tell_at:
            self._tell()

    def _tell(self) -> None:
        done, self._done = self._done, []
        self._tell_at = time.monotonic() + _TELL_EVERY_S
        if done:
            self._thread.run(made(lambda: self._client.finish(*done)))


class PushConsumer(Lifetime):
    """The synchronous `AsyncPushConsumer`; takes the same arguments, and begins to call the listener, in threads, when
    it is made. A listener that is a coroutine function is called on the client's own thread."""

    def __init__(self, *topics: str, listener: Listener, **settings: Any) -> None:
        self._client = AsyncPushConsumer(*topics, listener=listener, **settings)
        self._thread = started(self._client, "ledgermq-push-consumer")

    @property
    def assignment(self) -> list[TopicQueue]:
        """The queues that this member consumes at the moment."""
        return self._thread.run(made(lambda: self._client.assignment))

    def close(self) -> None:
        """Call the listener no more, wait for the calls under way (30 s at most), acknowledge and leave. To do it twice
        is harmless. Not to be called by the listener, for which it would wait."""
        stopped(self._client, self._thread)
