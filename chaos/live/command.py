"""`ledgermq chaos`: disturbs a cluster under load, and judges the messages and answers that its clients received.

The exit status is 0 only if the run was valid. The exit status is 1 if the checker found an anomaly. The exit status
is 2 if no verdict is possible: the run could not be made, something of it is missing, too little was checked, or too
many faults left no evidence.
"""

from __future__ import annotations

import random
import signal
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import click

from chaos.errors import ChaosError
from chaos.live import campaign
from chaos.live.checker.columns import columns_of
from chaos.live.checker.verdict import HistoryVerdict, judge
from chaos.live.faults.catalogue import KINDS, SURVIVED
from chaos.live.faults.fault import FaultNeeds, FaultTarget
from chaos.live.hosts.environment import EnvironmentSetup, NodeEnvironment
from chaos.live.judging import ChaosResult, judged
from chaos.live.options import SHARDS_OF_MOVES, ChaosOptions, shards_for
from chaos.live.progress import RunProgress, counted
from chaos.live.promise import half_lines
from chaos.live.report.headline import headline
from chaos.live.run import run
from chaos.sim.campaign.ledger_file import commit_of_code
from cluster.cli import INTERRUPTED
from cluster.cli.command_group import CommandGroup
from cluster.cli.options import FiniteRange, renamed_option
from cluster.cli.output import print_json, print_table, say
from cluster.cli.verdict import gives_verdict
from ledger.history import HistoryError, read_history

COULD_NOT_BE_JUDGED = 2
_WORDS = {True: "valid", False: "NOT VALID", None: "could not be judged"}

P = ParamSpec("P")
T = TypeVar("T")


ALL = "all"


class _FaultsType(click.ParamType[tuple[str, ...]]):
    name = "faults"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        if isinstance(value, tuple):
            return value
        if value in ("all", "none"):
            return (ALL,) if value == "all" else ()
        names = tuple(dict.fromkeys(name.strip() for name in value.split(",")))
        unknown = [name for name in names if name not in KINDS]
        if unknown:
            self.fail(f"unknown faults: {', '.join(unknown)}. `ledgermq chaos list` shows all faults", param, ctx)
        return names


def expanded(
    faults: tuple[str, ...],
    flush: str,
    timed: float,
    transactions: float,
    shared: float,
    old_program: str = "",
    shards: int | None = None,
) -> tuple[str, ...]:
    """Replace the word `all` with the names of the faults that a cluster in this flush mode must survive, with a load
    of which the share `timed` has delivery times, the share `transactions` is sent in transactions, and the share
    `shared` goes to shared groups. The nodes begin with `old_program`, if it is given, which may be unable to move
    replicas. `shards` is None if the user gives no number of shards."""
    if faults != (ALL,):
        return faults
    lacks = FaultNeeds.NOTHING if flush == "sync" else FaultNeeds.SYNC_FLUSH
    lacks |= FaultNeeds.NOTHING if timed else FaultNeeds.TIMED
    lacks |= FaultNeeds.NOTHING if transactions else FaultNeeds.TRANSACTIONS
    lacks |= FaultNeeds.NOTHING if shared else FaultNeeds.SHARED
    lacks |= FaultNeeds.NOTHING if old_program else FaultNeeds.OLD_PROGRAM
    lacks |= FaultNeeds.SHARDS if old_program or shards == 1 else FaultNeeds.NOTHING
    return tuple(name for name in SURVIVED if not KINDS[name].needs & lacks)


def _variables(_: click.Context, __: click.Parameter, told: tuple[str, ...]) -> tuple[str, ...]:
    for one in told:
        name, equals, _value = one.partition("=")
        if not name or not equals:
            raise click.BadParameter(f"{one!r} is not a variable: give NAME=VALUE")
    return told


def _says_why(command: Callable[P, int]) -> Callable[P, int]:
    """Turn a ChaosError or HistoryError into one sentence and exit status 2."""

    @wraps(command)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> int:
        try:
            return command(*args, **kwargs)
        except (ChaosError, HistoryError) as error:
            say(f"ledgermq chaos: {error}")
            return COULD_NOT_BE_JUDGED

    return wrapped


