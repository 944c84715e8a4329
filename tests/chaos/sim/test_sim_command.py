"""`ledgermq sim`: exit status, output, interrupting and resuming a campaign, and repeating a failure."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from chaos.sim.campaign import command, run
from chaos.sim.campaign.campaign import run_seeds
from chaos.sim.campaign.run import SeedReport
from chaos.sim.campaign.swarm import Wishes
from chaos.sim.protocol.log import SimLog
from chaos.sim.reach.places import PLACES
from cluster.cli import main

pytestmark = pytest.mark.real

QUICK = ("--minutes", "0.2", "--jobs", "1")


@pytest.fixture(autouse=True)
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def sim(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["sim", *arguments])
    assert isinstance(ended.value.code, int)
    return ended.value.code


def test_seeds_that_pass(capsys: pytest.CaptureFixture[str]) -> None:
    assert sim("--seeds", "1..3", *QUICK) == 0
    out, err = capsys.readouterr()
    assert re.search(r"^seeds +3$", out, re.MULTILINE)
    assert re.search(r"^acknowledged +[1-9]", out, re.MULTILINE)
    assert re.search(r"^fault: \w+ +[1-9]", out, re.MULTILINE)
    assert re.search(r"3 of 3 seeds, .* simulated hours \(\d+\.\d+ a second\)", err)


def test_json_is_one_object_and_nothing_else_on_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    assert sim("--seeds", "1,2", "--faults", "none", "--json", *QUICK) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["passed"] is True
    assert told["seeds"] == 2
    assert told["happened"] == {}
    assert told["figures"]["acknowledged"] > 0
    assert told["commit"]


def test_the_places_that_were_reached_are_told_and_a_missing_one_fails_the_campaign(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wanted = next(each for each in PLACES if each.name == "election: a log that is not up to date gets no vote")
    nowhere = replace(wanted, name="election: never", when="False", protocol=2)
    monkeypatch.setattr(command, "PLACES", (replace(wanted, protocol=1), nowhere))
    assert sim("--seeds", "1", "--minutes", "1", "--jobs", "1", "--reach") == 0
    assert sim("--seeds", "1..2", "--minutes", "1", "--jobs", "1", "--reach", "--resume", "ledger.jsonl") == 1
    out, err = capsys.readouterr()
    assert "place 'election: never' was never reached, and 2 seeds are enough to reach it" in err
    assert "not reached (1): election: never" in err
    assert re.search(r"^reached: election +1 of 2 places$", out, re.MULTILINE)
    assert re.search(r"^election: a log that is not up to date gets no vote +\d+ +2 +1 \(\d+\.\d s\), 2 \(", out, re.M)
    assert sim("--seeds", "1..2", "--minutes", "1", "--resume", "ledger.jsonl", "--json") == 1
    told = json.loads(capsys.readouterr().out)
    assert told["never_reached"] == ["election: never"]
    assert told["reached"][wanted.name]["seeds"] == 2
    assert [first["seed"] for first in told["reached"][wanted.name]["first"]] == [1, 2]


def broken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replaces the power cut by one that also loses flushed entries."""
    power_lost = SimLog.power_lost

    def forgets(self: SimLog, random: Random) -> str:
        self.flushed //= 2
        return power_lost(self, random)

    monkeypatch.setattr(SimLog, "power_lost", forgets)


