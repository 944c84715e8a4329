"""One chaos run, from an empty directory to a verdict. This module creates all objects of a run and connects them.

    environment up ─ topics ─ clients ──────────── load ────────────────────── last reading ─ environment down ─ verdict
                                 nemesis: strike, heal, strike, heal ... healed

    OUT/
      run.json        the options, when the load began and ended, and what the run promises (run_file.py)
      decisions/      the load's decisions about its transactions (load/decisions.py)
      client-N.jsonl  the history of client process N; client-N.log: its output
      faults.jsonl    the faults and their evidence (nemesis.py)
      leaders.jsonl   which node led, as the nodes reported it (leaders.py)
      node-N/log      the output of node N
      verdict.json    the verdict

A run removes its nodes, networks and disks, even if it fails. The files in the directory OUT stay, so that `chaos
check` and `chaos report` can read them again.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Protocol

from chaos.errors import ChaosError
from chaos.live.checker.completeness import too_few_holders
from chaos.live.faults.catalogue import KINDS
from chaos.live.faults.fault import FaultNeeds, FaultTarget
from chaos.live.faults.plan import Planned, plan
from chaos.live.hosts.environment import EnvironmentSetup, NodeEnvironment
from chaos.live.hosts.node_security import clients_of
from chaos.live.judging import ChaosResult, judged
from chaos.live.leaders import LeaderWatch
from chaos.live.load.processes import ClientOfRun, ClientProcesses, ClientTimeoutError
from chaos.live.load.spec import CHECKS_SOON, JOBS, LONGEST_DELAY_MS, SHARED_GROUPS, ClientSpec
from chaos.live.nemesis import Nemesis
from chaos.live.operator import ClusterOperator
from chaos.live.options import SHARDS_OF_MOVES, ChaosOptions
from chaos.live.promise import RunPromise, promised_files
from chaos.live.run_file import RunFile
from ledger.history import now_ns

TOPICS = ("orders", "payments")
# The largest share of the messages that have delivery times, are sent in transactions, or go to shared groups.
_MOST_SPECIAL = 0.9
_SEGMENT_BYTES = 16 << 20
_READY_S = 60.0
_STOP_S = 60.0
_FINAL_S = 300.0
_UNRECOVERED_FINAL_S = 20.0
_CHECK_S = 0.2
# A queue has replicas on at least so many nodes, or on all nodes of a smaller cluster.
_LEAST_REPLICAS = 3
# A transaction about which its producer is silent ends at its second check.
_CHECKED_S = 30.0
# The members of shared groups end when no message comes any more.
_SETTLED_S = 180.0


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
        holders, unrecovered = the_run.read_to_the_end()
        nodes = tuple(environment.nodes)
    files = promised_files(out, the_run.clients())
    promise = RunPromise(files, nodes, dict.fromkeys(_topics(options), options.queues), len(planned), holders)
    RunFile(options, began, ended, unrecovered, promise).save(out)
    return judged(out)


def _planned(options: ChaosOptions) -> tuple[Planned, ...]:
    """Return the plan of faults. Raises ChaosError if the options contradict each other."""
    if options.timed + options.transactions + options.shared > _MOST_SPECIAL:
        raise ChaosError(
            f"--timed, --transactions and --shared are more than {_MOST_SPECIAL:g} together: leave a part of the load "
            "to plain messages"
        )
    if options.old_program and options.env != "local":
        raise ChaosError("--old-program needs --env local: a container has the program of its image")
    kinds = [KINDS[name] for name in options.faults]
    for kind in kinds:
        if kind.least_nodes > options.nodes:
            raise ChaosError(f"{kind.name} needs {kind.least_nodes} nodes: give --nodes {kind.least_nodes}")
        if FaultNeeds.SYNC_FLUSH in kind.needs and options.flush != "sync":
            raise ChaosError(
                f"{kind.name} needs --flush sync: with async flush, nodes may lose what this fault destroys"
            )
        if FaultNeeds.TIMED in kind.needs and not options.timed:
            raise ChaosError(f"{kind.name} needs messages with delivery times: give --timed 0.1")
        if FaultNeeds.TRANSACTIONS in kind.needs and not options.transactions:
            raise ChaosError(f"{kind.name} needs transactions: give --transactions 0.05")
        if FaultNeeds.SHARED in kind.needs and not options.shared:
            raise ChaosError(f"{kind.name} needs shared groups: give --shared 0.05")
        if FaultNeeds.OLD_PROGRAM in kind.needs and not options.old_program:
            raise ChaosError(f"{kind.name} needs an older program: give --old-program DIRECTORY")
        if FaultNeeds.SHARDS in kind.needs and options.shards < 2:
            raise ChaosError(f"{kind.name} needs shards beside shard 0: give --shards {SHARDS_OF_MOVES}")
    if not kinds:
        return ()
    planned = plan(options.seed, kinds, options.seconds, [*map(FaultTarget, options.targets)])
    if not planned:
        raise ChaosError(f"{options.seconds:g} s are too short for a single fault: increase --seconds")
    return planned


def _topics(options: ChaosOptions) -> tuple[str, ...]:
    """Return the topics of the run."""
    return (*TOPICS, JOBS) if options.shared else TOPICS


def _setup(options: ChaosOptions, out: Path) -> EnvironmentSetup:
    return EnvironmentSetup(
        directory=out,
        nodes=options.nodes,
        seed=options.seed,
        settings={
            "flush": options.flush,
            "shards": options.shards,
            "segment_bytes": _SEGMENT_BYTES,
            **(CHECKS_SOON if options.transactions else {}),
        },
        disks=bool(options.needs & FaultNeeds.DISKS),
        clocks=bool(options.needs & FaultNeeds.CLOCKS),
        secure=options.secure,
        environment=dict(one.split("=", 1) for one in options.node_env),
        old_program=options.old_program,
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
        undo.callback(self._watch.abandon)

    def load(self, planned: Sequence[Planned]) -> tuple[int, int]:
        """Run the load and the faults. Returns when the load began and ended, in ns of the histories' clock."""
        self._operator.ready(_READY_S)
        for topic in TOPICS:
            self._operator.create_topic(topic, self._options.queues)
        if self._options.shared:
            self._operator.create_topic(JOBS, self._options.queues)
            for group, order in SHARED_GROUPS.items():
                self._operator.create_shared_group(group, order)
        self._watch.start()
        began = now_ns()
        for _ in range(self._options.producers):
            self._clients.start("producers")
        self._clients.start("consumers")
        if self._options.transactions:
            self._clients.start("checkers")
        if self._options.shared:
            self._clients.start("sharers")
        self._disturb(planned)
        self._clients.check()
        self._audience.say("all faults are healed; stopping the clients")
        ended = now_ns()
        self._clients.stop("producers", _STOP_S)
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

    def read_to_the_end(self) -> tuple[dict[str, tuple[tuple[int, ...], ...]], str]:
        """Read every queue from every node that has a replica of it. Return these nodes, and the reason why the cluster
        did not recover after the last fault, or "" if it recovered.

        If the cluster did not recover, this method still reads the queues for a short time, because the histories may
        show more anomalies.
        """
        holders: dict[str, tuple[tuple[int, ...], ...]] = {}
        unrecovered = ""
        try:
            self._operator.caught_up(self._options.recovery_s)
            if self._options.timed:
                self._operator.all_delivered(self._options.recovery_s + LONGEST_DELAY_MS / 1000)
            if self._options.transactions:
                self._operator.all_ended(self._options.recovery_s + _CHECKED_S)
        except ChaosError as trouble:
            unrecovered = str(trouble)
            self._audience.say(unrecovered)
        self._clients.stop("checkers", _STOP_S)
        self._clients.stop("sharers", _SETTLED_S)
        self._audience.say("reading every queue from every node")
        nodes = self._environment.nodes
        try:
            holders = self._operator.holders(_topics(self._options))
            unrecovered = unrecovered or too_few_holders(holders, min(_LEAST_REPLICAS, len(nodes)))
        except ChaosError as trouble:
            unrecovered = unrecovered or str(trouble)
        self._clients.reach(nodes, [self._environment.address(node) for node in nodes], holders)
        self._clients.start("final")
        try:
            self._clients.finish("final", _UNRECOVERED_FINAL_S if unrecovered else _FINAL_S)
        except ClientTimeoutError as trouble:
            # A node has a message, or should have it, and does not serve it. The histories show which messages.
            unrecovered = unrecovered or f"not every queue could be read from every node: {trouble}"
        except ChaosError:
            if not unrecovered:
                raise
        self._watch.stop()
        return holders, unrecovered

    def clients(self) -> list[ClientOfRun]:
        """Return all client processes of the run."""
        return self._clients.every()

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
            timed=options.timed,
            transactions=options.transactions,
            shared=options.shared,
        )
