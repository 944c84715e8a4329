"""Records the leaders of all shards over time, as the nodes report them. About every 0.1 s, and more seldom if the
nodes answer slowly, a thread asks all nodes which shards they lead. After each change the thread writes a line to
`leaders.jsonl`:

    {"at":NS,"leaders":{"0":[[3,7]]}}     shard -> [node, term] of every node that says that it leads, the newest
                                          term last
"""

from __future__ import annotations

import json
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Annotated

from pydantic import Field

from chaos.errors import ChaosError
from chaos.live.checker.cluster import LeaderClaim
from chaos.live.hosts.environment import NodeEnvironment
from chaos.live.looks import pause_after
from chaos.live.operator import ClusterOperator
from chaos.live.records import read_records
from ledger.history import now_ns

_LATEST = 1 << 62


@dataclass(frozen=True, slots=True)
class Reign:
    """Node `node` led the shard from `start` to `end`, in ns of the histories' clock. `node` is 0 if no node led the
    shard between `start` and `end`. For the last reign of the record, `end` is None.
    """

    shard: int
    node: int
    term: int
    start: int
    end: int | None


@dataclass(frozen=True, slots=True)
class LeaderLine:
    """A line of `leaders.jsonl`: by shard, the nodes that said that they lead, with their terms."""

    at: Annotated[int, Field(ge=0, le=_LATEST)]
    leaders: dict[Annotated[int, Field(ge=0)], list[tuple[Annotated[int, Field(ge=1)], Annotated[int, Field(ge=0)]]]]


def read_reigns(log: Path) -> list[Reign]:
    """Return the reigns of a `leaders.jsonl`, ordered by shard and time."""
    lines = read_records(log, LeaderLine)
    shards = sorted({shard for line in lines for shard in line.leaders})
    return [reign for shard in shards for reign in _reigns_of(shard, lines)]


def read_claims(log: Path) -> list[LeaderClaim]:
    """Return every report of a node that it leads. Some reports come from nodes that had lost leadership and did
    not know it yet."""
    return [
        LeaderClaim(shard, term, node)
        for line in read_records(log, LeaderLine)
        for shard, leaders in line.leaders.items()
        for node, term in leaders
    ]


def _reigns_of(shard: int, lines: list[LeaderLine]) -> Iterator[Reign]:
    told = [(line.at, *(line.leaders.get(shard) or [(0, 0)])[-1]) for line in lines]
    changes = [now for before, now in pairwise([(0, -1, -1), *told]) if now[1:] != before[1:]]
    for (start, node, term), (end, _, _) in zip(changes, [*changes[1:], (None, 0, 0)], strict=True):
        yield Reign(shard, node, term, start, end)


class LeaderWatch:
    """The thread that writes `leaders.jsonl`. The thread runs from `start` to `stop`, or to `abandon`."""

    def __init__(self, environment: NodeEnvironment, log: Path) -> None:
        self._operator = ClusterOperator(environment)
        self._log = log
        self._stopping = threading.Event()
        # The error that ended the thread.
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="leader watch", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End the thread. Raises ChaosError if an error ended the thread before, because leaders after the error were
        not recorded."""
        self.abandon()
        if self._failure is not None:
            raise ChaosError(
                f"{self._log} is not whole: an error ended the record of the leaders ({self._failure!r}). Start the "
                "run again"
            ) from self._failure

    def abandon(self) -> None:
        """End the thread of a run that has failed. Also allowed after `stop`."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()
        self._operator.close()

    def _run(self) -> None:
        try:
            self._watch()
        except Exception as error:  # `stop` raises it
            self._failure = error

    def _watch(self) -> None:
        last: dict[int, list[tuple[int, int]]] = {}
        with self._log.open("w", encoding="utf-8", buffering=1) as log:
            pause_s = pause_after(0)
            while not self._stopping.wait(pause_s):
                asked = time.monotonic()
                leaders = self._leaders()
                pause_s = pause_after(time.monotonic() - asked)
                if leaders != last:
                    log.write(json.dumps({"at": now_ns(), "leaders": leaders}) + "\n")
                    last = leaders

    def _leaders(self) -> dict[int, list[tuple[int, int]]]:
        """Return, for each shard, (node, term) of every node that says that it leads, the newest term last."""
        leaders: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for status in self._operator.statuses():
            for shard in status.shards:
                if shard.role == "leader":
                    leaders[shard.shard].append((status.node, shard.term))
        return {shard: sorted(claims, key=lambda claim: claim[1]) for shard, claims in leaders.items()}
