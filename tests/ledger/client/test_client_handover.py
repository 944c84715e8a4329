"""The line in which messages of other threads wait for the event loop's thread."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import ledgermq
from ledger.client.producer.producer_batch import Acknowledged
from ledger.client.sync import handover, loop_thread
from ledger.client.sync.handover import Handover, MessageFuture, MessageReceipt
from ledger.client.sync.loop_thread import LoopThread
from ledger.errors import BufferFullError, ClosedError, InvalidArgumentError, LedgerError, MessageTooLargeError
from tests.ledger.client.fake_broker import FakeBroker, FakeCluster

pytestmark = pytest.mark.real

DEADLINE_S = 20


class CountingThread(LoopThread):
    """Counts how often the event loop was woken for the line."""

    wakes = 0

    def soon(self, call: Callable[[], object]) -> None:
        self.wakes += 1
        super().soon(call)


@pytest.fixture
def thread() -> Iterator[CountingThread]:
    thread = CountingThread("handover")
    yield thread
    thread.close()


class Blocked:
    """Holds the event loop until `go` is set."""

    def __init__(self, thread: LoopThread) -> None:
        self.go = threading.Event()
        self._there = threading.Event()
        LoopThread.soon(thread, self._hold)
        assert self._there.wait(DEADLINE_S)

    def _hold(self) -> None:
        self._there.set()
        assert self.go.wait(DEADLINE_S)


def accepting(receipt: MessageReceipt, topic: str, number: int) -> None:
    receipt.acknowledged(0, number, 1, Acknowledged(number, 1, 5, duplicate=False))


def test_a_line_wakes_the_event_loop_once_and_keeps_its_order(thread: CountingThread) -> None:
    seen: list[int] = []

    def accept(receipt: MessageReceipt, topic: str, number: int) -> None:
        seen.append(number)
        accepting(receipt, topic, number)

    line = Handover(thread, accept)
    blocked = Blocked(thread)
    futures = [line.put(1, "t", (number,)) for number in range(1000)]
    assert thread.wakes == 1
    blocked.go.set()
    assert [future.result(DEADLINE_S).offset for future in futures] == list(range(1000))
    assert seen == list(range(1000))


@pytest.mark.parametrize(("size", "fits"), [(1, handover.MAX_LINE_MESSAGES), (handover.MAX_LINE_BYTES // 4, 4)])
def test_a_full_line_holds_the_program_until_it_is_taken(thread: CountingThread, size: int, fits: int) -> None:
    line = Handover(thread, accepting)
    blocked = Blocked(thread)
    for number in range(fits):
        line.put(size, "t", (number,))
    passed = threading.Event()

    def put() -> None:
        line.put(size, "t", (fits,)).result(DEADLINE_S)
        passed.set()

    program = threading.Thread(target=put)
    program.start()
    assert not passed.wait(0.05)
    assert len(line) == fits
    blocked.go.set()
    assert passed.wait(DEADLINE_S)
    program.join()


def test_a_program_that_waits_for_room_learns_that_the_client_closes(thread: CountingThread) -> None:
    line = Handover(thread, accepting)
    blocked = Blocked(thread)
    futures = [line.put(1, "t", (number,)) for number in range(handover.MAX_LINE_MESSAGES)]
    closing = threading.Thread(target=thread.close)
    closing.start()
    while thread.alive:
        pass
    with pytest.raises(ClosedError):
        line.put(1, "t", (0,))
    blocked.go.set()
    closing.join()
    assert all(future.done() for future in futures), "what was in the line is not forgotten"


def test_a_message_that_comes_while_the_event_loop_ends_gets_an_error(thread: CountingThread) -> None:
    futures: list[MessageFuture] = []

    def put() -> None:
        futures.append(line.put(1, "t", (len(futures),)))

    def accept(receipt: MessageReceipt, topic: str, number: int) -> None:
        """Accept a message while another thread sends the next one, so that no line that is taken is the last."""
        assert number < 1000, "the event loop does not end"
        sending = threading.Thread(target=put)
        sending.start()
        sending.join()
        accepting(receipt, topic, number)

    line = Handover(thread, accept)
    blocked = Blocked(thread)
    put()
    closing = threading.Thread(target=thread.close)
    closing.start()
    while thread.alive:
        pass
    blocked.go.set()
    closing.join()
    *accepted, late = futures
    assert [future.result(DEADLINE_S).offset for future in accepted] == list(range(len(accepted)))
    assert isinstance(late.exception(DEADLINE_S), ClosedError)
    with pytest.raises(ClosedError):
        line.put(1, "t", (0,))


@pytest.mark.parametrize("in_the_middle_of", ["soon", "check_open"])
def test_a_signal_handler_may_close_the_client_in_the_middle_of_a_call(
    thread: CountingThread, in_the_middle_of: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a signal handler runs, the call that it interrupted stands still. So the handler calls close() here from
    inside `put`. close() returns when the event loop has ended."""
    line = Handover(thread, accepting)
    blocked = Blocked(thread)
    futures: list[MessageFuture] = []
    if in_the_middle_of == "check_open":  # while `put` waits for room
        futures += [line.put(1, "t", (number,)) for number in range(handover.MAX_LINE_MESSAGES)]
    interrupted = getattr(thread, in_the_middle_of)

    def handler(*arguments: Any) -> None:
        monkeypatch.undo()
        blocked.go.set()
        thread.close()
        interrupted(*arguments)

    monkeypatch.setattr(thread, in_the_middle_of, handler)
    ended = threading.Event()

    def send() -> None:
        with contextlib.suppress(ClosedError):
            futures.append(line.put(1, "t", (0,)))
        ended.set()

    threading.Thread(target=send, daemon=True).start()
    assert ended.wait(DEADLINE_S), "the handler waits for ever"
    assert futures
    assert all(future.done() for future in futures), "each message has its result or an error"


