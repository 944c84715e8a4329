"""Runs many seeds on several processes and adds up their reports.

The runs of different seeds are independent, so a campaign can be stopped after any report. A campaign keeps a bounded
number of runs in progress and starts the next seed when a run ends. The worker processes of a campaign ignore SIGINT.
The parent process of a campaign handles SIGINT and lets the runs in progress finish. If the parent process is killed,
its worker processes end at once.
"""

from __future__ import annotations

import gc
import os
import signal
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from multiprocessing import get_context, parent_process
from threading import Thread

from chaos.sim.campaign.run import SeedReport, run, world_of
from chaos.sim.campaign.swarm import Wishes
from chaos.sim.reach.counts import CampaignReach
from chaos.sim.reach.places import probes_of

# If a campaign scheduled a fault kind at least this often, a fault of that kind must have had an effect.
LEAST_TRIES = 10


def run_seeds(seeds: Iterable[int], wishes: Wishes, jobs: int) -> Generator[SeedReport, None, None]:
    """Run the seeds and yield the report of each run as soon as the run ends. If the caller closes the iterator,
    the runs in progress still finish, but their reports are discarded."""
    if jobs == 1:
        with _without_code(wishes):
            for seed in seeds:
                yield run(seed, wishes)
        return
    # Use "spawn": a forked process would inherit the state of threads that do not run in it.
    with ProcessPoolExecutor(
        jobs, mp_context=get_context("spawn"), initializer=_begin_worker, initargs=(wishes,)
    ) as pool:
        waiting, under_way = iter(seeds), set[Future[SeedReport]]()
        while True:
            for seed in islice(waiting, 2 * jobs - len(under_way)):
                under_way.add(pool.submit(run, seed, wishes))
            if not under_way:
                return
            done, under_way = wait(under_way, return_when=FIRST_COMPLETED)
            for future in done:
                yield future.result()


def _begin_worker(wishes: Wishes) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_end_with_parent, name="end with the parent process", daemon=True).start()
    _leave_code_out(wishes)


def _end_with_parent() -> None:
    """End this worker when its parent process has ended. Otherwise the worker would finish the runs that it was given,
    and then wait for ever."""
    parent = parent_process()
    assert parent is not None, "a worker has a parent process"
    parent.join()
    os._exit(1)


@contextmanager
def _without_code(wishes: Wishes) -> Iterator[None]:
    is_first = gc.get_freeze_count() == 0
    _leave_code_out(wishes)
    try:
        yield
    finally:
        if is_first:  # otherwise the caller's objects would take part again too
            gc.unfreeze()


def _leave_code_out(wishes: Wishes) -> None:
    """Let the garbage collector leave out all that is loaded now, with the code of the world. Each run begins with a
    collection, and a look at all code took up to a fifth of the CPU time of a protocol seed."""
    world_of(wishes.world)
    probes_of(wishes.world)
    gc.collect()
    gc.freeze()


@dataclass(slots=True)
class Totals:
    """The sums of the figures in all reports of a campaign."""

    seeds: int = 0
    simulated_ms: int = 0
    happened: Counter[str] = field(default_factory=Counter)
    scheduled: Counter[str] = field(default_factory=Counter)
    figures: Counter[str] = field(default_factory=Counter)
    # Reports that did not pass, including void runs.
    failures: list[SeedReport] = field(default_factory=list)
    reach: CampaignReach = field(default_factory=CampaignReach)
    # Place -> how many seeds of this campaign must reach it (`chaos.sim.reach.counts.due`).
    due: Mapping[str, int] = field(default_factory=dict)

    def add(self, report: SeedReport) -> None:
        self.seeds += 1
        self.simulated_ms += report.simulated_ms
        self.happened.update(report.happened)
        self.scheduled.update(report.scheduled)
        self.figures.update(report.figures)
        self.reach.add(report.seed, report.reached, report.first_reached_ms)
        if not report.passed:
            self.failures.append(report)

    @property
    def hours(self) -> float:
        return self.simulated_ms / 3_600_000

    @property
    def never_happened(self) -> list[str]:
        """The names of the fault kinds that were scheduled at least LEAST_TRIES times and never had an effect. A
        campaign proves nothing about a fault kind that never had an effect."""
        return sorted(
            name for name, count in self.scheduled.items() if count >= LEAST_TRIES and not self.happened[name]
        )

    @property
    def never_reached(self) -> list[str]:
        """The names of the places that so many seeds should have reached, and did not. The campaign says nothing about
        the code there."""
        return [name for name, seeds in self.due.items() if self.seeds >= seeds and not self.reach.times[name]]

    @property
    def passed(self) -> bool:
        return self.seeds > 0 and not (self.failures or self.never_happened or self.never_reached)
