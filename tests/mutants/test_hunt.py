"""Tests that a hunt that is stopped leaves no process behind, and what its exit status says."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cluster.waiter import blocking_eventually
from tests.mutants import hunt
from tests.mutants.catalogue import ROOT, Mutant

HUNT = (sys.executable, "-m", "tests.mutants.hunt", "--only", "no pre vote", "--jobs", "2")


def children_of(process: int) -> list[int]:
    """Return all processes that `process` has started, and that they have started."""
    parents = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            after_name = status.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has just ended
        parents[int(status.parent.name)] = int(after_name[1])
    found = [process]
    for each in found:
        found += [child for child, parent in parents.items() if parent == each]
    return found[1:]


def is_worker(process: int) -> bool:
    try:
        return b"spawn_main" in Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return False


def has_ended(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


@pytest.mark.real
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM], ids=lambda how: how.name)
def test_a_hunt_that_is_stopped_ends_its_workers(how: signal.Signals) -> None:
    with subprocess.Popen(HUNT, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}) as hunting:
        try:
            blocking_eventually(lambda: sum(map(is_worker, children_of(hunting.pid))) >= 2, "two workers run")
            started = children_of(hunting.pid)
            hunting.send_signal(how)
            assert hunting.wait(timeout=20) != 0
            blocking_eventually(lambda: all(map(has_ended, started)), "all its processes have ended")
        finally:
            hunting.kill()


@pytest.mark.parametrize(
    ("reason", "hole", "status"), [("an invariant", "", 0), ("", "", 1), ("", "no run waits so long", 0)]
)
def test_the_status_says_whether_a_mutant_got_away_that_has_no_hole(
    reason: str, hole: str, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutant = Mutant("a door left open", "stack", (), hole=hole)
    monkeypatch.setattr(hunt, "mutants", lambda: [mutant])
    monkeypatch.setattr(hunt, "hunt", lambda mutant, seeds, jobs: hunt.Catch(mutant.name, reason, 7))
    assert hunt.main.callback is not None
    with pytest.raises(SystemExit) as ended:
        hunt.main.callback(only=(), seeds=300, jobs=1, holes=True)
    assert ended.value.code == status


def test_a_seed_that_proves_nothing_catches_no_mutant() -> None:
    void = {"seed": 1, "reason": "requested faults never had an effect: wipe", "void": True}
    failed = {"seed": 2, "reason": "2 ms: Election Safety: two leaders", "void": False}
    assert hunt.failure_of({"failures": [void]}) == ""
    assert hunt.failure_of({"failures": [void, failed]}) == failed["reason"]


@pytest.mark.parametrize("calm", ["", "each message shows it"])
def test_only_a_mutant_that_says_so_may_break_without_faults(calm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = {"failures": [{"seed": 1, "reason": "delivered as it was sent", "void": False}], "seeds": 1}
    monkeypatch.setattr(hunt, "copy_of_the_code", lambda directory: None)
    monkeypatch.setattr(hunt, "simulate", lambda directory, *options: broken)
    mutant = Mutant("a message with a wrong value", "stack", (), calm=calm)
    if calm:
        assert hunt.hunt(mutant, "1..300", 1) == hunt.Catch(mutant.name, "delivered as it was sent", 1)
    else:
        with pytest.raises(RuntimeError, match="breaks without any fault"):
            hunt.hunt(mutant, "1..300", 1)
