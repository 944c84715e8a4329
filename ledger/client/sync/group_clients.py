"""The synchronous clients of consumer groups: GroupConsumer and PushConsumer.

An iteration reads messages ahead. A message is finished when the program asks for the next message.
"""

from __future__ import annotations

import random
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Generic

from ledger.client.admin.offsets import QueueTimes
from ledger.client.checked_arguments import checked_flag, checked_offset, checked_place
from ledger.client.checked_numbers import checked_wait
from ledger.client.connection.lifetime import Lifetime, settings_in
from ledger.client.group.claiming import GroupStart
from ledger.client.group.group_batch import GroupBatch, check_messages
from ledger.client.group.group_consumer import AsyncGroupConsumer
from ledger.client.group.push_consumer import AsyncPushConsumer, Listener, OnError
from ledger.client.group.rebalance_callbacks import RebalanceCallback, checked_rebalance_callback
from ledger.client.records import Message, Received, TopicQueue
from ledger.client.sync.loop_thread import CLEAN_UP_S, in_thread, made, started, stopped
from ledger.client.sync.read_ahead import first_ahead, split_ahead
from ledger.client.tracing import TracerSource
from ledger.errors import ClosedError

_ITERATION_MESSAGES = 100
# How often finished messages are passed to the other thread. Doing it for each single message would be slow.
_TELL_EVERY_S = 0.1
# How often close() looks whether a thread that still consumes has ended.
_LOOK_EVERY_S = 0.1
_CALLBACKS = ("on_assigned", "on_revoked", "on_lost")


