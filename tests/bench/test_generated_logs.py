"""The logs that `bench.judging.generated_logs` writes have what their names say, and are valid."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.judging.generated_logs import LOGS, SEGMENT_BYTES
from bench.judging.replicas import write_replicas
from ledger.state import State
from ledger.validation.judging.plain_engine import PlainEngine
from ledger.validation.replay.replay import Replay
from ledger.validation.report.report import VALID
from ledger.validation.validate import validate

pytestmark = pytest.mark.long
MESSAGES = 2_000


def written(name: str, directory: Path) -> list[str]:
    return write_replicas(directory, lambda filler: LOGS[name](filler, MESSAGES), SEGMENT_BYTES, linked=True)


@pytest.mark.parametrize("name", LOGS)
def test_a_generated_log_is_valid(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    states: list[State] = []
    finish = Replay.finish

    def finished(replay: Replay) -> None:
        assert replay._state is not None
        states.append(replay._state)
        finish(replay)

    monkeypatch.setattr(Replay, "finish", finished)
    report = validate(written(name, tmp_path), PlainEngine())
    assert (report.violations, report.not_judged, report.status) == ((), (), VALID)
    for state in states:
        if name == "transactions":
            assert not state.transactions.waiting
            assert len(state.transactions.outcomes) == MESSAGES
        else:
            (group,) = [group for _, group in state.shared.leases]
            assert [window.begin for window in group.windows.values()] == [MESSAGES // 4] * 4
