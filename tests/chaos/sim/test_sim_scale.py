"""The scale world: all scenarios in a small cluster, the same run for the same seed, and faults that it must find."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from chaos.sim.scale import scenarios
from chaos.sim.scale.least import least_moves_to_balance, least_to_balance, least_to_leave
from chaos.sim.scale.options import BLOCK_BYTES, GROW, RESTART, ROOM, SCENARIOS, SHRINK, ScaleOptions
from chaos.sim.scale.scale_run import ScaleReport, ScaleRun
from cluster.cli import main
from ledger.broker.members.members import MemberChanges
from ledger.broker.placement import keeper
from ledger.broker.placement.keeper import PlacementKeeper
from ledger.broker.placement.plan import _Planner

SMALL: dict[str, Any] = {
    "nodes": 12, "shards": 30, "topics": 40, "consumers": 400, "rooms": 4, "change": 3, "megabytes": 60,
}  # fmt: skip


def run(seed: int = 1, **options: Any) -> ScaleReport:
    return ScaleRun(seed, ScaleOptions(**{**SMALL, **options})).run()


@pytest.fixture(scope="module")
def report() -> ScaleReport:
    return run()


def test_all_scenarios_hold(report: ScaleReport) -> None:
    assert report.reason == ""
    assert [each.scenario for each in report.figures] == ["start", *SCENARIOS]


def test_no_more_than_the_least_moves(report: ScaleReport) -> None:
    figures = {each.scenario: each for each in report.figures}
    assert figures[RESTART].bytes_moved == figures[RESTART].moves == 0
    for scenario in (SHRINK, ROOM):
        assert figures[scenario].bytes_moved == figures[scenario].least_bytes > 0
    for scenario in (GROW, SHRINK, ROOM):
        assert figures[scenario].least_moves <= figures[scenario].moves <= figures[scenario].least_moves + 5
    assert figures[GROW].replicas_differ <= 1


def test_a_restart_hands_all_leaderships_over(report: ScaleReport) -> None:
    """Each leadership goes to another node before the restart, and comes back after it."""
    figures = report.figures[1]
    assert figures.elections >= 2 * 31
    assert figures.most_leaderless == 0


def test_the_control_plane_is_counted(report: ScaleReport) -> None:
    """Thirty leaders send heartbeats to two followers each, and shard 0 to eleven, ten times a second; each is
    answered."""
    restart = report.figures[1]
    expected = 2 * 10 * (30 * 2 + 11) / 12
    assert expected * 0.9 < restart.raft_messages.mean < expected * 1.1
    assert restart.raft_bundles.mean < restart.raft_messages.mean < restart.raft_messages.most
    assert restart.heartbeats.mean == pytest.approx(400 / 3 / 12, rel=0.1)


@pytest.mark.long
def test_the_same_seed_gives_the_same_run(report: ScaleReport) -> None:
    assert run().digest == report.digest
    assert run(2, scenarios=()).digest != run(1, scenarios=()).digest


@pytest.mark.long
def test_shards_that_sleep_give_the_same_run() -> None:
    """To skip the shards in which nothing happens changes neither an event nor a figure."""
    fast, exact = (run(nodes=9, shards=12, rooms=3, scenarios=(RESTART, GROW), exact=exact) for exact in (False, True))
    assert fast.digest == exact.digest
    for one, other in zip(fast.figures, exact.figures, strict=True):
        assert one.raft_messages.mean == pytest.approx(other.raft_messages.mean, rel=0.02)
        assert one.raft_bundles.mean == pytest.approx(other.raft_bundles.mean, rel=0.03)


def test_a_cluster_with_many_shards_is_looked_at_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """A look asks the leaders of all 31 shards, and takes one step of each move."""
    monkeypatch.setattr(keeper, "ASKED_PER_S", 10)
    grown = run(scenarios=(GROW,)).figures[-1]
    moving = SMALL["nodes"] + SMALL["change"]
    assert grown.keeper_calls.most <= 10 * (1 + moving / 31)
    assert grown.moves > 10


def test_the_least_is_a_lower_bound_by_hand() -> None:
    world = ScaleRun(1, ScaleOptions(**{**SMALL, "shards": 4, "nodes": 8}))
    world._form()
    shards = [*world.nodes.shards.values()]
    replicas = [shard.size for shard in shards if shard.number for _ in range(3)]
    assert least_to_leave(shards, {*world.nodes.alive}) == (sum(replicas), 12)
    assert least_to_leave(shards, set()) == (0, 0)
    # 12 replicas on 8 nodes are 1 or 2 for each node; four more nodes need one each.
    assert least_moves_to_balance(shards, range(1, 9)) == 0
    assert least_moves_to_balance(shards, range(1, 13)) == 4
    assert least_to_balance(shards, range(1, 13)) == sum(sorted(replicas)[:4])
    assert min(replicas) % BLOCK_BYTES == 0
    world.end()


# -- faults that the scale world must find


@pytest.fixture
def plant(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    return monkeypatch.setattr


@pytest.mark.long
def test_a_planner_that_ignores_rooms_is_found(plant: Callable[..., None]) -> None:
    plant(_Planner, "_shared_room", lambda *_: 0)
    assert "replicas are in different rooms" in run().reason


def test_moves_without_need_are_found(plant: Callable[..., None]) -> None:
    """The planner takes each move for a better one."""

    def fairer(planner: _Planner, shard: Any, source: int) -> int:
        return planner._best(shard, source)

    plant(_Planner, "_fairer", fairer)
    assert "no replica moves without need" in run(scenarios=(GROW,)).reason


def test_a_replica_that_goes_too_early_is_found(plant: Callable[..., None]) -> None:
    """The old replica goes before the new one is there, and the leader of the shard does not object."""
    steps = PlacementKeeper._take_step

    async def hasty(self: PlacementKeeper, move: Any, shard: Any, view: Any) -> bool:
        if move.source in shard.replicas and shard.leader != move.source:
            await self._calls.remove_replica(move.shard, move.source)
            return False
        return await steps(self, move, shard, view)

    plant(PlacementKeeper, "_take_step", hasty)
    plant(MemberChanges, "_check_rest", lambda *_: None)
    assert "enough intact replicas" in run(scenarios=(SHRINK,)).reason


def test_moves_that_never_end_are_found(plant: Callable[..., None]) -> None:
    plant(keeper, "BUSY_LOOK_S", 30_000.0)
    plant(scenarios, "DONE_WITHIN_S", 60.0)
    assert "every scenario ends" in run(scenarios=(GROW,)).reason


# -- the command


def sim(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["sim", "--world", "scale", *arguments])
    assert isinstance(ended.value.code, int)
    return ended.value.code


TINY = ("--nodes", "8", "--shards", "6", "--topics", "6", "--consumers", "60", "--change", "2", "--megabytes", "20")


@pytest.mark.real
def test_the_command_prints_the_figures_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert sim(*TINY, "--scenarios", "restart", "--seeds", "3,4", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["passed"], found["seeds"], found["failures"]) == (True, 2, [])
    assert [each["seed"] for each in found["runs"]] == [3, 4]
    scenario = found["runs"][0]["scenarios"][1]
    assert (scenario["scenario"], scenario["nodes"], scenario["bytes_moved"]) == ("restart", 8, 0)
    assert scenario["raft_messages"]["most"] >= scenario["raft_messages"]["mean"] > 0


def test_the_command_prints_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert sim(*TINY, "--scenarios", "none") == 0
    out, err = capsys.readouterr()
    assert "seed 1" in out
    assert "elections" in out
    assert "digest" in err


@pytest.mark.real
def test_a_broken_invariant_gives_exit_status_1(capsys: pytest.CaptureFixture[str], plant: Callable[..., None]) -> None:
    plant(_Planner, "_fairer", lambda planner, shard, source: planner._best(shard, source))
    assert sim(*TINY, "--shards", "20", "--scenarios", "grow", "--json") == 1
    out, err = capsys.readouterr()
    assert "no replica moves without need" in json.loads(out)["failures"][0]["reason"]
    assert "to repeat this run: ledgermq sim --world scale --seeds 1 " in err
    assert "--nodes 8 --shards 20" in err


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("--minutes", "3"), "has no --minutes"),
        (("--scenarios", "flood"), "there is no scenario flood"),
        (("--nodes", "5", "--rooms", "4"), "a room must have at least 2 nodes"),
        (("--nodes", "10", "--change", "6"), "at most half of them"),
    ],
)
def test_options_that_make_no_sense_are_refused(
    arguments: tuple[str, ...], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sim(*arguments) == 2
    assert problem in " ".join(capsys.readouterr().err.replace("│", " ").split())


@pytest.mark.parametrize("arguments", [("--world", "stack", "--topics", "3"), ("--nodes", "12")])
def test_options_of_the_scale_world_are_refused_elsewhere(arguments: tuple[str, ...]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["sim", *arguments])
    assert ended.value.code == 2


@pytest.mark.parametrize("seed", range(3))
def test_small_clusters_of_any_shape_hold(seed: int) -> None:
    chance = Random(f"{seed}/shape")
    shape = {"rooms": chance.randint(3, 5), "shards": chance.randint(5, 30), "change": chance.randint(1, 5)}
    report = run(seed, nodes=chance.randint(12, 16), scenarios=(GROW, SHRINK, ROOM), **shape)
    assert report.reason == "", shape
