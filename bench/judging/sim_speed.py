"""Measures how many simulated seconds the simulator runs in a second of processor time, seed by seed.

    .venv/bin/python -m bench.judging.sim_speed --world stack --seeds 1..100       ten minutes
    .venv/bin/python -m bench.judging.sim_speed --world protocol --seeds 1..100    half a minute

A seed needs more time if it has more nodes, shards, clients or users, so the median of many seeds tells more than one.
On a machine with other work, the processor is slower too: `loop_ms` is the processor time of a fixed loop before and
after the seeds, to compare runs of different hours. Needs no other process.
"""

from __future__ import annotations

import logging
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass

from bench.tables import options, show
from chaos.sim.campaign.campaign import run_seeds
from chaos.sim.campaign.run import WORLDS
from chaos.sim.campaign.seeds import Seeds
from chaos.sim.campaign.swarm import Wishes


@dataclass(frozen=True, slots=True)
class Speed:
    """`median`, `slowest_tenth` and `mean` are simulated seconds a CPU second."""

    world: str
    seeds: int
    failed: int
    simulated_s: float
    cpu_s: float
    median: float
    # Nine of ten seeds are faster.
    slowest_tenth: float
    mean: float
    loop_ms: str


def measured(world: str, seeds: Seeds, minutes: float) -> Speed:
    loop_before = _loop_ms()
    rows = [*_timed(world, seeds, minutes)]
    speeds = [simulated_s / cpu_s for simulated_s, cpu_s, _ in rows]
    simulated, cpu = sum(row[0] for row in rows), sum(row[1] for row in rows)
    return Speed(
        world,
        len(rows),
        sum(not passed for _, _, passed in rows),
        simulated,
        cpu,
        statistics.median(speeds),
        sorted(speeds)[len(speeds) // 10],
        simulated / cpu,
        f"{loop_before:.0f} to {_loop_ms():.0f}",
    )


def _timed(world: str, seeds: Seeds, minutes: float) -> Iterator[tuple[float, float, bool]]:
    """Yield the simulated seconds and the CPU seconds of each seed, and whether it passed."""
    chosen = seeds.without(())
    reports = run_seeds([chosen[0], *chosen], Wishes(world=world, minutes=minutes), jobs=1)
    next(reports)  # the first seed loads the world, and is not counted
    before = time.process_time()
    for report in reports:
        now = time.process_time()
        yield report.simulated_ms / 1000, now - before, report.passed
        before = now


def _loop_ms() -> float:
    before, total = time.process_time(), 0
    for number in range(2_000_000):
        total += number
    return (time.process_time() - before) * 1000


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--world", choices=WORLDS, default="stack")
    parser.add_argument("--seeds", type=Seeds.parse, default=Seeds.parse("1..100"))
    parser.add_argument("--minutes", type=float, default=1.0, help="simulated minutes of a seed (default: 1)")
    chosen = parser.parse_args()
    logging.disable(logging.CRITICAL)
    show({"Speed of the simulator": [measured(chosen.world, chosen.seeds, chosen.minutes)]}, as_json=chosen.json)


if __name__ == "__main__":
    main()
