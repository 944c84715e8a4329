"""Compares the replies that requesters get with what responders did.

    requester:  asks ─────────────────────────────────────────> replied | failed | gave_up
    log:              request is committed        reply is committed
    responder:                    handles ─> answers

The value of a request names the request. A handler answers with a value that names the request, itself, and the number
of this call, so no two calls of a handler give the same answer. The world knows each step from the programs and from
the log, and asks no node and no client.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from chaos.sim.stack.workload_history import name_of
from ledger.batch import Batch
from ledger.broker.access.proofs import REFUSED
from store import EntryKind, Header

Fail = Callable[[str, str], None]
REQUESTS, REPLIES = "requests", "replies"
# How much later than its time limit a call may end, in seconds.
LATE_S = 0.1
_REQUEST, _REPLY = b"request ", b"reply "


@dataclass(slots=True)
class AskedRequest:
    """What is known of one request."""

    value: bytes
    # When the call must have ended, in seconds of simulated time.
    until_s: float
    is_over: bool = False
    # Queue and offset in the topic of the requests; None: it is not committed.
    place: tuple[int, int] | None = None
    # What handlers returned, and the errors with which they failed.
    answers: set[bytes] = field(default_factory=set)
    errors: set[str] = field(default_factory=set)
    # How many calls of a handler have begun.
    calls: int = 0


class RequestTruth:
    """All requests of one run. `fail(invariant, what)` records a violation, and `time()` is the simulated time in
    seconds. `first_offset(topic, queue)` is the first offset that the log still has."""

    def __init__(self, fail: Fail, time: Callable[[], float], first_offset: Callable[[str, int], int]) -> None:
        self.counts = Counter[str]()
        # Called with the number of a responder: when its handler has a request, and when its handler returns.
        self.on_call: Callable[[int], None] = lambda responder: None
        self.on_answer: Callable[[int], None] = lambda responder: None
        self._fail = fail
        self._time = time
        self._first_offset = first_offset
        self._requests: dict[bytes, AskedRequest] = {}

    # -- requesters

    def asks(self, requester: int, payload: bytes, timeout_s: float) -> bytes:
        """Record that a requester begins a request with this payload. Return the value of the request."""
        name = b"%s%d.%d" % (_REQUEST, requester, len(self._requests))
        value = name + b":" + payload
        self._requests[name] = AskedRequest(value, self._time() + timeout_s)
        return value

    def replied(self, request: bytes, reply: bytes) -> None:
        """Compare the reply that a requester got."""
        asked = self._ends(request)
        if reply not in asked.answers:
            told = f"{name_of(request)!r} got {reply[:60]!r}, and its handlers answered {len(asked.answers)} times"
            self._fail("a reply is an answer to its request", told)
        self.counts["requests_answered"] += 1

    def failed(self, request: bytes, error: str) -> None:
        """Compare the error of a handler that a requester got."""
        asked = self._ends(request)
        if not any(known in error for known in asked.errors) and not _password_changed(asked, error):
            told = f'{name_of(request)!r} got "{error}", and its handlers failed with {sorted(asked.errors)}'
            self._fail("a failure is one of a handler of the request", told)
        self.counts["requests_failed"] += 1

    def gave_up(self, request: bytes) -> None:
        """Record that a call ended without a reply."""
        self._ends(request)
        self.counts["requests_without_reply"] += 1

    def _ends(self, request: bytes) -> AskedRequest:
        asked = self._requests[name_of(request)]
        asked.is_over = True
        late_s = self._time() - asked.until_s
        if late_s > LATE_S:
            self._fail("a request ends in its time", f"{name_of(request)!r} ended {late_s:.3f} s after its time limit")
        return asked

    # -- responders

    def handles(self, responder: int, request: bytes) -> int:
        """Compare a request that a handler was called with. Return the number of this call for this request."""
        asked = self._requests.get(name_of(request))
        if asked is None or asked.value != request or asked.place is None:
            told = f"responder {responder} was called with {request[:60]!r}, which is {asked}"
            self._fail("a handler gets what was asked", told)
            return 0
        asked.calls += 1
        self.counts["requests_handled"] += 1
        self.counts["requests_handled_again"] += asked.calls > 1
        self.on_call(responder)
        return asked.calls

    def answers(self, responder: int, request: bytes, call: int, payload: bytes) -> bytes:
        """Record that a handler returns an answer with this payload. Return the answer."""
        answer = b"%sto %s by %d in call %d:%s" % (_REPLY, name_of(request), responder, call, payload)
        self._requests[name_of(request)].answers.add(answer)
        self.on_answer(responder)
        return answer

    def errs(self, responder: int, request: bytes, error: str) -> None:
        """Record that a handler ends with this error, or that its answer can only be told as this error."""
        self._requests[name_of(request)].errors.add(error)
        self.on_answer(responder)

    # -- the log

    def committed(self, header: Header, body: bytes) -> None:
        """Follow the next committed entry of a shard."""
        if header.kind is not EntryKind.BATCH:
            return
        for offset, value in enumerate(Batch(body).values(), header.base_offset):
            if value.startswith(_REQUEST):
                self._request_committed(value, (header.queue, offset))
            elif value.startswith(_REPLY):
                self._reply_committed(value)

    def _request_committed(self, value: bytes, place: tuple[int, int]) -> None:
        asked = self._requests[name_of(value)]
        if asked.place is not None:
            self._fail("a request is sent once", f"{name_of(value)!r} is at {asked.place} and at {place}")
        asked.place = place

    def _reply_committed(self, value: bytes) -> None:
        if not any(value in asked.answers for asked in self._requests.values()):
            self._fail(
                "a reply is an answer to its request", f"{value[:60]!r} is in the log, and no handler returned it"
            )
        self.counts["replies_committed"] += 1

    # -- the end

    def unsettled(self) -> Iterator[str]:
        """Yield a phrase if requests are open, and a phrase if requests were not handled."""
        if open_requests := sum(not asked.is_over for asked in self._requests.values()):
            yield f"{open_requests} requests have not ended"
        if waiting := sum(
            asked.place is not None and self._waits(asked, *asked.place) for asked in self._requests.values()
        ):
            yield f"{waiting} requests are in the log and were never handled"

    def _waits(self, asked: AskedRequest, queue: int, offset: int) -> bool:
        return not asked.calls and offset >= self._first_offset(REQUESTS, queue)


def _password_changed(asked: AskedRequest, error: str) -> bool:
    """Return True if a handler answered, and its responder told instead that the cluster refused the password under
    which it sent the answer. The simulator changes the password of responders while they run (sim_access.py)."""
    return bool(asked.answers) and "the reply cannot be sent" in error and REFUSED in error
