"""Tests each anomaly with the smallest history that contains it, and with the same history without the anomaly."""

from __future__ import annotations

from itertools import chain
from typing import Any

import pytest

from chaos.live.checker.anomaly import KINDS
from chaos.live.checker.columns import columns_of
from chaos.live.checker.completeness import FinalReads, too_few_holders
from chaos.live.checker.verdict import HistoryVerdict, judge
from ledger.history import Operation, Poll
from tests.chaos.live.tell import (
    Q,
    assign,
    cancel,
    change,
    closed,
    crc,
    decide,
    delivered,
    delivered_at_end,
    end,
    ended,
    opened,
    poll,
    prepare,
    progress,
    reading_begins,
    received,
    revealed,
    revealed_at_end,
    schedule,
    send,
)

Tale = list[Operation | list[Any]]


def told(tale: Tale) -> HistoryVerdict:
    return judge(columns_of(chain.from_iterable(one if isinstance(one, list) else [one] for one in tale)))


def kinds(tale: Tale) -> dict[str, int]:
    return {finding.kind: finding.count for finding in told(tale).findings if finding.count}


def test_a_clean_history_is_valid() -> None:
    tale: Tale = [
        opened(),
        send(0, 0),
        send(1, 1),
        send(2, None, "fail"),
        send(2, 2),
        send(3, None, "unknown"),
        closed(),
    ]
    verdict = told([*tale, poll((0, 0), (1, 1)), poll((2, 2)), end((0, 0), (1, 1), (2, 2))])
    assert verdict.valid is True, verdict.as_json()
    assert verdict.figures["acknowledged"] == 3
    assert verdict.figures["nodes read at the end"] == 3


def test_an_unknown_send_may_be_there() -> None:
    assert told([opened(), send(0, 0), send(1, None, "unknown"), closed(), end((0, 0), (1, 1))]).valid


# The lines that a judgement of waiting messages needs besides: the histories are whole, and the final readings begin at
# offset 0.
WHOLE: list[Operation | list[Any]] = [opened(), closed(), reading_begins()]
FIVE = delivered_at_end((0, 5, 3_000))
# A transaction with two messages, in the half batches 6 and 7, is prepared.
PREPARED: list[Operation | list[Any]] = [prepare(60), prepare(70), *WHOLE]
BOTH = revealed_at_end((0, 6, 60), (1, 7, 70))
# Two messages are in the queue of a shared group, and both are acknowledged in the end. Each tale has ends of its own.
JOBS: list[Operation | list[Any]] = [send(0, 0), send(1, 1), *WHOLE, end((0, 0), (1, 1))]
SETTLED: list[Operation | list[Any]] = [change("ack", 0, at=(9_000, 9_001)), change("ack", 1, at=(9_002, 9_003))]
ROLLED_BACK: list[Operation | list[Any]] = [decide(commit=False), ended(commit=False)]
COMMITTED: list[Operation | list[Any]] = [decide(commit=True), ended(commit=True)]