def test_a_failure_is_told_shortened_and_can_be_seen_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    broken(monkeypatch)
    arguments = ("--minutes", "1", "--nodes", "3", "--faults", "power_cut_all,kill")
    assert sim("--seeds", "1..40", "--jobs", "1", "--until-failure", *arguments) == 1
    err = capsys.readouterr().err
    seed = re.search(r"seed (\d+) at \S.*: \d+ ms: ", err)
    assert seed is not None
    again = f"ledgermq sim --world protocol --seeds {seed[1]} --minutes 1 --nodes 3 --faults power_cut_all,kill"
    assert f"  to repeat this run: {again}\n" in err
    shortened = re.search(r"fails with (\d+) of (\d+) fault events", err)
    assert shortened is not None
    assert 1 <= int(shortened[1]) <= int(shortened[2])
    schedule = f"sim-protocol-{seed[1]}.schedule"
    assert f"  to repeat this run: {again} --schedule {schedule}\n" in err
    assert sim("--seeds", seed[1], *arguments, "--schedule", schedule) == 1
    err = capsys.readouterr().err
    assert "power_cut_all" in err


def test_the_replayed_schedule_passes_once_the_fault_is_mended(capsys: pytest.CaptureFixture[str]) -> None:
    Path("one.schedule").write_text('[4000, "power_cut_all", {"for_ms": 100, "chance": 1}]\n')
    assert sim("--seeds", "3", "--minutes", "0.5", "--schedule", "one.schedule") == 0
    assert "power_cut_all for_ms=100" in capsys.readouterr().err


def test_an_asked_for_fault_that_never_happens_is_no_pass(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "run_seeds", lambda seeds, wishes, jobs: (run.run(seed, wishes, ()) for seed in seeds))
    assert sim("--seeds", "1", "--faults", "kill", *QUICK) == 1
    assert "requested faults never had an effect: kill" in capsys.readouterr().err
    assert sim("--seeds", "1..2", "--faults", "kill", "--until-failure", "--json", *QUICK) == 1
    told = json.loads(capsys.readouterr().out)
    assert (told["seeds"], [each["void"] for each in told["failures"]]) == (2, [True, True])


def test_a_ledger_lets_a_campaign_go_on(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    ran: list[Sequence[int]] = []
    whole = run_seeds

    def spied(seeds: list[int], *rest: object) -> object:
        ran.append(seeds)
        return whole(seeds, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(command, "run_seeds", spied)
    assert sim("--seeds", "1..2", "--resume", "ledger.jsonl", *QUICK) == 0
    assert sim("--seeds", "1..4", "--resume", "ledger.jsonl", *QUICK) == 0
    assert ran == [[1, 2], [3, 4]]
    assert re.search(r"^seeds +4$", capsys.readouterr().out.split("what ")[-1], re.MULTILINE)
    assert sim("--seeds", "1..4", "--nodes", "5", "--resume", "ledger.jsonl", *QUICK) == 2
    assert "another campaign" in capsys.readouterr().err


def test_an_interrupt_keeps_what_was_done(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted(seeds: list[int], wishes: object, jobs: int) -> object:
        yield run.run(seeds[0], wishes)  # type: ignore[arg-type]
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "run_seeds", interrupted)
    assert sim("--seeds", "1..9", "--resume", "ledger.jsonl", *QUICK) == 1
    assert "stopped" in capsys.readouterr().err
    assert len([line for line in Path("ledger.jsonl").read_text().splitlines() if '"seed"' in line]) == 1


@pytest.mark.parametrize(
    "wrong",
    [
        ("--seeds", "x"),
        ("--faults", "earthquake"),
        ("--world", "real"),
        ("--minutes", "0"),
        ("--nodes", "12"),
        ("--jobs", "0"),
        ("--schedule", "missing"),
        ("--accept-loss", "--world", "stack"),
    ],
)
def test_wrong_usage_is_told(wrong: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert sim(*wrong) == 2
    assert wrong[0].strip("-") in capsys.readouterr().err


def test_a_schedule_belongs_to_one_seed(capsys: pytest.CaptureFixture[str]) -> None:
    Path("one.schedule").write_text("")
    assert sim("--seeds", "1..2", "--schedule", "one.schedule") == 2
    assert "--seeds" in capsys.readouterr().err


def test_reports_are_values() -> None:
    assert isinstance(run.run(1, Wishes(minutes=0.1, faults=())), SeedReport)