def test_a_signal_handler_may_send_and_wait_in_the_middle_of_a_call(
    thread: CountingThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The interrupted call has put its message into the line, and has not asked the event loop to come."""
    line = Handover(thread, accepting)
    interrupted = thread.soon
    offsets: list[int] = []

    def handler(call: Callable[[], object]) -> None:
        monkeypatch.undo()
        offsets.append(line.put(1, "t", (2,)).result(DEADLINE_S).offset)
        interrupted(call)

    monkeypatch.setattr(thread, "soon", handler)
    assert line.put(1, "t", (1,)).result(DEADLINE_S).offset == 1
    assert offsets == [2]


def test_a_message_whose_call_was_interrupted_holds_up_no_other(
    thread: CountingThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = Handover(thread, accepting)

    def interrupted(_: Callable[[], object]) -> None:
        monkeypatch.undo()
        raise KeyboardInterrupt

    monkeypatch.setattr(thread, "soon", interrupted)
    with pytest.raises(KeyboardInterrupt):
        line.put(1, "t", (1,))
    assert line.put(1, "t", (2,)).result(DEADLINE_S).offset == 2


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_callback_that_ends_the_event_loop_leaves_no_call_without_a_result(
    thread: CountingThread, caplog: pytest.LogCaptureFixture
) -> None:
    line = Handover(thread, accepting)
    waiting = ThreadPoolExecutor(1).submit(thread.run, asyncio.sleep(1000))
    blocked = Blocked(thread)
    first = line.put(1, "t", (0,))
    first.add_done_callback(lambda _: sys.exit())
    rest = [line.put(1, "t", (number,)) for number in range(1, 10)]
    blocked.go.set()
    assert [future.result(DEADLINE_S).offset for future in rest] == list(range(1, 10)), "they were in the line before"
    assert isinstance(waiting.exception(DEADLINE_S), ClosedError)
    assert "raised SystemExit() on the thread of a client, which is closed now" in caplog.text
    with pytest.raises(ClosedError):
        thread.run(asyncio.sleep(0))


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # Python 3.12 warns of forks of threads
def test_a_child_process_does_not_wait_for_a_thread_of_its_parent(thread: CountingThread) -> None:
    """At the fork, a thread that does not exist in the child process holds the lock."""
    held, go = threading.Event(), threading.Event()

    def hold() -> None:
        with thread._lock:
            held.set()
            assert go.wait(DEADLINE_S)

    holder = threading.Thread(target=hold)
    holder.start()
    assert held.wait(DEADLINE_S)
    child = os.fork()
    if not child:
        try:
            thread.run(asyncio.sleep(0))
        except ClosedError:
            os._exit(0)
        finally:
            os._exit(1)
    go.set()
    holder.join()
    end, ended = time.monotonic() + DEADLINE_S, (0, 0)
    while ended == (0, 0) and time.monotonic() < end:
        ended = os.waitpid(child, os.WNOHANG)
        time.sleep(0.01)
    if ended == (0, 0):
        os.kill(child, signal.SIGKILL)
    assert ended == (child, 0)


def test_no_message_is_forgotten_when_several_threads_send(thread: CountingThread) -> None:
    seen: list[tuple[int, int]] = []

    def accept(receipt: MessageReceipt, topic: str, sender: int, number: int) -> None:
        seen.append((sender, number))
        accepting(receipt, topic, number)

    line = Handover(thread, accept)

    def send(sender: int) -> None:
        futures = [line.put(1, "t", (sender, number)) for number in range(5_000)]
        assert [future.result(DEADLINE_S).offset for future in futures] == list(range(5_000))

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(send, range(4)))
    for sender in range(4):
        assert [number for one, number in seen if one == sender] == list(range(5_000))
    assert len(line) == 0


def test_a_callback_may_send_although_the_line_is_full(thread: CountingThread) -> None:
    seen: list[int] = []

    def accept(receipt: MessageReceipt, topic: str, number: int) -> None:
        seen.append(number)
        accepting(receipt, topic, number)

    line = Handover(thread, accept)
    many = handover.MAX_LINE_MESSAGES + 10
    last: list[Any] = []

    def send_more(_: object) -> None:
        last.extend(line.put(1, "t", (number,)) for number in range(1, many))

    first = line.put(1, "t", (0,))
    first.add_done_callback(send_more)
    assert first.result(DEADLINE_S).offset == 0
    thread.run(asyncio.sleep(0))
    assert [future.result(DEADLINE_S).offset for future in last] == list(range(1, many))
    assert seen == list(range(many))


def test_a_cancelled_future_gets_no_result_and_harms_nobody(thread: CountingThread) -> None:
    line = Handover(thread, accepting)
    blocked = Blocked(thread)
    futures = [line.put(1, "t", (number,)) for number in range(3)]
    assert futures[1].cancel()
    blocked.go.set()
    assert [futures[place].result(DEADLINE_S).offset for place in (0, 2)] == [0, 2]
    assert futures[1].cancelled()


# --- with a producer -------------------------------------------------------------------------------------------------


@pytest.fixture
async def broker() -> AsyncIterator[FakeBroker]:
    cluster = FakeCluster()
    cluster.create("t", 1)
    broker = FakeBroker(1, cluster)
    await broker.start()
    yield broker
    await broker.stop()


@pytest.fixture
def cluster(broker: FakeBroker) -> FakeCluster:
    return broker.cluster


async def test_ctrl_c_while_the_producer_closes_leaves_no_future_without_an_error(
    broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a thread that waits for a result would keep the program from ending."""
    broker.silent = True

    def interrupted(_: object) -> None:
        time.sleep(0.2)  # close() waits for the results
        monkeypatch.undo()
        raise KeyboardInterrupt

    def work() -> None:
        one = ledgermq.Producer(list(broker.cluster.addresses.values()))
        futures = [one.send_nowait("t", b"%d" % number) for number in range(10)]
        monkeypatch.setattr(loop_thread._Call, "result", interrupted)
        with pytest.raises(KeyboardInterrupt):
            one.close()
        assert all(isinstance(future.exception(DEADLINE_S), LedgerError) for future in futures)

    await asyncio.to_thread(work)


async def test_errors_come_through_the_future(cluster: FakeCluster) -> None:
    def work() -> None:
        with ledgermq.Producer(list(cluster.addresses.values()), buffer_bytes=10_000) as one:
            one.send("t", b"first")
            wrong: list[tuple[Any, type[Exception]]] = [
                (bytes(10_001), MessageTooLargeError),
                ("text", InvalidArgumentError),
            ]
            for value, error in wrong:
                with pytest.raises(error):
                    one.send_nowait("t", value).result(DEADLINE_S)
            futures = [one.send_nowait("t", bytes(3000)) for _ in range(200)]
            errors = [future.exception(DEADLINE_S) for future in futures]
            assert errors[:3] == [None, None, None]
            assert {type(error) for error in errors if error is not None} == {BufferFullError}
        with pytest.raises(ClosedError):
            one.send_nowait("t", b"late")

    await asyncio.to_thread(work)


async def test_send_nowait_send_and_flush_keep_their_order(cluster: FakeCluster) -> None:
    def work() -> None:
        with ledgermq.Producer(list(cluster.addresses.values())) as one:
            futures = [one.send_nowait("t", b"%04d" % number, key=b"k") for number in range(3000)]
            assert one.send("t", b"last", key=b"k").offset == 3000
            more = one.send_nowait("t", b"more", key="k")
            one.flush()
            assert more.done()
            assert [future.result().offset for future in futures] == list(range(3000))
            left = one.send_nowait("t", b"left")
        assert left.result().offset == 3002, "close() sends what was handed over"

    await asyncio.to_thread(work)
    assert cluster.values("t", 0)[:3000] == [b"%04d" % number for number in range(3000)]


UNCLOSED = """
import sys
from ledgermq import Producer
one = Producer(sys.argv[1])
one.send_nowait("t", b"1")
if len(sys.argv) > 2:
    one.close()
"""


@pytest.mark.parametrize(("answers", "is_closed"), [(False, False), (True, True)])
async def test_a_program_that_ends_before_its_messages_are_sent_is_told(
    broker: FakeBroker, answers: bool, is_closed: bool
) -> None:
    broker.silent = not answers
    (address,) = broker.cluster.addresses.values()
    arguments = [sys.executable, "-c", UNCLOSED, address, *["close"] * is_closed]
    ended = await asyncio.create_subprocess_exec(*arguments, stderr=asyncio.subprocess.PIPE)
    _, said = await asyncio.wait_for(ended.communicate(), DEADLINE_S)
    assert ended.returncode == 0
    assert (b"the program ends with an open Producer, some of whose messages" in said) == (not is_closed), said
