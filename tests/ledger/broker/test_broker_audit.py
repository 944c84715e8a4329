"""The bound on the lines of the audit log that a user without rights can cause."""

from __future__ import annotations

import pytest

from ledger.broker.access.audit import INTERVAL_S, MAX_REFUSED, AuditLog
from ledger.broker.access.callers import Caller
from ledger.v1 import broker_pb2

MALLORY, ALICE = Caller("mallory"), Caller("alice")


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level("INFO", logger="ledgermq.audit")
    return caplog


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def refuse(audit: AuditLog, caller: Caller) -> None:
    audit.record_refused(caller, "ipv4:127.0.0.1:1", "DeleteTopic", broker_pb2.DeleteTopicRequest(), "no right")


def test_refused_acts_of_one_user_do_not_fill_the_log(lines: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    audit = AuditLog(clock)
    for _ in range(MAX_REFUSED + 40):
        refuse(audit, MALLORY)
    assert len(lines.messages) == MAX_REFUSED
    refuse(audit, ALICE)
    assert lines.messages[-1].startswith("alice from"), "each user has its own bound"
    clock.now_s += INTERVAL_S
    refuse(audit, MALLORY)
    assert lines.messages[-2:] == [
        "mallory: 40 more refused acts were left out",
        "mallory from ipv4:127.0.0.1:1: DeleteTopic : no right",
    ]


def test_acts_with_a_right_are_always_recorded(lines: pytest.LogCaptureFixture) -> None:
    audit = AuditLog(Clock())
    for _ in range(2 * MAX_REFUSED):
        audit.record(ALICE, "ipv4:127.0.0.1:1", "DeleteTopic", broker_pb2.DeleteTopicRequest(), "")
    assert len(lines.messages) == 2 * MAX_REFUSED


def test_the_users_that_are_counted_are_bounded(lines: pytest.LogCaptureFixture) -> None:
    audit = AuditLog(Clock())
    for number in range(1_500):
        refuse(audit, Caller(f"user-{number}"))
    assert len(audit._refused) == 1_000
