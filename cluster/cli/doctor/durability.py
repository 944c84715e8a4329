"""Judges what the nodes' settings make of an acknowledgement, and which holds keep the log."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime

from cluster.cli.doctor.finding import DoctorFinding
from cluster.cli.doctor.observation import Observation

# A reader that runs renews or releases its hold. An older hold may be forgotten.
LONG_HOLD_MS = 3_600_000
_CHAPTER = "(node.toml of all nodes; docs/OPERATING.md, Durability)"


def durability(seen: Observation) -> Iterator[DoctorFinding]:
    """Find nodes whose settings disagree on what an acknowledgement means, or make it weaker than usual."""
    nodes = defaultdict(list)
    for node, figures in sorted(seen.figures.items()):
        if figures.flush:
            nodes[figures.flush].append(str(node))
        if figures.flush == "async" and figures.write == "staged":
            what = f"node {node}: acknowledges messages that are only in the memory of its process"
            yield DoctorFinding("note", "staged", what, f'flush = "sync"  {_CHAPTER}')
    if len(nodes) > 1:
        modes = ", ".join(f"{mode} on node {' and '.join(numbers)}" for mode, numbers in sorted(nodes.items()))
        what = f"the nodes flush differently: {modes}; a power failure can lose messages in spite of the synced nodes"
        yield DoctorFinding("warning", "flush-differs", what, f'flush = "sync"  {_CHAPTER}')


def holds(seen: Observation, now: datetime) -> Iterator[DoctorFinding]:
    """Find holds that were taken long ago: until they end, retention removes nothing, and the disk fills up."""
    now_ms = now.timestamp() * 1000
    found = defaultdict(list)
    for hold in seen.holds:
        if now_ms - hold.taken_ms >= LONG_HOLD_MS:
            found[hold.name].append(hold)
    for name, held in sorted(found.items()):
        shards = ", ".join(str(hold.shard) for hold in held)
        taken, ends = min(hold.taken_ms for hold in held), max(hold.expires_ms for hold in held)
        what = (
            f"the hold {name} keeps the log of shard {shards} since {_time(taken)}, until {_time(ends)}: "
            "retention removes nothing"
        )
        yield DoctorFinding("note", "hold", what, f"ledgermq cluster release {name}")


def _time(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M UTC")
