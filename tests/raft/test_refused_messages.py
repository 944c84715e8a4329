"""Refused messages are counted, and at most one a minute is logged."""

from __future__ import annotations

import pytest

from raft.core import InvalidMessage
from raft.transport.refused_messages import RefusedMessages


def test_one_line_a_minute_is_logged_and_says_how_many_were_not(caplog: pytest.LogCaptureFixture) -> None:
    now = [100.0]
    refused = RefusedMessages(lambda: now[0])
    for at in (100.0, 100.1, 130.0, 161.0):
        now[0] = at
        refused.add(InvalidMessage(7, "term 9"), "control stream of node 7")
    assert refused.count == 4
    assert [record.getMessage() for record in caplog.records] == [
        "closed the control stream of node 7: node 7 sent a message that no correct node sends: term 9",
        "closed the control stream of node 7: node 7 sent a message that no correct node sends: term 9; "
        "2 other messages were refused since the last such line",
    ]