ANOMALIES: dict[str, list[Tale]] = {
    "lost": [
        [send(0, 0), send(1, 1), end((0, 0))],
        [send(0, 0), end()],  # all of it
        [send(0, 0), send(1, None, "unknown"), poll((0, 0), (1, 1)), end((0, 0))],  # once seen it must stay
    ],
    "duplicate": [
        [send(0, 0), end((0, 0), (1, 0))],
        [send(0, 0), send(1, None, "unknown"), poll((0, 0), (1, 1)), end((0, 0), (1, 1), (2, 1))],
    ],
    "phantom": [
        [opened(), send(0, 0), closed(), end((0, 0), (1, 7))],  # of a producer that told of all that it sent
        [send(0, 0), poll((1, 0), producer=Q), end((0, 0))],  # of nobody
    ],
    "aborted read": [
        [send(0, 0), send(1, None, "fail"), poll((1, 1)), end((0, 0), (1, 1))],
    ],
    "payload mixed up": [
        [send(0, 0), poll((0, 0), payloads=[7]), end((0, 0))],
    ],
    "inconsistent offset": [
        [send(0, 0), send(1, 0, at=(0, 5)), end((0, 0))],
        [send(0, 0), send(1, None, "unknown"), poll((0, 1)), end((0, 0))],
        [send(0, 0), poll((0, 0), payloads=[7]), end((0, 0))],
    ],
    "reordered": [
        [send(0, 1, at=(0, 5)), send(1, 0, at=(0, 5)), end((0, 1), (1, 0))],
        [send(0, 0, epoch=1), send(1, 1), poll(), end()],
    ],
    "internal poll skip": [
        [send(0, 0), send(1, 1), send(2, 2), poll((0, 0), (2, 2)), end((0, 0), (1, 1), (2, 2))],
    ],
    "internal non-monotonic poll": [
        [send(0, 0), send(1, 1), poll((1, 1), (0, 0)), end((0, 0), (1, 1))],
        [send(0, 0), poll((0, 0), (0, 0)), end((0, 0))],
    ],
    "external poll skip": [
        [send(0, 0), send(1, 1), send(2, 2), poll((0, 0)), poll((2, 2)), end((0, 0), (1, 1), (2, 2))],
        [send(0, 0), send(1, 1), send(2, 2), assign(0), poll((0, 0)), poll((2, 2)), end((0, 0), (1, 1), (2, 2))],
    ],
    "external non-monotonic poll": [
        [send(0, 0), send(1, 1), poll((0, 0), (1, 1)), poll((1, 1)), end((0, 0), (1, 1))],
    ],
    "non-monotonic send": [
        [send(0, 1, at=(0, 50)), send(1, 0, at=(10, 50)), end((0, 1), (1, 0))],
    ],
    "real-time order": [
        [send(0, 1, at=(0, 5)), send(0, 0, at=(10, 15), producer=Q), end((1, 0)), *end((0, 0))],
        # Of unknown outcome, but a read tells where it lies.
        [send(0, 1, at=(0, 5)), send(0, None, "unknown", producer=Q, at=(10, 15)), poll((0, 0), producer=Q)],
        # Known by a read.
        [send(0, 1, at=(0, 50)), poll((1, 0), at=(10, 20)), send(0, 0, producer=Q, at=(30, 40))],
    ],
    "divergence": [
        [send(0, 0), send(1, 1), *end((0, 0), (1, 1), nodes=(1, 2)), *end((1, 1), nodes=(3,))],  # and nothing says why
        [send(0, 0), send(1, 1), *end((0, 0), (1, 1), nodes=(1, 2)), *end((0, 0), nodes=(3,))],
        [send(0, 0), *end((0, 0), nodes=(1, 2)), *end(nodes=(3,))],  # nothing at all
        [send(0, 0), send(1, None, "unknown"), *end((0, 0), nodes=(1, 2)), *end((0, 1), nodes=(3,))],
    ],
    "offset regression": [
        [send(0, 0), end((0, 0)), progress(1, 0, 5), progress(0, 6, 9)],
    ],
    "early delivery": [
        # By the date that the leader gave.
        [schedule(5, 3_000), *WHOLE, delivered((0, 5, 3_000), dated=2_900, at=3_100), FIVE],
        # By the time at which a client had it.
        [schedule(5, 3_000), *WHOLE, delivered((0, 5, 3_000), at=2_900), FIVE],
        # Without an answer: known by its value.
        [schedule(None, 3_000, "unknown", payload=crc(5)), *WHOLE, delivered((0, 5, 3_000), at=2_900), FIVE],
    ],
    "repeated delivery": [
        [schedule(5, 3_000), *WHOLE, delivered_at_end((0, 5, 3_000), (1, 5, 3_000))],
        # One value with two identities: a schedule that was appended twice.
        [
            schedule(5, 3_000),
            *WHOLE,
            delivered_at_end((0, 5, 3_000), (1, 6, 3_000), payloads=[crc(5), crc(5)]),
        ],
        [
            schedule(None, 3_000, "unknown", payload=77),
            *WHOLE,
            delivered_at_end((0, 5, 3_000), (1, 6, 3_000), payloads=[77, 77]),
        ],
    ],
    "cancelled delivery": [
        [schedule(5, 3_000), cancel(5, 3_000), *WHOLE, FIVE],
        # Seen by one reader, before the cancel.
        [schedule(5, 3_000), delivered((0, 5, 3_000), at=3_001), cancel(5, 3_000), *WHOLE, FIVE],
    ],
    "lost delivery": [
        [schedule(5, 3_000), *WHOLE, delivered_at_end()],
        [schedule(5, 3_000), *WHOLE, opened(Q, process=7), delivered_at_end()],  # another producer was killed
        [schedule(5, 3_000), schedule(6, 3_000), cancel(6, 3_000), *WHOLE, delivered_at_end()],
        [schedule(5, 3_000), cancel(5, 3_000, shard=4), *WHOLE, delivered_at_end()],  # a message of another shard
    ],
    "altered delivery": [
        [schedule(5, 3_000), *WHOLE, delivered_at_end((0, 5, 3_000), payloads=[7])],
        [schedule(5, 3_000), *WHOLE, delivered_at_end((0, 5, 4_000))],
    ],
    "phantom delivery": [
        [schedule(5, 3_000), *WHOLE, delivered_at_end((0, 5, 3_000), (1, 9, 3_000))],
        [schedule(5, 3_000, queue=1), *WHOLE, FIVE],  # in another queue than it was sent for
    ],
    "aborted delivery": [
        [schedule(None, 3_000, "fail", payload=crc(5)), *WHOLE, FIVE],
    ],
    "reordered delivery": [
        [schedule(5, 3_000), schedule(6, 3_000), *WHOLE, delivered_at_end((0, 6, 3_000), (1, 5, 3_000))],
    ],
    "lost commit": [
        [*PREPARED, *COMMITTED, revealed_at_end((0, 6, 60))],
        [*PREPARED, *COMMITTED, revealed_at_end()],
        # The producer got no answer, or died. Every checker says that it is to be committed.
        [*PREPARED, decide(commit=True), ended("unknown", commit=True), revealed_at_end()],
        [*PREPARED, decide(commit=True), revealed_at_end((1, 7, 70))],
        # A value of another transaction is not the message.
        [*PREPARED, *COMMITTED, revealed_at_end((0, 6, 60)), revealed_at_end((1, 7, 70), number=8)],
    ],
    "torn commit": [
        # Programs that disagree: it ends in one of the two ways, and not in both.
        [*PREPARED, decide(commit=True), decide(commit=False, at=12), revealed_at_end((0, 6, 60))],
        [*PREPARED, *ROLLED_BACK, revealed_at_end((0, 6, 60))],
    ],
    "repeated commit": [
        [*PREPARED, *COMMITTED, revealed_at_end((0, 6, 60), (1, 7, 70), (2, 6, 60))],
        # One value in two half batches: a message that was prepared twice.
        [*PREPARED, *COMMITTED, revealed_at_end((0, 6, 60), (1, 7, 70), (2, 8, 60))],
    ],
    "visible rollback": [
        [*PREPARED, *ROLLED_BACK, BOTH],
        # Seen by one reader, before the rollback.
        [*PREPARED, revealed((0, 6, 60), at=6), *ROLLED_BACK, revealed_at_end()],
        # Decided by the answer to a check.
        [*PREPARED, decide(commit=False), BOTH],
        # A message whose send has no answer: the transaction cannot be committed.
        [prepare(60), prepare(70, None, "unknown"), *WHOLE, *ROLLED_BACK, revealed_at_end((0, 7, 70))],
        # A client was told that it was rolled back, whatever anybody decided.
        [*PREPARED, decide(commit=True), decide(commit=False), ended(commit=False), BOTH],
    ],
    "early commit": [
        [*PREPARED, revealed((0, 6, 60), at=9), *COMMITTED, BOTH],
        [*PREPARED, BOTH],  # nobody decided
    ],
    "phantom commit": [
        [*PREPARED, *COMMITTED, revealed_at_end((0, 6, 60), (1, 7, 70), (2, 8, 80))],
        [*PREPARED, *COMMITTED, BOTH, revealed_at_end((0, 8, 70), queue=1)],  # in another queue
        [*PREPARED, *COMMITTED, revealed_at_end((0, 6, 60), (1, 7, 71))],  # with other bytes
    ],
    "two outcomes": [
        [*PREPARED, *COMMITTED, ended(commit=False), BOTH],
        # The cluster says that the transaction was rolled back, and nobody decided so.
        [*PREPARED, decide(commit=True), ended("fail", commit=True), revealed_at_end()],
        [*PREPARED, decide(commit=False), ended("fail", commit=False), revealed_at_end()],
    ],
    "leased twice": [
        [*JOBS, received((0, 0), at=(0, 5)), received((0, 0), at=(2_000, 2_900), process=21), *SETTLED],
        # By two receives at the same time.
        [*JOBS, received((0, 0), at=(0, 5)), received((0, 0), at=(0, 6), process=21), *SETTLED],
        # By the same member.
        [*JOBS, received((0, 0), at=(0, 5)), received((0, 0), at=(10, 20)), *SETTLED],
        # The lease was extended.
        [
            *JOBS,
            received((0, 0), at=(0, 5)),
            change("extend", 0, at=(2_000, 2_001)),
            received((0, 0), at=(4_000, 4_500), process=21),
            *SETTLED,
        ],
        # Another member's request ends no lease.
        [
            *JOBS,
            received((0, 0), at=(0, 5)),
            change("nack", 0, "fail", at=(10, 11), process=22),
            received((0, 0), at=(20, 25), process=21),
            *SETTLED,
        ],
    ],
    "consumed twice": [
        [
            *JOBS,
            received((0, 0), (1, 0), at=(0, 5)),
            change("ack", 0, at=(10, 11)),
            change("ack", 1, at=(10, 11)),
            received((0, 0), at=(20, 25), process=21),
        ],
        # An acknowledgement that counted although the lease had ended.
        [
            *JOBS,
            received((0, 0), (1, 0), at=(0, 5)),
            change("ack", 0, at=(5_000, 5_001)),
            received((0, 0), at=(6_000, 6_001), process=21),
            change("ack", 1, at=(5_000, 5_001)),
        ],
    ],
    "key order": [
        [*JOBS, received((0, 7), (1, 7), at=(0, 5)), *SETTLED],
        [*JOBS, received((1, 7), at=(0, 5)), received((0, 7), at=(6, 7)), *SETTLED],
        # The message before was given up, and waits for its next attempt.
        [
            *JOBS,
            received((0, 7), at=(0, 5)),
            change("nack", 0, at=(6, 7)),
            received((1, 7), at=(8, 9)),
            received((0, 7), at=(10, 11)),
            *SETTLED,
        ],
        # It was never acknowledged.
        [*JOBS, received((0, 7), at=(0, 5)), received((1, 7), at=(4_000, 4_001)), change("ack", 1, at=(4_002, 4_003))],
    ],
    "unsettled": [
        [*JOBS, received((0, 0), (1, 0), at=(0, 5)), change("ack", 0, at=(6, 7))],
        [*JOBS, received((0, 0), at=(0, 5)), change("ack", 0, at=(6, 7))],  # never received
        # Consumed by another group.
        [
            *JOBS,
            received((0, 0), (1, 0), at=(0, 5)),
            *SETTLED,
            received((0, 0), at=(0, 5), group="other"),
            change("ack", 0, at=(6, 7), group="other"),
        ],
    ],
}


