"""What `ledgermq mirror` tells at its end."""

from __future__ import annotations

import json

import pytest

from cluster.cli.mirror.copy_report import CopyReport
from ledger.mirror.copy_tally import CopyTally


def test_the_last_trouble_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    tally = CopyTally()
    tally.note_trouble("the source has no topic 'orders', so nothing of it is copied")
    CopyReport(tally, began_s=0.0, monotonic_s=lambda: 1.0, now_ms=lambda: 0).show("json")
    printed = capsys.readouterr()
    assert json.loads(printed.out)["last_trouble"] == tally.trouble
    assert "last trouble: the source has no topic 'orders'" in " ".join(printed.err.split())
