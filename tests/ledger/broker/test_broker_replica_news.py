"""What an operator is told about one replica, and how often."""

from __future__ import annotations

from pathlib import Path

import pytest

from ledger.broker.node_events import NodeEvents
from ledger.broker.replica_news import ReplicaNews
from store.errors import DiskFailedError, NoSpaceError

DATA = Path("/data")


def test_a_full_disk_is_told_once_however_many_files_do_not_fit(caplog: pytest.LogCaptureFixture) -> None:
    """The node tries to write again each second, each time a file with another name."""
    events = NodeEvents()
    news = ReplicaNews(0, events)
    for _ in range(2):
        for number in range(5):
            news.writes_failed(NoSpaceError(DATA / str(number)))
        news.writes_work()
    news.writes_failed(NoSpaceError(DATA / "9"))
    news.writes_failed(DiskFailedError(DATA, "Input/output error"))
    told = [message.partition(": no writes on this node: ")[2] for message in caplog.messages if "no writes" in message]
    full = "No space is left on the disk of /data"
    assert [each.partition(". ")[0] for each in told] == [
        f"{full}/0", f"{full}/0", f"{full}/9", "The disk of /data failed: Input/output error",
    ]  # fmt: skip
    assert len(events.after(0)) == 6, "also when writes work again"
