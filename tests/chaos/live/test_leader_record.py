"""A run whose leaders were not recorded proves nothing about Election Safety. No node starts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import cast
from unittest.mock import Mock

import pytest

from chaos.errors import ChaosError
from chaos.live.hosts.environment import NodeEnvironment
from chaos.live.leaders import LeaderWatch
from chaos.live.promise import RunPromise, promised_files
from chaos.live.run import _Run
from chaos.live.run_file import RunFile
from tests.chaos.live.written_run import CLIENTS, NODES, OPTIONS, SECOND, verdict, write_run

NOT_CHECKED = "no leader was recorded, so Election Safety was not checked"


class BrokenEnvironment:
    """An environment that does not know its nodes."""

    @property
    def nodes(self) -> Sequence[int]:
        raise RuntimeError("no nodes")


def test_an_error_that_ends_the_record_is_raised_when_the_record_is_stopped(tmp_path: Path) -> None:
    watch = LeaderWatch(cast(NodeEnvironment, BrokenEnvironment()), tmp_path / "leaders.jsonl")
    watch.start()
    watch._thread.join(10)
    with pytest.raises(ChaosError, match=r"leaders\.jsonl is not whole: .*RuntimeError\('no nodes'\)"):
        watch.stop()
    watch.abandon()  # a run that fails does so without a further error


def test_a_record_that_never_began_is_no_error(tmp_path: Path) -> None:
    LeaderWatch(cast(NodeEnvironment, BrokenEnvironment()), tmp_path / "leaders.jsonl").stop()


def test_a_run_whose_record_ended_with_an_error_is_not_made() -> None:
    run = _Run.__new__(_Run)
    run._options, run._environment, run._audience, run._clients = OPTIONS, Mock(nodes=[]), Mock(), Mock()
    run._operator = Mock(holders=Mock(return_value={}))
    run._watch = Mock(stop=Mock(side_effect=ChaosError("leaders.jsonl is not whole")))
    with pytest.raises(ChaosError, match=r"leaders\.jsonl is not whole"):
        run.read_to_the_end()
    run._clients.finish.assert_called_once()


@pytest.mark.parametrize("lines", [None, [], [{"at": 0, "leaders": {}}]], ids=["no file", "empty", "no leader"])
def test_a_run_without_any_recorded_leader_proves_nothing(tmp_path: Path, lines: list[object] | None) -> None:
    out = write_run(tmp_path)
    (out / "leaders.jsonl").unlink()
    if lines is not None:
        (out / "leaders.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    promise = RunPromise(promised_files(out, CLIENTS), NODES, {"t": 2}, 1)
    RunFile(OPTIONS, 0, 20 * SECOND, "", promise).save(out)
    found = verdict(out)
    assert (found.valid, found.void) == (None, (NOT_CHECKED,))