class GroupConsumer(Lifetime, Generic[Received]):
    """The synchronous form of AsyncGroupConsumer, with the same arguments. The constructor joins the consumer group."""

    def __init__(
        self,
        *topics: str | Iterable[str],
        group: str,
        bootstrap_servers: str | Sequence[str] | None = None,
        start: GroupStart = "earliest",
        tags: str | Iterable[str] | None = None,
        strategy: str = "average",
        configured: Iterable[tuple[str, int]] = (),
        room: str = "",
        auto_acknowledge: bool = True,
        acknowledge_interval_ms: int = 1_000,
        max_attempts: int = 17,
        broadcast: bool = False,
        instance: str | None = None,
        deserializer: Callable[[bytes], Received] | None = None,
        on_assigned: RebalanceCallback | None = None,
        on_revoked: RebalanceCallback | None = None,
        on_lost: RebalanceCallback | None = None,
        session_timeout_ms: int = 10_000,
        release_timeout_ms: int = 30_000,
        max_bytes: int = 1024 * 1024,
        max_wait_ms: int = 500,
        check_crcs: bool = True,
        client_id: str | None = None,
        request_timeout_ms: int = 30_000,
        retry_backoff_ms: float = 20,
        rng: random.Random | None = None,
        tls: bool | None = None,
        ca: str | Path | None = None,
        client_certificate: str | Path | None = None,
        client_key: str | Path | None = None,
        user: str | None = None,
        password: str | None = None,
        password_file: str | Path | None = None,
        token: str | None = None,
        profile: str | None = None,
    ) -> None:
        self._auto = checked_flag("auto_acknowledge", auto_acknowledge)
        settings = settings_in(locals(), without=["auto_acknowledge"])
        settings |= {name: in_thread(checked_rebalance_callback(name, settings[name])) for name in _CALLBACKS}
        self._client: AsyncGroupConsumer[Received] = AsyncGroupConsumer(*topics, auto_acknowledge=False, **settings)
        self._release_s = release_timeout_ms / 1000
        # The thread that made the last read. While another thread closes the consumer, it may still be consuming.
        self._reader: threading.Thread | None = None
        self._is_ending = False
        # Set when a message was finished.
        self._progress = threading.Event()
        self._thread = started(self._client, "ledgermq-group-consumer")
        # What was read and not handed out, as in `Consumer`.
        self._ahead: deque[Message[Received]] = deque()
        self._batches_ahead: list[GroupBatch] = []
        # The messages of the last read, which the program may still be processing.
        self._handed_out: list[Message[Any] | GroupBatch] = []
        # Finished messages that were not passed to the other thread yet.
        self._done: list[Message[Any] | GroupBatch] = []
        self._tell_at = 0.0

    def __iter__(self) -> Iterator[Message[Received]]:
        return self

    def __next__(self) -> Message[Received]:
        """Return the next message, and wait for it without a time limit. The iteration ends when the consumer is
        closed."""
        try:
            self._finish_handed_out()
            at = None if self._is_ending else self._first_ahead()
            while at is None and not self._is_over:
                self._tell()
                self._thread.run(self._read_ahead(_ITERATION_MESSAGES), clean_up_s=CLEAN_UP_S)
                at = self._first_ahead()
        except ClosedError:
            if not self._is_over:
                raise  # the process was forked, so the client's thread does not exist here
        if self._is_over or at is None:
            raise StopIteration
        message = self._ahead[at]
        self._handed_out = [message]
        del self._ahead[at]  # no call follows, so no signal handler runs before the message is returned
        return message

    def getmany(self, max_messages: int = 500, timeout_ms: float | None = None) -> list[Message[Received]]:
        """Return up to `max_messages` messages that were fetched and not handed out yet.

        If there is no fetched message, wait for messages for up to `timeout_ms` milliseconds (None: without limit). If
        no message arrives before this timeout, return an empty list.
        """
        self._finish_handed_out()
        self._tell()
        messages, others = self._split_ahead(max_messages)
        if not messages:
            self._thread.run(self._read_ahead(max_messages, timeout_ms), clean_up_s=CLEAN_UP_S)
            # What was just read needs no second look, which would take as long as the read.
            messages, others = self._split_ahead(max_messages) if others else (list(self._ahead), deque())
        handed_out: list[Message[Any] | GroupBatch] = list(messages)
        self._ahead, self._handed_out = others, handed_out  # as in __next__
        return messages

    def getbatches(self, timeout_ms: float | None = None) -> list[GroupBatch]:
        """Return fetched messages as columns, as AsyncGroupConsumer.getbatches does. Do not use getbatches() together
        with iteration: getbatches() does not return the messages that an iteration has read ahead."""
        self._finish_handed_out()
        self._tell()
        if not self._batches_ahead:
            self._thread.run(self._read_batches_ahead(timeout_ms), clean_up_s=CLEAN_UP_S)
        batches = list(filter(self._client.holds, self._batches_ahead))
        handed_out: list[Message[Any] | GroupBatch] = list(batches)
        self._batches_ahead, self._handed_out = [], handed_out  # as in __next__
        return batches

    def fetch_again(self) -> None:
        """Fetch again from the queues whose last read raised an error, from the same offset. For example, an
        administrator has given back the right to subscribe to the topic.
        """
        self._thread.run(made(self._client.fetch_again))

    def finish(self, *messages: Message[Any] | GroupBatch) -> None:
        """Mark `messages` or batches as consumed. If `auto_acknowledge` is False, the program must call finish() for
        each message or batch that it has consumed. Raises InvalidArgumentError, and then marks none of them, if one of
        them is something else."""
        check_messages(messages)
        self._done += messages
        self._tell()
        self._progress.set()

    def finish_held(self, messages: Iterable[Message[Any] | GroupBatch]) -> None:
        """Mark `messages` as consumed. They must be the message objects that were handed out. Objects that were handed
        out before an administrator reset the offset of their queue are ignored, because their messages must be
        consumed again.
        """
        self._thread.run(made(lambda: self._client.finish_held(messages)))

    def holds(self, message: Message[Any] | GroupBatch) -> bool:
        """Return True if this message object was handed out, is not finished, and its queue still belongs to this
        member. For a copy of a message object the result is False.
        """
        return self._client.holds(message)

    @property
    def losses(self) -> int:
        """The number of times that this member has lost a queue. While `losses` does not change, the member still owns
        the queues of all messages that were handed out.
        """
        return self._client.losses

    def reconsume_later(self, message: Message[Any]) -> None:
        """Move the message to the retry topic, so that a member receives it again after a delay. After the last
        attempt the message goes to the dead letters."""
        self._thread.run(self._client.reconsume_later(message))

    def give_up(self, message: Message[Any]) -> None:
        """Move the message to the dead letters of the consumer group."""
        self._thread.run(self._client.give_up(message))

    def acknowledge(self) -> None:
        """Acknowledge all finished messages, and return when the acknowledged offsets are committed."""
        self._tell()
        self._thread.run(self._client.acknowledge())

    @property
    def assignment(self) -> list[TopicQueue]:
        """The queues that this member owns and has claimed, without those of the group's retry topic."""
        return self._thread.run(made(lambda: self._client.assignment))

    def wait_assigned(self, timeout_ms: float | None = None) -> list[TopicQueue]:
        """Wait until this member owns at least one queue and has claimed all queues that are assigned to it, and return
        its `assignment`. If `timeout_ms` milliseconds pass before (None: no limit), return an empty list.
        """
        return self._thread.run(self._client.wait_assigned(timeout_ms))

    @property
    def member(self) -> str:
        """This member's name in the consumer group."""
        return self._client.member

    def position(self, topic: str, queue: int) -> int:
        """Return the offset of the next message that this member hands out from the queue."""
        place = checked_place(topic, queue)
        for message in self._ahead:
            if (message.topic, message.queue) == place and self._client.holds(message):
                return message.offset
        return self._thread.run(made(lambda: self._client.position(topic, queue)))

    def seek(self, topic: str, queue: int, offset: int) -> None:
        """Continue to hand out messages of this queue at `offset`. Messages before `offset` count as finished.
        Messages from `offset` on are handed out, even if they were handed out before.
        """
        place, offset = checked_place(topic, queue), checked_offset(offset)
        self._tell()
        self._handed_out = [one for one in self._handed_out if (one.topic, one.queue) != place]
        self._thread.run(self._client.seek(*place, offset))
        self._ahead = deque(one for one in self._ahead if (one.topic, one.queue) != place)

    def pause(self, *places: tuple[str, int]) -> None:
        """Stop handing out messages of the queues `places` until resume() is called. Each queue is given as (topic,
        queue); without arguments, all queues that this member owns now are paused.
        """
        self._thread.run(made(lambda: self._client.pause(*places)))

    def resume(self, *places: tuple[str, int]) -> None:
        """Hand out messages of the paused queues `places` again; without arguments, of all paused queues."""
        self._thread.run(made(lambda: self._client.resume(*places)))

    def is_paused(self, topic: str, queue: int) -> bool:
        """Return True if the queue is paused. If this member does not own the queue, return False."""
        return self._client.is_paused(topic, queue)

    @property
    def closed(self) -> bool:
        """True if the consumer was stopped."""
        return self._client.closed

    @property
    def paused(self) -> list[TopicQueue]:
        """The paused queues of this member, each as (topic, queue)."""
        return self._thread.run(made(lambda: self._client.paused))

    def offsets_for_times(self, times: QueueTimes) -> dict[TopicQueue, int]:
        """Return for each queue the offset of the first message appended at the given time (ms since 1970) or later.
        If a queue has no message from that time or later, its result is the end offset of the queue. Each offset can
        be passed to seek().
        """
        return self._thread.run(self._client.offsets_for_times(times))

    def stop_reading(self) -> None:
        """Hand out no more messages: an iteration ends after the message in hand, and getmany() raises ClosedError.

        The consumer stays a member until `close`, so that the program can finish what it has. Other threads and signal
        handlers can call it. See also `ledgermq.stop_on_signal`.
        """
        self._is_ending = True
        self._thread.soon(self._client.stop_reading)

    def close(self, timeout_s: float | None = None) -> None:
        """Hand out no more messages, wait until the program has finished the messages in hand, acknowledge the finished
        messages, and leave the group. The next owner of each queue hands out unfinished messages again.

            timeout_s   how long close() waits for messages in hand. None (default): if another thread reads the
                        messages, as long as `release_timeout_ms` allows; if this thread reads them, not at all, because
                        it cannot finish them meanwhile

        With `auto_acknowledge`, a message is finished when the program asks for the next message. `timeout_s` does not
        limit the last acknowledgement, which takes up to `request_timeout_ms` while no leader answers. The call is
        idempotent.
        """
        timeout_s = None if timeout_s is None else checked_wait("timeout_s", timeout_s)
        self.stop_reading()
        self._wait_for_reader(timeout_s)
        try:
            self._tell()
        except ClosedError:
            pass
        finally:
            stopped(self._client.stop(), self._thread)

    def stop(self, timeout_s: float | None = None) -> None:
        """Do the same as `close`, under the name that the asyncio clients use."""
        self.close(timeout_s)

    @property
    def _is_over(self) -> bool:
        return self._is_ending or self._client.closed

    def _wait_for_reader(self, timeout_s: float | None) -> None:
        """Wait until the messages of the last read are finished, for at most `timeout_s`."""
        reader, until = self._reader, time.monotonic() + (self._release_s if timeout_s is None else timeout_s)
        if reader is None or (timeout_s is None and reader is threading.current_thread()):
            return
        while self._is_busy() and (timeout_s is not None or reader.is_alive()) and time.monotonic() < until:
            self._progress.clear()
            if self._is_busy():
                self._progress.wait(_LOOK_EVERY_S)

    def _is_busy(self) -> bool:
        if self._client.closed:
            return False
        return bool(self._handed_out) if self._auto else any(map(self._client.holds, self._handed_out))

    async def _read_ahead(self, max_messages: int, timeout_ms: float | None = None) -> None:
        messages = await self._client.getmany(max_messages, timeout_ms)
        self._ahead.extend(messages)

    async def _read_batches_ahead(self, timeout_ms: float | None) -> None:
        batches = await self._client.getbatches(timeout_ms)
        self._batches_ahead += batches

    def _first_ahead(self) -> int | None:
        """Return the place of the first message that was read ahead and that is not of a paused queue, or None. Drop
        messages of queues that the member has lost."""
        while self._ahead and not self._client.holds(self._ahead[0]):
            self._ahead.popleft()
        return first_ahead(self._ahead, self._may_go)

    def _split_ahead(self, max_messages: int) -> tuple[list[Message[Received]], deque[Message[Received]]]:
        return split_ahead(self._ahead, self._may_go, 0 if self._is_ending else max_messages)

    def _may_go(self, message: Message[Any]) -> bool:
        return self._client.holds(message) and not self._client._is_paused(TopicQueue(message.topic, message.queue))

    def _finish_handed_out(self) -> None:
        self._reader = threading.current_thread()
        if self._auto:
            self._done += self._handed_out
        self._handed_out = []
        self._progress.set()
        if time.monotonic() >= self._tell_at:
            self._tell()

    def _tell(self) -> None:
        done, self._done = self._done, []
        self._tell_at = time.monotonic() + _TELL_EVERY_S
        if done:
            try:
                self._thread.run(made(lambda: self._client.finish(*done)))
            except BaseException:  # a signal handler has raised: to finish a message twice does no harm
                self._done = done + self._done
                raise


