"""Runs rounds of load processes against running servers.

    warm-up    produce in each way with more and more messages, until a run is long enough; this fixes the number
    round      for each size and each client: each, bulk, and consume everything that these two sent, and compare

Every run is a new process that uses a new topic. Clients and message sizes take turns within a round, so that a slow
change of the machine's speed affects all clients alike.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import ParamSpec, TypeVar

from bench.peers.load import PeerLoadOrder, PeerLoadResult, SeededMessages
from bench.peers.peer import PeerError, Way
from bench.peers.processes import load_environment
from bench.peers.rates import FIRST_COUNT, SIZES, Case, ClientRates, PeerRun, next_count
from bench.suite.machine import touch_memory

P = ParamSpec("P")
R = TypeVar("R")
PRODUCED: tuple[Way, ...] = ("each", "bulk")
# The number of messages that a load process sends before the clock starts.
_WARM = 1_000
# The warm-up of one case lasts as long as this many runs, but has at most the second number of runs.
_WARM_UP_RUNS, _MOST_WARM_UPS = 2, 6
_TIMEOUT_S = 600.0


@dataclass(frozen=True, slots=True)
class ContestScale:
    """How many messages and rounds a comparison has. `messages` is the largest number of messages in a run with
    128-byte messages. For larger messages, the number of messages in a run is smaller in proportion to the size.
    """

    messages: int = 1_000_000
    rounds: int = 3
    # The time in seconds that a run should take. A run with the largest number of messages may be shorter.
    seconds: float = 3.0
    in_flight: int = 1_000
    # How long a run with clients that await each send takes, and how many such runs of each kind there are.
    awaiting_seconds: float = 3.0
    awaiting_rounds: int = 2
    # GiB of memory to touch before each client's turn in a round; see `suite.machine.touch_memory`.
    warm_gib: float = 0.0

    def most(self, size: int) -> int:
        return max(FIRST_COUNT, self.messages * SIZES[0] // size)


@dataclass(frozen=True, slots=True)
class Driven:
    """A client that is measured: its name, and the path of its class. A load process imports this class."""

    name: str
    # module:class
    path: str


class Rounds:
    """Runs the rounds of measurements against the servers of one peer. Each run gets a new topic, whose name
    contains the number of the run."""

    def __init__(self, python: Path, address: str, scale: ContestScale, say: Callable[[str], None]) -> None:
        self._python, self._address, self._scale, self._say = python, address, scale, say
        self._topics = 0
        self._counts: dict[tuple[str, Case], int] = {}
        # Failures of runs that were then repeated.
        self.failures: list[str] = []

    def measure(self, clients: Mapping[Driven, ClientRates]) -> None:
        """Warm up, run all rounds, and add the runs to `clients`. Raise PeerError if a run fails twice."""
        for size in SIZES:
            for driven in clients:
                for way in PRODUCED:
                    self._again(self._warm_up, driven, Case(way, size))
        for number in range(self._scale.rounds):
            for size in SIZES:
                for driven, rates in clients.items():
                    where = f"{driven.name}, round {number + 1} of {self._scale.rounds}"
                    for run in self._again(self._round, driven, size):
                        rates.runs.append(run)
                        self._say(f"  {where}: {run.case.way}, {size} B: {told(run)}")

    def _again(self, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Call `work`. If the first call fails, call `work` once more. Each call uses a new topic."""
        try:
            return work(*args, **kwargs)
        except PeerError as error:
            self.failures.append(str(error))
            self._say(f"  done again, since it failed: {error}")
            return work(*args, **kwargs)

    def _warm_up(self, driven: Driven, case: Case) -> None:
        """Find out how many messages the runs of this client should have. The warm-up also gives the just-in-time
        compilers of the servers time to compile."""
        most, warmed_s = self._scale.most(case.size), 0.0
        count = min(FIRST_COUNT, most)
        for _ in range(_MOST_WARM_UPS):
            topic = self._topic()
            sent = SeededMessages(topic, count)
            run = self._run(driven, topic, case, [sent])
            self._say(f"  {driven.name}, warm-up: {case.way}, {case.size} B: {told(run)}")
            self._counts[driven.name, case] = count
            warmed_s += run.seconds
            then = next_count(count, run.seconds, self._scale.seconds, most)
            if then is None and warmed_s >= _WARM_UP_RUNS * self._scale.seconds:
                break
            count = then or count
        self._run(driven, topic, Case("consume", case.size), [sent])

    def _round(self, driven: Driven, size: int) -> list[PeerRun]:
        touch_memory(self._scale.warm_gib)
        topic, runs, sent = self._topic(), [], []
        for way in PRODUCED:
            case = Case(way, size)
            sent.append(SeededMessages(f"{topic}-{way}", self._counts[driven.name, case] + _WARM))
            runs.append(self._run(driven, topic, case, sent[-1:]))
        runs.append(self._run(driven, topic, Case("consume", size), sent))
        return runs

    def _run(self, driven: Driven, topic: str, case: Case, sent: list[SeededMessages]) -> PeerRun:
        warm = min(_WARM, sent[0].count // 2) if case.way != "consume" else 0
        order = PeerLoadOrder(driven.path, self._address, topic, case.way, case.size, sent, warm, self._scale.in_flight)
        answer = _answered(self._python, order)
        return PeerRun(case, answer.messages, answer.seconds, answer.compared)

    def _topic(self) -> str:
        self._topics += 1
        return f"topic-{self._topics}"


def told(run: PeerRun) -> str:
    """Return the text of the progress line for a run."""
    sentence = f"{run.per_s:,.0f}/s ({run.messages:,} in {run.seconds:.1f} s)"
    return sentence if run.compared is None or run.compared.alike else f"{sentence}, DIFFERS: {run.compared}"


def _answered(python: Path, order: PeerLoadOrder) -> PeerLoadResult:
    """Run a load process and return its result. If the process fails, raise PeerError with the end of its output."""
    command = [str(python), "-m", "bench.peers.load", json.dumps(asdict(order))]
    what = f"{order.client}, {order.way}, {order.size} B, {sum(sent.count for sent in order.sent):,} messages"
    try:
        done = subprocess.run(
            command,
            env=load_environment(),
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise PeerError(f"{what}: did not finish within {_TIMEOUT_S:g} s") from error
    if done.returncode:
        raise PeerError(f"{what}: {done.stderr.strip()[-1500:] or f'status {done.returncode}'}")
    return PeerLoadResult.of(done.stdout.splitlines()[-1])