def test_every_kind_has_a_tale() -> None:
    assert list(ANOMALIES) == list(KINDS)


@pytest.mark.parametrize(("kind", "tale"), [(kind, tale) for kind, tales in ANOMALIES.items() for tale in tales])
def test_it_is_found(kind: str, tale: Tale) -> None:
    found = kinds(tale)
    assert kind in found, found
    assert told(tale).valid is False


ALLOWED: dict[str, Tale] = {
    "a killed producer may have sent more than it told": [opened(), send(0, 0), end((0, 0), (1, 1))],
    "a consumer that seeks goes where it likes": [
        send(0, 0),
        send(1, 1),
        poll((0, 0), (1, 1)),
        assign(0),
        poll((0, 0)),
        end((0, 0), (1, 1)),
    ],
    "two consumers read the same": [send(0, 0), poll((0, 0)), poll((0, 0), process=3), end((0, 0))],
    "sends at the same time come in any order": [
        send(0, 1, at=(0, 50)),
        send(0, 0, at=(0, 50), producer=Q),
        *[poll((0, 0), producer=Q, process=100 + node, node=node, final=True) for node in (1, 2, 3)],
        end((1, 0)),
    ],
    "a number that was refused is given again, and tells nothing of where the refused message lies": [
        send(0, 0, at=(0, 5)),
        send(1, None, "fail", at=(20, 25), payload=77),
        send(1, 1, at=(10, 15)),
        send(2, 2, at=(16, 18)),
        end((0, 0), (1, 1), (2, 2)),
    ],
    "what goes round has no promised order": [
        send(0, 1, at=(0, 50), queue=0, epoch=1, bound=False),
        send(5, 0, at=(10, 50), bound=False),
        [poll((0, 5), process=100 + node, node=node, final=True) for node in (1, 2, 3)],
        [
            Poll(100 + node, "t", 0, [1], ["000000000000000a"], [1], [0], [crc(0)], node, True, 10_002, 10_003)
            for node in (1, 2, 3)
        ],
    ],
    "a number that was refused is given again": [
        send(0, 0),
        send(1, None, "fail", payload=77),
        send(1, 1),
        end((0, 0), (1, 1)),
    ],
    "what retention let go is not lost": [
        send(0, 0),
        send(1, 1),
        *(assign(1, process=100 + node) for node in (1, 2, 3)),
        end((1, 1)),
    ],
    "what one node let go another may still have": [
        send(0, 0),
        send(1, 1),
        *end((0, 0), (1, 1), nodes=(1, 2)),
        assign(1, process=103),
        *end((1, 1), nodes=(3,)),
    ],
    "a waiting message is delivered at its time": [
        schedule(5, 3_000),
        schedule(6, 3_000),
        *WHOLE,
        delivered((0, 5, 3_000), at=3_000),
        delivered_at_end((0, 5, 3_000), (1, 6, 3_000)),
    ],
    "a time that has passed is delivered at once": [schedule(5, -60_000), *WHOLE, delivered_at_end((0, 5, -60_000))],
    "a cancelled message is not delivered": [schedule(5, 3_000), cancel(5, 3_000), *WHOLE, delivered_at_end()],
    "a cancel that came too late": [schedule(5, 3_000), cancel(5, 3_000, "fail"), *WHOLE, FIVE],
    "an earlier attempt of a cancel may have cancelled": [
        schedule(5, 3_000),
        cancel(5, 3_000, "fail"),
        *WHOLE,
        delivered_at_end(),
    ],
    "a cancel without an answer may have cancelled": [
        schedule(5, 3_000),
        cancel(5, 3_000, "unknown"),
        *WHOLE,
        delivered_at_end(),
    ],
    "a message whose schedule has no answer is delivered, or not": [
        schedule(None, 3_000, "unknown", payload=crc(5)),
        schedule(None, 3_000, "unknown", payload=crc(6)),
        *WHOLE,
        FIVE,
    ],
    "a message that is not due at the end": [schedule(5, 30_000), *WHOLE, delivered_at_end()],
    "what retention let go was delivered before": [
        schedule(5, 3_000),
        opened(),
        closed(),
        reading_begins(offset=1),
        delivered_at_end(),
    ],
    "a killed producer may have sent more waiting messages than it told": [
        schedule(5, 3_000),
        opened(),
        reading_begins(),
        delivered_at_end((0, 5, 3_000), (1, 9, 3_000)),
    ],
    "a killed producer may have cancelled": [schedule(5, 3_000), opened(), reading_begins(), delivered_at_end()],
    "later identities with earlier times come first": [
        schedule(5, 3_000),
        schedule(6, 2_000),
        *WHOLE,
        delivered_at_end((0, 6, 2_000), (1, 5, 3_000)),
    ],
    "a committed transaction": [*PREPARED, *COMMITTED, revealed((0, 6, 60), at=10), BOTH],
    "a commit without an answer, of a producer that was killed": [
        prepare(60),
        opened(),
        reading_begins(),
        decide(commit=True),
        ended("unknown", commit=True),
        decide(commit=True, at=4_000),
        revealed_at_end((0, 6, 60)),
    ],
    "a transaction that was rolled back": [*PREPARED, *ROLLED_BACK, revealed_at_end()],
    "a transaction about which nobody said anything": [*PREPARED, revealed_at_end()],
    "a transaction that was decided after the final reading had begun": [
        *PREPARED,
        decide(commit=True, at=19_001),
        revealed_at_end(),
    ],
    "programs that disagree end it in one way": [
        *PREPARED,
        decide(commit=True),
        decide(commit=False, at=12),
        ended("fail", commit=False),
        BOTH,
    ],
    "a refused rollback of a transaction that a checker has committed": [
        *PREPARED,
        decide(commit=True),
        decide(commit=False),
        ended("fail", commit=False),
        BOTH,
    ],
    "equal values of two transactions": [
        *PREPARED,
        prepare(60, 8, name="y"),
        *COMMITTED,
        decide(commit=False, name="y"),
        BOTH,
    ],
    "what retention let go was committed before": [
        prepare(60),
        opened(),
        closed(),
        reading_begins(offset=1),
        *COMMITTED,
        revealed_at_end(),
    ],
    "messages of a shared group": [
        *JOBS,
        received((0, 7), (1, 8), at=(0, 5)),
        *SETTLED,
    ],
    "a lease ends, and the message comes again": [
        *JOBS,
        received((0, 7), at=(0, 5)),
        received((0, 7), at=(2_000, 3_001), process=21),
        change("ack", 0, "fail", at=(3_500, 3_501)),
        change("ack", 0, at=(3_600, 3_601), process=21),
        received((1, 7), at=(3_602, 3_603)),
        *SETTLED,
    ],
    "a message comes again at once after it was given up": [
        *JOBS,
        received((0, 7), at=(0, 5)),
        change("nack", 0, at=(6, 7), ms=0),
        received((0, 7), at=(7, 8), process=21),
        received((1, 0), at=(7, 8), process=21),
        *SETTLED,
    ],
    "an acknowledgement without an answer may have counted, or not": [
        *JOBS,
        received((0, 7), (1, 8), at=(0, 5)),
        change("ack", 0, "unknown", at=(6, 7)),
        received((0, 7), at=(3_100, 3_101), process=21),
        change("ack", 1, "unknown", at=(6, 7)),
    ],
    "a receive that began before the acknowledgement": [
        *JOBS,
        received((0, 7), (1, 8), at=(0, 5)),
        received((0, 7), at=(2_000, 3_002), process=21),
        change("ack", 0, at=(3_003, 3_004)),
        change("ack", 1, at=(3_003, 3_004)),
    ],
    "equal keys in a group without order, and messages without keys": [
        *JOBS,
        received((0, 7), (1, 7), at=(0, 5), by_key=False),
        received((0, 0), (1, 0), at=(0, 5), group="ordered"),
        *SETTLED,
        change("ack", 0, at=(6, 7), group="ordered"),
        change("ack", 1, at=(6, 7), group="ordered"),
    ],
    "two groups have the same messages": [
        *JOBS,
        received((0, 7), (1, 8), at=(0, 5)),
        received((0, 7), (1, 8), at=(0, 5), group="other"),
        *SETTLED,
        change("ack", 0, at=(6, 7), group="other"),
        change("ack", 1, at=(6, 7), group="other"),
    ],
    "the next message of a key at once after the acknowledgement was asked for": [
        *JOBS,
        received((0, 7), at=(0, 5)),
        change("ack", 0, at=(6, 20)),
        received((1, 7), at=(5, 8), process=21),
        *SETTLED,
    ],
    "answers at the same time may differ": [send(0, 0), end((0, 0)), progress(1, 0, 5), progress(0, 4, 9)],
    "an epoch begins at 0 again": [
        opened(),
        send(0, 0),
        send(1, 1),
        send(0, 2, epoch=1, at=(20, 25), payload=55),
        end((0, 0), (1, 1)),
        *[
            Poll(100 + node, "t", 0, [2], ["000000000000000a"], [1], [0], [55], node, True, 10_002, 10_003)
            for node in (1, 2, 3)
        ],
    ],
}


