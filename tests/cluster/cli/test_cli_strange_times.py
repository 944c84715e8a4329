"""Commands print messages whose producers gave a timestamp that has no date."""

from __future__ import annotations

import pytest

from cluster.cli.messages import trace as command
from cluster.cli.options import moment_text
from ledger.client.admin.message_trace import MessageTrace
from ledger.message_trace import TracedEntry

SENT_MS, APPENDED_MS = 1 << 61, 1_800_000_000_000


def test_a_time_without_a_date_is_a_number() -> None:
    assert moment_text(APPENDED_MS) == "2027-01-15T08:00:00.000Z"
    assert [moment_text(ms) for ms in (SENT_MS, -SENT_MS)] == [f"{SENT_MS} ms", f"{-SENT_MS} ms"]


def test_a_message_with_a_timestamp_of_no_date_is_traced(capsys: pytest.CaptureFixture[str]) -> None:
    entry = TracedEntry(3, 1, APPENDED_MS, 1, 7, 0, 0, SENT_MS)
    command._print(MessageTrace("orders", 0, 5, 1, None, entry, (), ()))
    printed = capsys.readouterr().out
    assert moment_text(APPENDED_MS) in printed
    assert f"{SENT_MS} ms" in printed