class PushConsumer(Lifetime, Generic[Received]):
    """The synchronous form of AsyncPushConsumer, with the same arguments. The constructor joins the consumer group and
    begins to call the listener. A listener that is a coroutine function is called on the client's own thread, and any
    other listener on a pool of threads.
    """

    _works_alone = True

    def __init__(
        self,
        *topics: str | Iterable[str],
        group: str,
        listener: Listener[Received],
        bootstrap_servers: str | Sequence[str] | None = None,
        concurrency: int = 20,
        orderly: bool = False,
        suspend_ms: int = 1_000,
        consume_timeout_ms: int = 15 * 60 * 1000,
        on_error: OnError | None = None,
        start: GroupStart = "earliest",
        tags: str | Iterable[str] | None = None,
        strategy: str = "average",
        configured: Iterable[tuple[str, int]] = (),
        room: str = "",
        acknowledge_interval_ms: int = 1_000,
        max_attempts: int = 17,
        broadcast: bool = False,
        instance: str | None = None,
        deserializer: Callable[[bytes], Received] | None = None,
        on_assigned: RebalanceCallback | None = None,
        on_revoked: RebalanceCallback | None = None,
        on_lost: RebalanceCallback | None = None,
        session_timeout_ms: int = 10_000,
        release_timeout_ms: int = 30_000,
        max_bytes: int = 1024 * 1024,
        max_wait_ms: int = 500,
        check_crcs: bool = True,
        tracing: bool | TracerSource = False,
        client_id: str | None = None,
        request_timeout_ms: int = 30_000,
        retry_backoff_ms: float = 20,
        rng: random.Random | None = None,
        tls: bool | None = None,
        ca: str | Path | None = None,
        client_certificate: str | Path | None = None,
        client_key: str | Path | None = None,
        user: str | None = None,
        password: str | None = None,
        password_file: str | Path | None = None,
        token: str | None = None,
        profile: str | None = None,
    ) -> None:
        settings = settings_in(locals())
        settings |= {name: in_thread(checked_rebalance_callback(name, settings[name])) for name in _CALLBACKS}
        self._client: AsyncPushConsumer[Received] = AsyncPushConsumer(*topics, **settings)
        self._thread = started(self._client, "ledgermq-push-consumer")

    @property
    def assignment(self) -> list[TopicQueue]:
        """The queues that this member owns and has claimed, without those of the group's retry topic."""
        return self._thread.run(made(lambda: self._client.assignment))

    def wait_assigned(self, timeout_ms: float | None = None) -> list[TopicQueue]:
        """Wait until this member owns at least one queue and has claimed all queues that are assigned to it, and return
        its `assignment`. If `timeout_ms` milliseconds pass before (None: no limit), return an empty list.
        """
        return self._thread.run(self._client.wait_assigned(timeout_ms))

    def wait_closed(self) -> None:
        """Wait until the consumer is closed. If the consumer stopped by itself, raise the error that made it stop."""
        self._thread.run(self._client.wait_closed())

    def stop_reading(self) -> None:
        """Begin to stop as `close` does, and return at once. `wait_closed` returns when the consumer has stopped. Other
        threads and signal handlers can call it. See also `ledgermq.stop_on_signal`."""
        self._thread.soon(self._client.stop_reading)

    @property
    def closed(self) -> bool:
        """True if the consumer was stopped, or has stopped by itself."""
        return self._client.closed

    @property
    def member(self) -> str:
        """This member's name in the consumer group."""
        return self._client.member

    @property
    def timeouts(self) -> int:
        """The number of calls of the listener that took longer than consume_timeout_ms."""
        return self._client.timeouts

    def close(self, timeout_s: float = 30.0) -> None:
        """Stop calling the listener, wait up to `timeout_s` seconds for running calls, acknowledge the finished
        messages and leave the group. `timeout_s` does not limit the last acknowledgement, which takes up to
        `request_timeout_ms` while no leader answers. The call is idempotent.

        The listener must not call close(), because close() waits for the listener.
        """
        stopped(self._client.stop(checked_wait("timeout_s", timeout_s)), self._thread)

    def stop(self, timeout_s: float = 30.0) -> None:
        """Do the same as `close`, under the name that the asyncio clients use."""
        self.close(timeout_s)
