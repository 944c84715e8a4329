"""Many seeds, on several processes; and what they come to together.

Seeds are independent, so a campaign is a window of runs under way over an iterator of seeds; it can be stopped
between any two reports. Workers run nothing but seeds, and leave an interrupt to their parent, which lets those under
way finish.

Must not know: how it is shown, where it is recorded.
"""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Generator, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from itertools import islice
from multiprocessing import get_context

from chaos.sim.campaign.run import Report, run
from chaos.sim.campaign.swarm import Wishes

# A fault that was scheduled so often in a campaign must have happened.
LEAST_TRIES = 10


def run_seeds(seeds: Iterable[int], wishes: Wishes, jobs: int) -> Generator[Report, None, None]:
    """Runs them, and gives each report as it comes. Closing the iterator lets those under way finish, unheard."""
    if jobs == 1:
        for seed in seeds:
            yield run(seed, wishes)
        return
    # Fresh processes: whatever threads this one has would be half there in a forked one.
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=_leave_interrupts) as pool:
        waiting, under_way = iter(seeds), set[Future[Report]]()
        while True:
            for seed in islice(waiting, 2 * jobs - len(under_way)):
                under_way.add(pool.submit(run, seed, wishes))
            if not under_way:
                return
            done, under_way = wait(under_way, return_when=FIRST_COMPLETED)
            for future in done:
                yield future.result()


def _leave_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@dataclass(slots=True)
class Totals:
    """What the reports of a campaign come to."""

    seeds: int = 0
    simulated_ms: int = 0
    happened: Counter[str] = field(default_factory=Counter)
    scheduled: Counter[str] = field(default_factory=Counter)
    figures: Counter[str] = field(default_factory=Counter)
    # Those that did not pass, void ones too.
    failures: list[Report] = field(default_factory=list)

    def add(self, report: Report) -> None:
        self.seeds += 1
        self.simulated_ms += report.simulated_ms
        self.happened.update(report.happened)
        self.scheduled.update(report.scheduled)
        self.figures.update(report.figures)
        if not report.passed:
            self.failures.append(report)

    @property
    def hours(self) -> float:
        return self.simulated_ms / 3_600_000

    @property
    def never_happened(self) -> list[str]:
        """Faults that should have: then the campaign proves nothing about them."""
        return sorted(
            name for name, count in self.scheduled.items() if count >= LEAST_TRIES and not self.happened[name]
        )

    @property
    def passed(self) -> bool:
        return self.seeds > 0 and not self.failures and not self.never_happened
