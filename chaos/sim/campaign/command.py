"""`ledgermq sim` runs seeds, shows progress, and prints the command that repeats a failure.

The exit status is 0 only if every seed passed, every required fault kind had an effect, and the campaign reached every
place that so many seeds must reach. The command prints its result to standard output, as a table or, with --json, as
one JSON object. The command prints all other output to standard error.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from chaos.sim.campaign.campaign import Totals, run_seeds
from chaos.sim.campaign.ledger_file import LedgerFile, OtherCampaignError, commit_of_code
from chaos.sim.campaign.progress import CampaignProgress
from chaos.sim.campaign.run import SeedReport, run
from chaos.sim.campaign.seeds import Seeds
from chaos.sim.campaign.shrink import RunBudget, shrink
from chaos.sim.campaign.swarm import Wishes, draw
from chaos.sim.engine import schedule as schedules
from chaos.sim.engine.faults import BOTH, KINDS, RATES
from chaos.sim.engine.schedule import Schedule
from chaos.sim.reach import reach_table
from chaos.sim.reach.counts import due
from chaos.sim.reach.places import PLACES
from chaos.sim.scale.options import SCALE, SCENARIOS, ScaleOptions
from cluster.cli.options import FiniteRange, renamed_option
from cluster.cli.output import print_json, print_table, say
from cluster.cli.verdict import gives_verdict

# The largest cluster of the worlds whose seeds draw faults.
MOST_DRAWN = 9
# How many failures of one campaign get a shortened schedule.
MOST_SHRUNK = 3


class _SeedsType(click.ParamType[Seeds]):
    name = "seeds"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Seeds:
        try:
            return value if isinstance(value, Seeds) else Seeds.parse(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


class _FaultsType(click.ParamType[tuple[str, ...] | None]):
    """Parses the value of the option --faults into a tuple of fault kinds. The result None means that each seed
    draws its own fault kinds."""

    name = "faults"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...] | None:
        if value is None or isinstance(value, tuple):
            return value
        if value in ("all", "none"):
            return None if value == "all" else ()
        names = tuple(name.strip() for name in value.split(","))
        unknown = [name for name in names if name not in KINDS and name not in RATES]
        if unknown:
            known = ", ".join([*RATES, *KINDS])
            self.fail(f"there is no fault kind {', '.join(unknown)}. Known fault kinds: {known}", param, ctx)
        return names


class _ScenariosType(click.ParamType[tuple[str, ...]]):
    """Parses the value of the option --scenarios."""

    name = "scenarios"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        if isinstance(value, tuple):
            return value
        names = () if value == "none" else tuple(name.strip() for name in value.split(","))
        if unknown := [name for name in names if name not in SCENARIOS]:
            self.fail(
                f"there is no scenario {', '.join(unknown)}: the scenarios are {', '.join(SCENARIOS)}", param, ctx
            )
        return names


@click.command(name="sim")
@click.option(
    "--seeds", type=_SeedsType(), default="1..100", show_default=True, help="Seeds to run: 7, 1..1000 or 1..50,77."
)
@click.option(
    "--minutes", type=FiniteRange(0.1), default=5.0, show_default=True, help="Simulated minutes of each seed."
)
@click.option(
    "--nodes",
    type=click.IntRange(1, 1_000),
    help="Nodes of each cluster, at most 9; scale world: at most 1000.  [default: each seed draws 1 to 5; scale: 100]",
)
@renamed_option("--groups", "--shards")
@click.option(
    "--shards",
    type=click.IntRange(1, 10_000),
    help="Shards: stack world 1 to 9, scale world 1 to 10000.  [default: each seed draws 1 to 4; scale: 1000]",
)
@click.option(
    "--faults",
    type=_FaultsType(),
    default="all",
    show_default=True,
    help="Fault kinds: all, none, or names such as kill,isolate.",
)
@click.option(
    "--world",
    type=click.Choice((*BOTH, SCALE)),
    default="protocol",
    show_default=True,
    help="protocol: Raft core and driver. stack: whole nodes and clients. scale: placement in a large cluster.",
)
@click.option("--topics", type=click.IntRange(1), help="Topics, in the scale world.  [default: 10000]")
@click.option("--consumers", type=click.IntRange(1), help="Consumers, in the scale world.  [default: 100000]")
@click.option("--rooms", type=click.IntRange(3), help="Machine rooms, in the scale world.  [default: 4]")
@click.option("--change", type=click.IntRange(1), help="Nodes to add and to remove, in the scale world.  [default: 30]")
@click.option("--megabytes", type=click.IntRange(1), help="Mean size of a shard, in the scale world.  [default: 1000]")
@click.option(
    "--scenarios",
    type=_ScenariosType(),
    help=f"Scenarios of the scale world: {', '.join(SCENARIOS)}, or none.  [default: all]",
)
@click.option("--jobs", type=click.IntRange(1), help="Worker processes.  [default: one for each processor]")
@click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON object.")
@click.option(
    "--resume",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Record finished seeds in this file, and skip the seeds that it already contains.",
)
@click.option(
    "--schedule",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Run one seed with the schedule of faults in this file, for example a shortened one.",
)
@click.option("--until-failure", is_flag=True, help="Stop after the first seed that fails.")
@click.option("--reach", is_flag=True, help="Print how often each place of the code was reached, and in which seeds.")
@click.option("--accept-loss", is_flag=True, help="Let a majority lose power under `async`, and count lost messages.")
@click.option("--no-shrink", is_flag=True, help="Do not look for the shortest schedule that still fails.")
@gives_verdict
def sim(
    seeds: Seeds,
    minutes: float,
    nodes: int | None,
    shards: int | None,
    faults: tuple[str, ...] | None,
    world: str,
    topics: int | None,
    consumers: int | None,
    rooms: int | None,
    change: int | None,
    megabytes: int | None,
    scenarios: tuple[str, ...] | None,
    jobs: int | None,
    as_json: bool,
    resume: Path | None,
    schedule: Path | None,
    until_failure: bool,
    reach: bool,
    accept_loss: bool,
    no_shrink: bool,
) -> int:
    """Run whole clusters with simulated time, network and disks, and try to break them.

    Each seed draws its own cluster, load and mixture of faults. The same seed always gives the same run. After every
    event the simulator checks the invariants of Raft and of the queues. At the end of a run the faults stop. Within a
    bounded time the cluster must then elect leaders, and all nodes must reach the same log.

    The simulator also counts which places of the code the runs reach. A campaign that is large enough to reach a place,
    and did not reach it, does not pass.

    The scale world runs the scenarios of a large cluster, one after another: a rolling restart, more nodes, fewer
    nodes, and the loss of a machine room. It prints times, bytes moved, elections, and the messages of the control
    plane. A broken invariant gives exit status 1.
    """
    sizes = {"topics": topics, "consumers": consumers, "rooms": rooms, "change": change, "megabytes": megabytes}
    wanted = {name: value for name, value in {**sizes, "scenarios": scenarios}.items() if value is not None}
    if world == SCALE:
        sizes = {"nodes": nodes, "shards": shards}
        _refuse_given("minutes", "faults", "jobs", "resume", "schedule", "reach", "accept_loss", world=world)
        return _scale(
            seeds, {**wanted, **{name: value for name, value in sizes.items() if value}}, as_json, until_failure
        )
    _refuse_given(*wanted, world=world)
    if max(nodes or 1, shards or 1) > MOST_DRAWN:
        raise click.UsageError(f"--nodes and --shards are at most {MOST_DRAWN}, except with --world {SCALE}")
    if accept_loss and world != "protocol":
        raise click.UsageError("--accept-loss needs --world protocol: the stack world never accepts a loss")
    if shards is not None and world == "protocol":
        raise click.UsageError("--shards needs --world stack: the protocol world always has one shard")
    wishes = Wishes(world, minutes, nodes, shards, faults, accept_loss)
    commit = commit_of_code()
    if schedule is not None:
        return _replay(seeds, wishes, schedules.from_json(schedule.read_text()), commit)
    campaign = _Campaign(seeds, wishes, commit, resume)
    campaign.run(jobs or os.cpu_count() or 1, until_failure)
    campaign.show(as_json)
    if reach and not as_json:
        campaign.show_reach()
    for failure in campaign.totals.failures[: 0 if no_shrink else MOST_SHRUNK]:
        _explain(failure, wishes, commit)
    return 0 if campaign.complete and campaign.totals.passed else 1


def _refuse_given(*names: str, world: str) -> None:
    """Refuse options that the command line gives, and that have no meaning in this world."""
    context = click.get_current_context()
    given = [name for name in names if context.get_parameter_source(name) is not ParameterSource.DEFAULT]
    if given:
        listed = ", ".join(f"--{name.replace('_', '-')}" for name in given)
        raise click.UsageError(f"--world {world} has no {listed}: leave the option out, or choose another world")


def _scale(seeds: Seeds, wanted: dict[str, Any], as_json: bool, until_failure: bool) -> int:
    """Run seeds of the scale world, one after another. Return the exit status."""
    from chaos.sim.scale import scale_report
    from chaos.sim.scale.scale_run import ScaleRun

    try:
        options = ScaleOptions(**wanted)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    given = click.get_current_context().get_parameter_source("seeds") is not ParameterSource.DEFAULT
    reports = []
    for seed in seeds.without(()) if given else [1]:
        say(f"seed {seed}: {options.nodes} nodes, {options.shards:,} shards: this can take some minutes")
        report = ScaleRun(seed, options, lambda name: say(f"  {name} ...")).run()
        reports.append(report)
        if not as_json:
            print_table(*scale_report.rows(report))
        if report.reason:
            shown = " ".join(f"--{name} {_shown(value)}" for name, value in wanted.items())
            say(f"seed {seed}: {report.reason}")
            say(f"  to repeat this run: ledgermq sim --world {SCALE} --seeds {seed} {shown}")
            if until_failure:
                break
        simulated, cpu = f"{report.simulated_s:,.0f} simulated s", f"{report.cpu_s:,.0f} s of CPU time"
        say(f"seed {seed}: digest {report.digest}, {simulated}, {cpu}")
    if as_json:
        print_json({"commit": commit_of_code(), **scale_report.as_json(reports, options)})
    return 1 if any(report.reason for report in reports) else 0


def _shown(value: object) -> str:
    return (",".join(value) or "none") if isinstance(value, tuple) else str(value)


class _Campaign:
    """Holds the seeds, the totals and the ledger file of one campaign."""

    def __init__(self, seeds: Seeds, wishes: Wishes, commit: str, ledger: Path | None) -> None:
        self.totals = Totals(due=due(PLACES, wishes))
        # Whether all seeds were run; False after an interrupt.
        self.complete = False
        self._seeds = seeds
        self._wishes = wishes
        self._commit = commit
        self._ledger = None if ledger is None else LedgerFile(ledger, wishes, commit)

    def run(self, jobs: int, until_failure: bool) -> None:
        waiting = self._seeds.without(self._done_before())
        with CampaignProgress(len(self._seeds), self.totals) as progress:
            reports = run_seeds(waiting, self._wishes, min(jobs, max(1, len(waiting))))
            try:
                for report in reports:
                    self._add(report)
                    progress.update()
                    if not report.passed:
                        say(f"seed {report.seed} at {self._commit}: {report.reason}")
                        say(f"  to repeat this run: {replay_command(report.seed, self._wishes)}")
                        if until_failure and report.failed:
                            return
                self.complete = True
            except KeyboardInterrupt:
                say("stopped; waiting for the seeds in progress to finish")
            finally:
                reports.close()

    def _done_before(self) -> list[int]:
        if self._ledger is None:
            return []
        try:
            before = [report for report in self._ledger.begin() if report.seed in self._seeds]
        except OtherCampaignError as error:
            raise click.UsageError(str(error)) from error
        for report in before:
            self.totals.add(report)
        return [report.seed for report in before]

    def _add(self, report: SeedReport) -> None:
        self.totals.add(report)
        if self._ledger is not None:
            self._ledger.add(report)

    def show(self, as_json: bool) -> None:
        totals, world = self.totals, self._wishes.world
        if as_json:
            print_json(
                {
                    "commit": self._commit,
                    "passed": self.complete and totals.passed,
                    "seeds": totals.seeds,
                    "simulated_hours": round(totals.hours, 3),
                    "figures": dict(totals.figures),
                    "happened": dict(totals.happened),
                    "never_happened": totals.never_happened,
                    "reached": reach_table.as_json(PLACES, world, totals.reach),
                    "never_reached": totals.never_reached,
                    "failures": [
                        {"seed": each.seed, "reason": each.reason, "void": not each.failed} for each in totals.failures
                    ],
                }
            )
            return
        rows: list[tuple[str, object]] = [("seeds", totals.seeds), ("simulated hours", f"{totals.hours:,.1f}")]
        rows += [(name, f"{count:,}") for name, count in totals.figures.items()]
        rows += [(f"fault: {name}", f"{count:,}") for name, count in sorted(totals.happened.items())]
        rows += reach_table.summary(PLACES, world, totals.reach)
        rows += [("failures", len(totals.failures))]
        print_table(("what", "how many"), rows)
        if totals.never_happened:
            say(f"scheduled, but never had an effect: {', '.join(totals.never_happened)}. This campaign does not pass.")
        if told := reach_table.not_reached(PLACES, world, totals.reach):
            say(told)
        for name in totals.never_reached:
            say(
                f"place {name!r} was never reached, and {totals.due[name]:,} seeds are enough to reach it. This "
                "campaign does not pass: find out why no run gets there any more."
            )

    def show_reach(self) -> None:
        """Print how often each place was reached, and the seeds that reached it first."""
        print_table(reach_table.HEAD, list(reach_table.rows(PLACES, self._wishes.world, self.totals.reach)))


def replay_command(seed: int, wishes: Wishes, schedule: Path | None = None) -> str:
    """Return the shell command that repeats the run of a seed."""
    parts = ["ledgermq sim", f"--world {wishes.world}", f"--seeds {seed}", f"--minutes {wishes.minutes:g}"]
    if wishes.nodes is not None:
        parts.append(f"--nodes {wishes.nodes}")
    if wishes.shards is not None:
        parts.append(f"--shards {wishes.shards}")
    if wishes.faults is not None:
        parts.append(f"--faults {','.join(wishes.faults) or 'none'}")
    if wishes.accepted_loss:
        parts.append("--accept-loss")
    if schedule is not None:
        parts.append(f"--schedule {schedule}")
    return " ".join(parts)


def _explain(failure: SeedReport, wishes: Wishes, commit: str) -> None:
    """Shorten the fault schedule of a failed run, write the shortened schedule to a file in the current directory,
    and print the schedule."""
    if failure.void:
        return
    say(f"seed {failure.seed}: searching for the shortest schedule that still fails")
    whole = schedules.make(draw(failure.seed, wishes))
    short = shrink(whole, lambda part: run(failure.seed, wishes, part).failed, RunBudget())
    report = run(failure.seed, wishes, short)
    path = Path(f"sim-{wishes.world}-{failure.seed}.schedule")
    path.write_text(schedules.to_json(short))
    say(f"seed {failure.seed} at {commit} still fails with {len(short)} of {len(whole)} fault events: {report.reason}")
    _print_schedule(short)
    say(f"  to repeat this run: {replay_command(failure.seed, wishes, path)}")


def _replay(seeds: Seeds, wishes: Wishes, schedule: Schedule, commit: str) -> int:
    if len(seeds) != 1:
        raise click.UsageError("--schedule runs exactly one seed: name it with --seeds, for example --seeds 7")
    report = run(seeds.without(())[0], wishes, schedule)
    _print_schedule(schedule)
    say(f"seed {report.seed} at {commit}: {report.reason or 'passed'}")
    say(f"history {report.history:016x}, {report.simulated_ms} ms, {dict(report.figures)}")
    return 0 if report.passed else 1


def _print_schedule(schedule: Sequence[object]) -> None:
    for event in schedule:
        say(f"  {event}")