def _shares(command: Callable[..., int]) -> Callable[..., int]:
    """Add the options that say which shares of the messages are of the special kinds."""
    options = (
        click.option(
            "--timed",
            type=FiniteRange(0, 0.9),
            default=0.1,
            show_default=True,
            help="The share of the messages that have delivery times. Some of them are cancelled.",
        ),
        click.option(
            "--transactions",
            type=FiniteRange(0, 0.5),
            default=0.05,
            show_default=True,
            help="The share of the messages that are sent in transactions. Some of these are rolled back or left to a "
            "check.",
        ),
        click.option(
            "--shared",
            type=FiniteRange(0, 0.5),
            default=0.05,
            show_default=True,
            help="The share of the messages that shared groups consume.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


@click.group(cls=CommandGroup, name="chaos")
def chaos() -> None:
    """Test a cluster of real nodes under faults.

    Clients record what they send, what they read, and which answers they get, while nodes are killed, cut off from the
    network, paused or damaged. At the end, every queue is read from every node, and a checker judges the whole history.
    """


@chaos.command(name="run")
@click.option(
    "--env",
    type=click.Choice(["local", "docker"]),
    default="local",
    show_default=True,
    help="Run the nodes as processes in network namespaces, or as containers.",
)
@click.option("--nodes", type=click.IntRange(1, 9), default=3, show_default=True)
@click.option(
    "--faults", type=_FaultsType(), default="kill", show_default=True, help="all, none, or names such as kill,pause."
)
@click.option(
    "--targets",
    type=click.Choice([target.value for target in FaultTarget]),
    multiple=True,
    help="Which nodes a fault may hit; may be repeated.  [default: the targets of each fault]",
)
@click.option("--seconds", type=FiniteRange(1), default=60.0, show_default=True, help="How long the load runs.")
@click.option("--rate", type=FiniteRange(1), default=1000.0, show_default=True, help="Messages a second.")
@_shares
@click.option("--seed", type=int, help="Determines the faults and the load.  [default: random]")
@click.option("--flush", type=click.Choice(["async", "sync"]), default="async", show_default=True)
@click.option(
    "--node-env",
    multiple=True,
    metavar="NAME=VALUE",
    callback=_variables,
    help="An environment variable for the node processes only, for example to load a faulty library; may be repeated.",
)
@click.option(
    "--recovery-s",
    type=FiniteRange(1),
    default=120.0,
    show_default=True,
    help="Seconds that the nodes may take to reach the same log after the last fault is healed; longer is an anomaly.",
)
@click.option("--secure", is_flag=True, help="Nodes and clients use TLS and authentication.")
@click.option(
    "--old-program",
    type=click.Path(exists=True, file_okay=False, resolve_path=True),
    metavar="DIRECTORY",
    help="The nodes begin with the version whose packages are there, and the fault `upgrade` gives them this one. Only "
    "with --env local.",
)
@renamed_option("--groups", "--shards")
@click.option(
    "--shards",
    type=click.IntRange(1, 64),
    help=f"Number of shards.  [default: 1, or {SHARDS_OF_MOVES} with faults that move replicas]",
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="The directory for all files of the run; it must be empty or new.  [default: chaos-SEED]",
)
@click.option("--json", "as_json", is_flag=True, help="Print the verdict as one JSON object.")
@_says_why
@gives_verdict
def run_command(seed: int | None, out: Path | None, faults: tuple[str, ...], as_json: bool, **given: Any) -> int:
    """Start a cluster, load it, disturb it, and judge what the clients saw."""
    seed = random.SystemRandom().randrange(1 << 31) if seed is None else seed
    given["old_program"] = given["old_program"] or ""
    meant = expanded(
        faults,
        given["flush"],
        given["timed"],
        given["transactions"],
        given["shared"],
        given["old_program"],
        given["shards"],
    )
    given["shards"] = given["shards"] or shards_for(meant)
    options = ChaosOptions(seed=seed, faults=meant, **given)
    directory = (out or Path(f"chaos-{options.seed}")).absolute()
    if directory.exists() and any(directory.iterdir()):
        raise ChaosError(f"{directory} is not empty: name another --out")
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a terminated run cleans up as on Ctrl-C
    with RunProgress(options.seconds) as progress:
        progress.say(f"seed {options.seed}; all files of the run go to {directory}")
        result = run(options, directory, _maker(options.env), progress)
    _report(result, directory)
    return _show(result, as_json)


@chaos.command(name="campaign")
@click.option("--env", type=click.Choice(["local", "docker"]), default="local", show_default=True)
@click.option("--nodes", type=click.IntRange(1, 9), default=3, show_default=True)
@click.option(
    "--faults", type=_FaultsType(), default="all", show_default=True, help="all, or names such as kill,pause."
)
@click.option(
    "--runs", type=click.IntRange(1), default=5, show_default=True, help="Runs of each fault, with seeds 1, 2, ..."
)
@click.option(
    "--seconds", type=FiniteRange(1), default=60.0, show_default=True, help="How long the load of each run lasts."
)
@click.option("--rate", type=FiniteRange(1), default=1000.0, show_default=True, help="Messages a second.")
@_shares
@click.option("--flush", type=click.Choice(["async", "sync"]), default="async", show_default=True)
@click.option(
    "--ledger",
    type=click.Path(dir_okay=False, path_type=Path),
    default="chaos-campaign.jsonl",
    show_default=True,
    help="The file with the result of each run. Runs that it contains are not made again.",
)
@click.option("--json", "as_json", is_flag=True)
@_says_why
@gives_verdict
def campaign_command(faults: tuple[str, ...], runs: int, ledger: Path, as_json: bool, **given: Any) -> int:
    """Run each fault several times. An interrupted campaign continues where it stopped."""
    wish = ChaosOptions(faults=(), targets=(), seed=0, shards=1, **given)
    book = campaign.CampaignLedger(ledger)
    meant = expanded(faults, wish.flush, wish.timed, wish.transactions, wish.shared)
    waiting = list(campaign.runs(meant, runs, wish, book.entries()))
    say(f"{len(waiting)} runs of {wish.seconds:g} s are to be made")

    def told(entry: campaign.CampaignEntry) -> None:
        gap = max(entry.gaps_s, default=0.0)
        word = _WORDS[entry.verdict]
        say(f"{entry.fault} {entry.seed}: {word}, {entry.acknowledged:,} acknowledged, longest pause {gap:.2f} s")
        for sentence in [*(f"{count} {kind}" for kind, count in entry.anomalies.items()), *filter(None, entry.void)]:
            say(f"  {sentence}")

    campaign.carry_out(waiting, book, ledger.absolute().parent, commit_of_code(), told)
    entries = book.entries()
    rows = campaign.table(entries)
    if as_json:
        print_json(rows)
    elif rows:
        print_table(list(rows[0]), [list(row.values()) for row in rows])
    return 0 if all(entry.verdict for entry in entries) else 1


@chaos.command(name="list")
@click.option("--json", "as_json", is_flag=True)
def list_command(as_json: bool) -> int:
    """List all faults."""
    rows = [(kind.name, kind.summary, ", ".join(kind.targets), _needs(kind.needs)) for kind in KINDS.values()]
    if as_json:
        print_json([dict(zip(("name", "summary", "targets", "needs"), row, strict=True)) for row in rows])
    else:
        print_table(("fault", "what happens", "targets", "needs"), rows)
    return 0


@chaos.command(name="report")
@click.argument("directory", type=click.Path(exists=True, file_okay=False, path_type=Path))
@_says_why
def report_command(directory: Path) -> int:
    """Write the HTML page of a finished run again, as DIRECTORY/report.html."""
    _report(judged(directory), directory)
    return 0


@chaos.command(name="check")
@click.argument("paths", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--json", "as_json", is_flag=True)
@_says_why
@gives_verdict
def check_command(paths: tuple[Path, ...], as_json: bool) -> int:
    """Judge a finished run again, from its directory or from its history files."""
    if len(paths) == 1 and paths[0].is_dir():
        return _show(judged(paths[0]), as_json)
    if directories := [path for path in paths if path.is_dir()]:
        raise ChaosError(f"{directories[0]} is a directory: name either the directory of one run, or history files")
    history = (operation for path in paths for operation in read_history(path))
    return _tell(judge(columns_of(counted(history))).with_notes(half_lines(paths)), as_json)


def _report(result: ChaosResult, directory: Path) -> None:
    try:
        from chaos.live.report.page import write_report
    except ModuleNotFoundError as error:
        raise ChaosError(f"{error.name} is not installed: pip install 'ledgermq[chaos]'") from error
    say(f"the report is {write_report(result, directory)}")


def _maker(env: str) -> Callable[[EnvironmentSetup], NodeEnvironment]:
    if env == "docker":
        try:
            from chaos.live.hosts.containers import ContainerEnvironment
        except ModuleNotFoundError as error:
            raise ChaosError(
                f"--env docker needs the package {error.name}, which is not installed: pip install 'ledgermq[chaos]'"
            ) from error
        return ContainerEnvironment
    from chaos.live.hosts.local import LocalEnvironment

    return LocalEnvironment


def _needs(needs: FaultNeeds) -> str:
    return ", ".join(str(need.name).lower() for need in needs) if needs else ""


def _show(result: ChaosResult, as_json: bool) -> int:
    if as_json:
        return _tell(result.verdict, as_json)
    rows = [
        (
            one.kind,
            one.target,
            ", ".join(map(str, one.nodes)),
            f"{(one.start - result.began) / 1e9:.1f}",
            f"{(one.end - one.start) / 1e9:.1f}",
            None if pause is None else f"{pause.seconds:.2f}",
            f"no evidence: {one.void}" if one.void else "; ".join((*one.evidence, *one.repairs)),
        )
        for one, pause in zip(result.struck, result.pauses(), strict=True)
    ]
    if rows:
        print_table(("fault", "target", "nodes", "at s", "for s", "longest pause s", "evidence"), rows)
    say(headline(result))
    return _tell(result.verdict, as_json)


def _tell(verdict: HistoryVerdict, as_json: bool) -> int:
    if as_json:
        print_json(verdict.as_json())
    else:
        print_table(("what", "how many"), [*verdict.figures.items(), ("anomalies", verdict.anomalies)])
        for finding in verdict.findings:
            for anomaly in finding.shown:
                say(f"{finding.kind}: {anomaly.sentence} (operations {', '.join(map(str, anomaly.operations))})")
            if finding.count > len(finding.shown):
                say(f"{finding.kind}: {finding.count - len(finding.shown):,} more")
        for sentence in verdict.notes:
            say(f"note: {sentence}")
        for sentence in verdict.void:
            say(f"void: {sentence}")
        say(_WORDS[verdict.valid])
    return {True: 0, False: 1, None: COULD_NOT_BE_JUDGED}[verdict.valid]


def main() -> int:
    """Entry point of `python -m chaos`. Returns the same exit status as `ledgermq chaos`."""
    try:
        status: int = chaos(standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    return status
