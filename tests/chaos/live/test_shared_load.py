"""What members of shared groups in a chaos run record. The consumer is one of the test."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import count
from pathlib import Path
from random import Random
from typing import Any, cast

import google_crc32c
import pytest

from chaos.live.load import sharing
from chaos.live.load.sharing import _Place, _Quiet
from chaos.live.load.spec import JOBS, ClientSpec
from ledger.client.records import Message
from ledger.client.shared.shared_message import SharedMessage
from ledger.errors import UnavailableError
from ledger.history import HistoryWriter, LeaseRequest, OperationOutcome, SharedReceive, read_history


def spec_of(tmp_path: Path) -> ClientSpec:
    return ClientSpec(
        role="sharers",
        first_process=9,
        bootstrap=("127.0.0.1:1",),
        nodes=(1,),
        topics=("t",),
        queues=4,
        rate=100.0,
        largest_bytes=2_000,
        delivery_timeout_ms=1,
        seed=1,
        history=str(tmp_path / "history"),
        run=1,
        shared=0.1,
    )


def job(offset: int, key: bytes | None) -> SharedMessage[bytes]:
    values = dict.fromkeys(Message._fields)
    return SharedMessage._make({**values, "queue": offset % 2, "offset": offset, "key": key}.values())


# How long before it hands a message out the consumer has asked for it.
EARLIER_S = 5.0


class Consumer:
    """Hands out `messages` messages, as many as each receive wants, and then none. `answer` is called for each request
    about a message, and returns how many counted."""

    def __init__(self, messages: int, answer: Callable[[], int]) -> None:
        self._left = [job(offset, b"key" if offset % 3 else None) for offset in range(messages)]
        self._answer = answer
        self.asked: list[str] = []

    async def receive(self, wanted: int, *, max_wait_ms: int) -> list[SharedMessage[bytes]]:
        await asyncio.sleep(0)
        some, self._left = self._left[:wanted], self._left[wanted:]
        for message in some:
            message.asked_s = asyncio.get_running_loop().time() - EARLIER_S
        return some

    async def ack(self, message: object) -> int:
        return self._ask("ack")

    async def nack(self, message: object, *, delay_ms: int) -> int:
        return self._ask("nack")

    async def extend(self, message: object, *, lease_ms: int) -> int:
        return self._ask("extend")

    def _ask(self, what: str) -> int:
        self.asked.append(what)
        return self._answer()


def lived(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, consumer: Consumer, *, over: bool) -> list[Any]:
    """Let a member live until it gets no more messages, and return what the history says. `over`: the load is over."""
    monkeypatch.setattr(sharing, "_WORK_S", 0)
    monkeypatch.setattr(sharing, "_LIVES_S", (0.2, 0.2))
    monkeypatch.setattr(sharing, "_QUIET_S", 0.1)

    async def run() -> None:
        stop = asyncio.Event()
        if over:
            stop.set()
        with HistoryWriter(tmp_path / "history") as writer:
            place = _Place(spec_of(tmp_path), writer, count(9), "s", "key", Random(3), _Quiet(stop))
            await place._live(cast("Any", consumer))

    asyncio.run(run())
    return list(read_history(tmp_path / "history"))


def test_each_message_and_each_request_is_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    consumer = Consumer(400, lambda: 1)
    history = lived(tmp_path, monkeypatch, consumer, over=False)
    receives = [line for line in history if isinstance(line, SharedReceive)]
    assert sorted(offset for line in receives for offset in line.offsets) == list(range(400))
    for line in receives:
        assert (line.topic, line.group, line.by_key, line.lease_ms) == (JOBS, "s", True, 3_000)
        assert {offset % 2 for offset in line.offsets} == {line.queue}
        assert line.keys == [google_crc32c.value(b"key") if offset % 3 else 0 for offset in line.offsets]
    changes = [line for line in history if isinstance(line, LeaseRequest)]
    assert [line.what for line in changes] == consumer.asked
    assert {line.outcome for line in changes} == {OperationOutcome.OK}
    # Some are given up, some extended, some forgotten.
    assert {"ack", "nack", "extend"} == set(consumer.asked)
    assert len({line.offset for line in changes}) < 400


def test_after_the_load_everything_is_acknowledged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    history = lived(tmp_path, monkeypatch, Consumer(50, lambda: 1), over=True)
    acks = [line.offset for line in history if isinstance(line, LeaseRequest) and line.what == "ack"]
    assert sorted(acks) == list(range(50))


def test_the_answers_to_requests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([0, 1])

    def answer() -> int:
        try:
            return next(answers)
        except StopIteration:
            raise UnavailableError("no leader") from None

    history = lived(tmp_path, monkeypatch, Consumer(4, answer), over=True)
    told = [(line.outcome, line.error) for line in history if isinstance(line, LeaseRequest)]
    assert told == [
        (OperationOutcome.FAIL, None),
        (OperationOutcome.OK, None),
        (OperationOutcome.UNKNOWN, "UnavailableError"),
        (OperationOutcome.UNKNOWN, "UnavailableError"),
    ]


def test_a_lease_may_have_begun_when_the_consumer_asked_for_the_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    history = lived(tmp_path, monkeypatch, Consumer(400, lambda: 1), over=True)
    waits_s = [(line.end - line.start) / 1e9 for line in history if isinstance(line, SharedReceive)]
    assert waits_s == pytest.approx([EARLIER_S] * len(waits_s), abs=0.5)
