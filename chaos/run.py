"""One chaos run, from nothing to a verdict: the composition root.

    environment up ─ topics ─ clients ──────────── load ────────────────────── last reading ─ environment down ─ verdict
                                 nemesis: strike, heal, strike, heal ... healed

    OUT/
      run.json        what was asked for, and when the load began and ended
      client-N.jsonl  histories; client-N.log: what that process said
      faults.jsonl    faults and their evidence (nemesis.py)
      leaders.jsonl   who led, as the nodes said it
      node-N/log      what each node said
      verdict.json    the judgement

The one idea: whatever was made is gone afterwards, however the run ends; what was learned stays in OUT, where `chaos
check` and `chaos report` find it again.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

from chaos.checker.columns import Columns, columns_of
from chaos.checker.verdict import Verdict, judge
from chaos.errors import ChaosError
from chaos.faults.catalogue import KINDS
from chaos.faults.fault import Needs, Target
from chaos.faults.plan import plan
from chaos.hosts.environment import Environment, Setup
from chaos.leaders import LeaderWatch
from chaos.load.processes import ClientProcesses
from chaos.load.spec import Spec
from chaos.nemesis import Nemesis, Struck
from chaos.operator import Operator
from ledger.history import now_ns, read_history

TOPICS = ("orders", "payments")
_READY_S = 60.0
_STOP_S = 60.0
_CAUGHT_UP_S = 120.0
_FINAL_S = 300.0
_LEAST_SHARE = 0.2
"""Of what was to be sent, what must be acknowledged for a run to count."""


@dataclass(frozen=True, slots=True)
class Options:
    """What was asked for. `rate`: messages a second, of all clients together."""

    env: str
    nodes: int
    faults: tuple[str, ...]
    targets: tuple[str, ...]
    seconds: float
    rate: float
    seed: int
    flush: str
    groups: int
    queues: int = 4
    largest_bytes: int = 1 << 20
    delivery_timeout_ms: int = 20_000
    producers: int = 2

    @property
    def needs(self) -> Needs:
        needs = Needs.NOTHING
        for name in self.faults:
            needs |= KINDS[name].needs
        return needs


@dataclass(frozen=True, slots=True)
class Result:
    """What a run showed."""

    options: Options
    verdict: Verdict
    struck: tuple[Struck, ...]
    columns: Columns
    began: int
    ended: int
    """Of the load, in ns of the histories' clock."""


Say = Callable[[str], None]
MakeEnvironment = Callable[[Setup], Environment]


def run(options: Options, out: Path, make: MakeEnvironment, say: Say) -> Result:
    """All of it. Raises ChaosError where it cannot be done; then too nothing is left running."""
    out.mkdir(parents=True, exist_ok=True)
    setup = Setup(
        directory=out,
        nodes=options.nodes,
        seed=options.seed,
        settings={"flush": options.flush, "groups": options.groups, "segment_bytes": 16 << 20},
        disks=bool(options.needs & Needs.DISKS),
        clocks=bool(options.needs & Needs.CLOCKS),
    )
    environment = make(setup)
    with ExitStack() as undo:
        undo.callback(environment.down)
        say(f"{options.nodes} nodes start")
        environment.up()
        began, ended = _load(options, out, environment, undo, say)
    _save(out, options, began, ended)
    return judged(out)


def _load(options: Options, out: Path, environment: Environment, undo: ExitStack, say: Say) -> tuple[int, int]:
    operator = Operator(environment)
    undo.callback(operator.close)
    operator.ready(_READY_S)
    for topic in TOPICS:
        operator.create_topic(topic, options.queues)
    clients = ClientProcesses(out, _spec(options, environment))
    undo.callback(clients.end)
    watch = LeaderWatch(environment, out / "leaders.jsonl")
    undo.callback(watch.stop)
    watch.start()
    began = now_ns()
    for _ in range(options.producers):
        clients.start("producers")
    clients.start("consumers")
    _disturb(options, out, environment, operator, clients, say)
    clients.check()
    say("all is healed; the clients stop")
    clients.stop("producers", _STOP_S)
    ended = now_ns()
    clients.stop("consumers", _STOP_S)
    operator.caught_up(_CAUGHT_UP_S)
    say("every queue is read from every node")
    clients.reach(environment.nodes, [environment.address(node) for node in environment.nodes])
    clients.start("final")
    clients.finish("final", _FINAL_S)
    return began, ended


def _disturb(
    options: Options,
    out: Path,
    environment: Environment,
    operator: Operator,
    clients: ClientProcesses,
    say: Say,
) -> None:
    """For as long as the run lasts."""
    over = time.monotonic() + options.seconds

    def wait(seconds: float) -> None:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            time.sleep(min(left, 0.5))
            clients.check()

    kinds, targets = [KINDS[name] for name in options.faults], [Target(name) for name in options.targets]
    if kinds:
        planned = plan(options.seed, kinds, options.seconds, targets)
        if not planned:
            raise ChaosError(f"{options.seconds:g} s are too short for a single fault: give more --seconds")
        Nemesis(environment, operator, clients, out / "faults.jsonl", say, wait).run(planned)
    wait(max(0.0, over - time.monotonic()))


def _spec(options: Options, environment: Environment) -> Spec:
    return Spec(
        role="producers",
        first_process=0,
        bootstrap=tuple(environment.address(node) for node in environment.nodes),
        nodes=tuple(environment.nodes),
        topics=TOPICS,
        queues=options.queues,
        rate=options.rate / options.producers,
        largest_bytes=options.largest_bytes,
        delivery_timeout_ms=options.delivery_timeout_ms,
        seed=options.seed,
        history="",
    )


def _save(out: Path, options: Options, began: int, ended: int) -> None:
    told = {"options": asdict(options), "began": began, "ended": ended}
    (out / "run.json").write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")


def judged(out: Path) -> Result:
    """The judgement on a run, from what it left. Raises ChaosError where that is not there."""
    try:
        told: dict[str, Any] = json.loads((out / "run.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ChaosError(f"{out} is not the directory of a chaos run that came to its end: {error}") from error
    options = Options(**{name: _plain(value) for name, value in told["options"].items()})
    histories = sorted(out.glob("client-*.jsonl"), key=lambda path: int(path.stem.removeprefix("client-")))
    columns = columns_of(chain.from_iterable(map(read_history, histories)))
    struck = read_faults(out / "faults.jsonl")
    least = int(options.rate * options.seconds * _LEAST_SHARE)
    verdict = _with_faults(judge(columns, least_acknowledged=least), options, struck)
    (out / "verdict.json").write_text(json.dumps(verdict.as_json(), indent=1) + "\n", encoding="utf-8")
    return Result(options, verdict, tuple(struck), columns, told["began"], told["ended"])


def read_faults(path: Path) -> list[Struck]:
    """As the nemesis wrote them; none where there is no such file."""
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").splitlines()
    return [Struck(**{name: _plain(value) for name, value in json.loads(line).items()}) for line in lines]


def _with_faults(verdict: Verdict, options: Options, struck: Sequence[Struck]) -> Verdict:
    """A fault that left no evidence makes a run void; so does one that was asked for and never struck."""
    void = [f"{one.kind} left no evidence: {one.void}" for one in struck if one.void]
    return replace(verdict, void=(*verdict.void, *void), valid=None if void and verdict.valid else verdict.valid)


def _plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