@pytest.mark.parametrize("what", ALLOWED)
def test_it_is_allowed(what: str) -> None:
    assert kinds(ALLOWED[what]) == {}


def test_a_history_that_proves_nothing_is_void() -> None:
    assert told([]).valid is None
    verdict = told([send(0, 0)])
    assert verdict.valid is None
    assert verdict.void == ("these queues were not read to their end: t:0",)


def test_a_queue_that_was_not_read_from_a_node_is_not_compared_with_this_node() -> None:
    sent: list[Operation] = [opened(), send(0, 0), send(1, 0, queue=1), closed()]
    columns = columns_of([*sent, *end((0, 0)), *end((0, 1), queue=1, nodes=(1, 2))])
    verdict = judge(columns, reads=FinalReads((1, 2, 3), {"t": 2}))
    assert (verdict.valid, verdict.anomalies) == (None, 0)
    assert verdict.void == ("the final readings of node 3 are missing for t:1",)


def test_a_queue_must_be_read_from_the_nodes_that_have_a_replica() -> None:
    sent: list[Operation] = [opened(), send(0, 0), send(1, 0, queue=1), closed()]
    columns = columns_of([*sent, *end((0, 0), nodes=(1, 2)), *end((0, 1), queue=1, nodes=(2, 3))])

    def void(*holders: tuple[int, ...]) -> tuple[str, ...]:
        return judge(columns, reads=FinalReads((1, 2, 3), {"t": 2}, {"t": holders})).void

    assert void((1, 2), (2, 3)) == ()
    assert void((1, 2, 3), (2, 3)) == ("the final readings of node 3 are missing for t:0",)
    assert void((1, 2), (1, 2, 3)) == ("the final readings of node 1 are missing for t:1",)


