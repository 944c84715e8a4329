"""The same seed is the same run: in another process, under another hash seed or clock, and twice in one process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from chaos.sim.campaign.run import run
from chaos.sim.campaign.swarm import Wishes

pytestmark = pytest.mark.long

ROOT = Path(__file__).resolve().parents[3]
SEED, WISHES = 11, Wishes(minutes=1)

SCRIPT = """
from chaos.sim.campaign.run import run
from chaos.sim.campaign.swarm import Wishes
for seed in {seeds}:
    report = run(seed, Wishes(world={world!r}, minutes={minutes}, shards={shards}))
    print(seed, report.history, sorted(report.figures.items()), sorted(report.happened.items()), report.reason)
"""

CLOCKS = """
import itertools, time
now = itertools.count(1_000, {step_s})
for name in ("monotonic", "perf_counter", "time"):
    setattr(time, name, lambda: float(next(now)))
    setattr(time, name + "_ns", lambda: next(now) * 1_000_000_000)
"""


def history_under(
    hash_seed: str, world: str, minutes: float, shards: int | None, seeds: tuple[int, ...], before: str = ""
) -> str:
    ran = subprocess.run(
        [sys.executable, "-c", before + SCRIPT.format(world=world, minutes=minutes, shards=shards, seeds=seeds)],
        env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    return ran.stdout


@pytest.mark.real
@pytest.mark.parametrize(
    ("world", "minutes", "shards", "seeds"),
    [("protocol", 1.0, 1, (11, 12, 13)), ("stack", 0.5, 3, (11, 13))],  # 13: two consumer groups
)
def test_the_hash_seed_of_the_process_is_no_part_of_a_run(
    world: str, minutes: float, shards: int, seeds: tuple[int, ...]
) -> None:
    first, second = (history_under(hash_seed, world, minutes, shards, seeds) for hash_seed in "01")
    assert first == second
    assert len(first.splitlines()) == len(seeds)


@contextmanager
def cpu_hog() -> Iterator[None]:
    """A process that needs a whole processor, while the body of the `with` block runs."""
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as hog:
        try:
            yield
        finally:
            hog.kill()


@pytest.mark.real
def test_twenty_stack_seeds_are_the_same_runs_under_another_hash_seed_and_beside_a_cpu_hog() -> None:
    seeds = (900_017, *range(900_101, 900_120))
    quiet = history_under("1", "stack", 0.05, None, seeds)
    with cpu_hog():
        disturbed = history_under("2", "stack", 0.05, None, seeds)
    assert quiet == disturbed
    assert len(quiet.splitlines()) == len(seeds)


@pytest.mark.real
def test_the_clocks_of_the_machine_are_no_part_of_a_run() -> None:
    """Before a run, every clock of the process is stopped, or made to advance by a second at each read."""
    seeds = (15, 18)  # push consumers with much to do: these runs depended on the machine's clock
    stopped, fast = (history_under("0", "stack", 0.3, None, seeds, CLOCKS.format(step_s=step_s)) for step_s in (0, 1))
    assert stopped == fast
    assert len(stopped.splitlines()) == len(seeds)


def test_a_second_run_in_the_same_process_is_the_same() -> None:
    assert run(SEED, WISHES) == run(SEED, WISHES)


def test_another_seed_is_another_history() -> None:
    assert run(SEED, WISHES).history != run(SEED + 1, WISHES).history


def test_a_schedule_without_its_last_event_is_the_same_run_until_then() -> None:
    from chaos.sim.campaign.swarm import draw
    from chaos.sim.engine import schedule as schedules

    whole = schedules.make(draw(SEED, WISHES))
    assert run(SEED, WISHES, whole) == run(SEED, WISHES)
    assert run(SEED, WISHES, whole[:-1]).history != run(SEED, WISHES).history
