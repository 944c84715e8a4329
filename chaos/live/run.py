"""One chaos run, from an empty directory to a verdict. This module creates all objects of a run and connects them.

    environment up ─ topics ─ clients ──────────── load ────────────────────── last reading ─ environment down ─ verdict
                                 nemesis: strike, heal, strike, heal ... healed

    OUT/
      run.json        the options, and when the load began and ended
      client-N.jsonl  the history of client process N; client-N.log: its output
      faults.jsonl    the faults and their evidence (nemesis.py)
      leaders.jsonl   which node led, as the nodes reported it (leaders.py)
      node-N/log      the output of node N
      verdict.json    the verdict

A run removes its nodes, networks and disks, even if it fails. The files in the directory OUT stay, so that `chaos
check` and `chaos report` can read them again.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, Protocol

from chaos.errors import ChaosError
from chaos.live.checker.availability import AFTERMATH_NS, acknowledged_at, longest_gap
from chaos.live.checker.cluster import no_recovery, two_leaders
from chaos.live.checker.columns import HistoryColumns, columns_of
from chaos.live.checker.verdict import HistoryVerdict, judge
from chaos.live.faults.catalogue import KINDS
from chaos.live.faults.fault import FaultNeeds, FaultTarget
from chaos.live.faults.plan import Planned, plan
from chaos.live.hosts.environment import EnvironmentSetup, NodeEnvironment
from chaos.live.hosts.node_security import clients_of
from chaos.live.leaders import LeaderWatch, read_claims
from chaos.live.load.processes import ClientProcesses
from chaos.live.load.spec import ClientSpec
from chaos.live.nemesis import Nemesis, Struck
from chaos.live.operator import ClusterOperator
from ledger.history import now_ns, read_history

TOPICS = ("orders", "payments")
_SEGMENT_BYTES = 16 << 20
_READY_S = 60.0
_STOP_S = 60.0
_FINAL_S = 300.0
_UNRECOVERED_FINAL_S = 20.0
_CHECK_S = 0.2
# A run counts only if at least this share of the intended messages was acknowledged.
_LEAST_SHARE = 0.2


@dataclass(frozen=True, slots=True)
class ChaosOptions:
    """The options of one chaos run. `rate` is in messages a second, of all clients together. `node_env` has
    environment variables for the node processes, as NAME=VALUE. `recovery_s` is the time in seconds that the nodes may
    take to reach the same log after the last fault.
    """

    env: str
    nodes: int
    faults: tuple[str, ...]
    targets: tuple[str, ...]
    seconds: float
    rate: float
    seed: int
    flush: str
    shards: int
    queues: int = 4
    largest_bytes: int = 1 << 20
    delivery_timeout_ms: int = 20_000
    producers: int = 2
    node_env: tuple[str, ...] = ()
    recovery_s: float = 120.0
    # The nodes use TLS and authentication.
    secure: bool = False

    @property
    def needs(self) -> FaultNeeds:
        """The capabilities that the faults of this run need from the environment."""
        needs = FaultNeeds.NOTHING
        for name in self.faults:
            needs |= KINDS[name].needs
        return needs


@dataclass(frozen=True, slots=True)
class ChaosResult:
    """The result of a run: its options, its verdict, its faults and its history."""

    options: ChaosOptions
    verdict: HistoryVerdict
    struck: tuple[Struck, ...]
    columns: HistoryColumns
    began: int
    # When the load ended. `began` and `ended` are in ns of the histories' clock.
    ended: int

    def gaps_s(self) -> list[float]:
        """Return, for each fault, the longest time in seconds without an acknowledged write while there was load."""
        times = acknowledged_at(self.columns)
        return [longest_gap(times, one.start, min(one.end + AFTERMATH_NS, self.ended)).seconds for one in self.struck]


def as_arguments(options: ChaosOptions) -> list[str]:
    """Return the arguments of `ledgermq chaos` that give the same plan of faults."""
    arguments = ["run", "--env", options.env, "--nodes", str(options.nodes), "--seed", str(options.seed)]
    arguments += ["--faults", ",".join(options.faults) or "none"]
    for target in options.targets:
        arguments += ["--targets", target]
    for variable in options.node_env:
        arguments += ["--node-env", variable]
    arguments += ["--seconds", f"{options.seconds:g}", "--rate", f"{options.rate:g}"]
    arguments += ["--flush", options.flush, "--shards", str(options.shards)]
    arguments += ["--secure"] if options.secure else []
    return [*arguments, "--recovery-s", f"{options.recovery_s:g}"]


MakeEnvironment = Callable[[EnvironmentSetup], NodeEnvironment]


class RunAudience(Protocol):
    """Receives the progress of a run."""

    def say(self, sentence: str) -> None:
        """Show the user a sentence about the present step of the run."""

    def passed(self, seconds: float) -> None:
        """Report that `seconds` of the load are over."""


def run(options: ChaosOptions, out: Path, make: MakeEnvironment, audience: RunAudience) -> ChaosResult:
    """Make one run and return its result. Raises ChaosError if the run cannot be made. Even after an error no process
    of the run is left.
    """
    planned = _planned(options)
    out.mkdir(parents=True, exist_ok=True)
    environment = make(_setup(options, out))
    with ExitStack() as undo:
        undo.enter_context(clients_of(out, secure=options.secure))
        undo.callback(environment.down)
        audience.say(f"starting {options.nodes} nodes")
        environment.up()
        the_run = _Run(options, out, environment, audience, undo)
        began, ended = the_run.load(planned)
        unrecovered = the_run.read_to_the_end()
    _save(out, options, began, ended, unrecovered)
    return judged(out)


def _planned(options: ChaosOptions) -> tuple[Planned, ...]:
    """Return the plan of faults. Raises ChaosError if the options contradict each other."""
    kinds = [KINDS[name] for name in options.faults]
    for kind in kinds:
        if kind.least_nodes > options.nodes:
            raise ChaosError(f"{kind.name} needs {kind.least_nodes} nodes: give --nodes {kind.least_nodes}")
        if FaultNeeds.SYNC_FLUSH in kind.needs and options.flush != "sync":
            raise ChaosError(
                f"{kind.name} needs --flush sync: with async flush, nodes may lose what this fault destroys"
            )
    if not kinds:
        return ()
    planned = plan(options.seed, kinds, options.seconds, [*map(FaultTarget, options.targets)])
    if not planned:
        raise ChaosError(f"{options.seconds:g} s are too short for a single fault: increase --seconds")
    return planned


def _setup(options: ChaosOptions, out: Path) -> EnvironmentSetup:
    return EnvironmentSetup(
        directory=out,
        nodes=options.nodes,
        seed=options.seed,
        settings={"flush": options.flush, "shards": options.shards, "segment_bytes": _SEGMENT_BYTES},
        disks=bool(options.needs & FaultNeeds.DISKS),
        clocks=bool(options.needs & FaultNeeds.CLOCKS),
        secure=options.secure,
        environment=dict(one.split("=", 1) for one in options.node_env),
    )


class _Run:
    """The part of a run between `up` and `down` of the environment."""

    def __init__(
        self, options: ChaosOptions, out: Path, environment: NodeEnvironment, audience: RunAudience, undo: ExitStack
    ) -> None:
        self._options = options
        self._out = out
        self._environment = environment
        self._audience = audience
        self._operator = ClusterOperator(environment)
        undo.callback(self._operator.close)
        self._clients = ClientProcesses(out, self._spec())
        undo.callback(self._clients.end)
        self._watch = LeaderWatch(environment, out / "leaders.jsonl")
        undo.callback(self._watch.stop)

    def load(self, planned: Sequence[Planned]) -> tuple[int, int]:
        """Run the load and the faults. Returns when the load began and ended, in ns of the histories' clock."""
        self._operator.ready(_READY_S)
        for topic in TOPICS:
            self._operator.create_topic(topic, self._options.queues)
        self._watch.start()
        began = now_ns()
        for _ in range(self._options.producers):
            self._clients.start("producers")
        self._clients.start("consumers")
        self._disturb(planned)
        self._clients.check()
        self._audience.say("all faults are healed; stopping the clients")
        self._clients.stop("producers", _STOP_S)
        ended = now_ns()
        self._clients.stop("consumers", _STOP_S)
        return began, ended

    def _disturb(self, planned: Sequence[Planned]) -> None:
        """Carry out the planned faults, and wait until the time of the load is over."""
        self._over = time.monotonic() + self._options.seconds
        log, say = self._out / "faults.jsonl", self._audience.say
        Nemesis(self._environment, self._operator, self._clients, log, say, self._wait).run(planned)
        self._wait(max(0.0, self._over - time.monotonic()))

    def _wait(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            time.sleep(min(left, _CHECK_S))
            self._clients.check()
            self._audience.passed(self._options.seconds - (self._over - time.monotonic()))

    def read_to_the_end(self) -> str:
        """Read every queue from every node. Return the reason why the cluster did not recover after the last fault, or
        "" if it recovered.

        If the cluster did not recover, this method still reads the queues for a short time, because the histories may
        show more anomalies.
        """
        unrecovered = ""
        try:
            self._operator.caught_up(self._options.recovery_s)
        except ChaosError as trouble:
            unrecovered = str(trouble)
            self._audience.say(unrecovered)
        self._audience.say("reading every queue from every node")
        nodes = self._environment.nodes
        self._clients.reach(nodes, [self._environment.address(node) for node in nodes])
        self._clients.start("final")
        try:
            self._clients.finish("final", _UNRECOVERED_FINAL_S if unrecovered else _FINAL_S)
        except ChaosError:
            if not unrecovered:
                raise
        return unrecovered

    def _spec(self) -> ClientSpec:
        options, nodes = self._options, self._environment.nodes
        return ClientSpec(
            role="producers",
            first_process=0,
            bootstrap=tuple(self._environment.address(node) for node in nodes),
            nodes=tuple(nodes),
            topics=TOPICS,
            queues=options.queues,
            rate=options.rate / options.producers,
            largest_bytes=options.largest_bytes,
            delivery_timeout_ms=options.delivery_timeout_ms,
            seed=options.seed,
            history="",
            run=os.getpid(),
        )


def _save(out: Path, options: ChaosOptions, began: int, ended: int, unrecovered: str) -> None:
    told = {"options": asdict(options), "began": began, "ended": ended, "unrecovered": unrecovered}
    (out / "run.json").write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")


def judged(out: Path) -> ChaosResult:
    """Judge a run from the files in its directory. Raises ChaosError if the run has not finished."""
    try:
        told: dict[str, Any] = json.loads((out / "run.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ChaosError(f"{out} is not the directory of a finished chaos run: {error}") from error
    options = ChaosOptions(**{name: _plain(value) for name, value in told["options"].items()})
    columns = columns_of(chain.from_iterable(map(read_history, histories(out))))
    struck = read_faults(out / "faults.jsonl")
    least = int(options.rate * options.seconds * _LEAST_SHARE)
    cluster = (two_leaders(read_claims(out / "leaders.jsonl")), no_recovery(told["unrecovered"]))
    verdict = _with_faults(judge(columns, least_acknowledged=least).joined(*cluster), struck)
    (out / "verdict.json").write_text(json.dumps(verdict.as_json(), indent=1) + "\n", encoding="utf-8")
    return ChaosResult(options, verdict, tuple(struck), columns, told["began"], told["ended"])


def histories(out: Path) -> list[Path]:
    """Return the history files of all client processes, in the order in which the processes were started."""
    return sorted(out.glob("client-*.jsonl"), key=lambda path: int(path.stem.removeprefix("client-")))


def read_faults(path: Path) -> list[Struck]:
    """Return the faults that the nemesis recorded; an empty list if the file does not exist."""
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").splitlines()
    return [Struck(**{name: _plain(value) for name, value in json.loads(line).items()}) for line in lines]


def _with_faults(verdict: HistoryVerdict, struck: Sequence[Struck]) -> HistoryVerdict:
    """Make the verdict void if a fault left no evidence."""
    void = [f"{one.kind} left no evidence: {one.void}" for one in struck if one.void]
    return replace(verdict, void=(*verdict.void, *void), valid=None if void and verdict.valid else verdict.valid)


def _plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