def test_a_queue_with_too_few_replicas_is_named() -> None:
    assert too_few_holders({"t": ((1, 2, 3), (1, 2))}, 3) == "fewer than 3 nodes have a replica of t:1"
    assert too_few_holders({"t": ((1, 2, 3), (1, 2))}, 2) == ""


def test_too_little_is_void() -> None:
    columns = columns_of([send(0, 0), *end((0, 0))])
    assert judge(columns, least_acknowledged=1).valid is True
    assert judge(columns, least_acknowledged=2).valid is None


def test_a_history_with_too_few_messages_of_transactions_is_void() -> None:
    columns = columns_of([send(0, 0), *end((0, 0)), prepare(60)])
    assert judge(columns).valid is True
    verdict = judge(columns, least_revealed=1)
    assert verdict.void == ("messages of committed transactions: 0; a verdict needs at least 1",)


def test_a_history_with_too_few_acknowledgements_of_shared_groups_is_void() -> None:
    columns = columns_of([send(0, 0), *end((0, 0)), received((0, 7), at=(0, 5)), change("ack", 0, "fail", at=(6, 7))])
    assert judge(columns).valid is True
    verdict = judge(columns, least_shared=1)
    assert verdict.void == ("messages acknowledged by shared groups: 0; a verdict needs at least 1",)
    told = {name: value for name, value in verdict.figures.items() if "shared" in name or name == "leases"}
    assert told == {"messages of shared groups": 1, "leases": 1, "messages acknowledged by shared groups": 0}


