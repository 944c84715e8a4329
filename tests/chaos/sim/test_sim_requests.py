"""The simulator's judgement of requests and replies: what it must call wrong, and runs in which responders die."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from chaos.sim.campaign.run import run
from chaos.sim.campaign.swarm import Wishes
from chaos.sim.requests.request_truth import REQUESTS, RequestTruth
from ledger.batch import encode
from ledger.broker.access.proofs import REFUSED
from store import EntryKind, Header

REQUESTER, RESPONDER = 7, 1


class Log:
    """A log of requests and replies, as the model sees it, and what the model calls wrong."""

    def __init__(self) -> None:
        self.wrong: list[str] = []
        self.now_s = 10.0
        self.first_offset = 0
        self.truth = RequestTruth(
            lambda invariant, _: self.wrong.append(invariant),
            lambda: self.now_s,
            lambda topic, queue: self._first(topic),
        )
        self._end = 0

    def _first(self, topic: str) -> int:
        return self.first_offset if topic == REQUESTS else 0

    def ask(self, *, sent: bool = True) -> bytes:
        """Ask a request that may wait 2 s for its reply."""
        value = self.truth.asks(REQUESTER, b"payload", 2.0)
        if sent:
            self.commit(value)
        return value

    def commit(self, value: bytes) -> None:
        body = encode([value], topic_id=1, queue=0, producer_id=1, epoch=0, first_sequence=0, base_timestamp_ms=0)
        header = SimpleNamespace(kind=EntryKind.BATCH, topic_id=1, queue=0, base_offset=self._end)
        self._end += 1
        self.truth.committed(cast(Header, header), body)

    def answer(self, request: bytes) -> bytes:
        """Handle a request, and return the answer."""
        call = self.truth.handles(RESPONDER, request)
        return self.truth.answers(RESPONDER, request, call, b"42")


@pytest.fixture
def log() -> Log:
    return Log()


def test_requests_that_are_answered_as_they_should(log: Log) -> None:
    first, second, late = log.ask(), log.ask(), log.ask()
    answers = [log.answer(first), log.answer(second), log.answer(first)]
    for answer in answers:
        log.commit(answer)
    log.truth.replied(second, answers[1])
    log.truth.replied(first, answers[2])
    log.truth.handles(RESPONDER, late)
    log.truth.errs(RESPONDER, late, "no price")
    log.now_s += 2.0
    log.truth.failed(late, 'The responder of topic "requests" failed: ValueError: no price')
    assert list(log.truth.unsettled()) == []
    assert log.wrong == []


def test_a_reply_to_another_request(log: Log) -> None:
    first, second = log.ask(), log.ask()
    log.answer(first)
    log.truth.replied(first, log.answer(second))
    assert log.wrong == ["a reply is an answer to its request"]


def test_a_reply_that_no_handler_returned(log: Log) -> None:
    request = log.ask()
    invented = log.answer(request) + b" and more"
    log.commit(invented)
    log.truth.replied(request, invented)
    assert log.wrong == ["a reply is an answer to its request"] * 2


def test_a_failure_of_the_handler_of_another_request(log: Log) -> None:
    first, second = log.ask(), log.ask()
    for request in (first, second):
        log.truth.handles(RESPONDER, request)
    log.truth.errs(RESPONDER, second, "no price")
    log.truth.failed(first, "no price")
    assert log.wrong == ["a failure is one of a handler of the request"]


@pytest.mark.parametrize("answered", [True, False])
def test_an_answer_that_was_sent_under_an_old_password(log: Log, answered: bool) -> None:
    request = log.ask()
    if answered:
        log.answer(request)
    log.truth.failed(request, f"the reply cannot be sent: {REFUSED}")
    assert log.wrong == ([] if answered else ["a failure is one of a handler of the request"])


def test_a_request_that_is_not_in_the_log(log: Log) -> None:
    request = log.ask(sent=False)
    log.truth.handles(RESPONDER, request)
    log.truth.handles(RESPONDER, b"request 7.99:unknown")
    assert log.wrong == ["a handler gets what was asked"] * 2


def test_a_request_with_another_value(log: Log) -> None:
    log.truth.handles(RESPONDER, log.ask() + b"!")
    assert log.wrong == ["a handler gets what was asked"]


def test_a_request_that_is_in_the_log_twice(log: Log) -> None:
    log.commit(log.ask())
    assert log.wrong == ["a request is sent once"]


@pytest.mark.parametrize("late_s", [0.0, 1.0])
def test_a_call_that_ends_too_late(log: Log, late_s: float) -> None:
    request = log.ask()
    log.now_s += 2.0 + late_s
    log.truth.gave_up(request)
    assert log.wrong == (["a request ends in its time"] if late_s else [])


def test_requests_that_are_open_or_were_never_handled(log: Log) -> None:
    request = log.ask()
    assert list(log.truth.unsettled()) == [
        "1 requests have not ended",
        "1 requests are in the log and were never handled",
    ]
    log.truth.gave_up(request)
    assert list(log.truth.unsettled()) == ["1 requests are in the log and were never handled"]
    log.first_offset = 1  # it was trimmed
    assert list(log.truth.unsettled()) == []


@pytest.mark.long
def test_responders_die() -> None:
    """The fault kind has an effect, and the run is right: other responders answer, and no reply is mixed up."""
    found = run(3, Wishes(world="stack", minutes=0.5, faults=("responder_ends", "transfer", "isolate")))
    assert found.reason == ""
    assert found.happened["responder_ends"] > 0
    assert found.figures["requests_answered"] > 20
    assert found.figures["requests_handled_again"] > 0