def test_the_figures_of_transactions() -> None:
    verdict = told([*PREPARED, *COMMITTED, prepare(80, 8, name="y"), decide(commit=False, name="y"), BOTH])
    figures = {name: value for name, value in verdict.figures.items() if "transactions" in name}
    assert figures == {
        "transactions": 2,
        "transactions committed": 1,
        "transactions rolled back": 0,
        "transactions left to a check": 1,
        "messages of committed transactions": 2,
    }


def test_examples_are_few_and_counts_are_whole() -> None:
    sent = [send(number, number) for number in range(100)]
    verdict = told([*sent, end((0, 0))])
    (lost,) = (finding for finding in verdict.findings if finding.kind == "lost")
    assert lost.count == 99
    assert len(lost.shown) == 20
    assert lost.shown[0].sentence == "000000000000000a/0/1 was at t:0:1, and is not in that queue at the end"
    assert lost.shown[0].operations == (1,)


def test_payloads_differ_in_these_tales() -> None:
    assert crc(0) != crc(1)


def test_sentences_have_no_doubled_commas() -> None:
    sentences = [
        anomaly.sentence
        for tales in ANOMALIES.values()
        for tale in tales
        for finding in told(tale).findings
        for anomaly in finding.shown
    ]
    assert sentences
    assert [sentence for sentence in sentences if ",," in sentence or ", ," in sentence] == []
