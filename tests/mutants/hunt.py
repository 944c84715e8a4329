"""Hunts the planted faults: for each fault it copies the production code, applies the change, and runs seeds until one
fails.

    python -m tests.mutants.hunt [--only NAME] [--seeds 300]        or: make mutants

A mutant must first pass some seeds without faults, because code that breaks at once proves nothing about the
simulator. Then the simulator must catch the mutant. A planted fault that the load alone shows is caught without other
faults; its file says why (`calm`). The table shows the violated invariant and the number of seeds. The
file of a mutant that the simulator cannot catch says why: this is a *hole*, and such a mutant is hunted only with
--holes. The exit status is 0 if every other mutant was caught. A hunt that is stopped (SIGINT, SIGTERM) ends the
processes that it started.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from chaos.sim.scale.options import SCALE
from tests.mutants.catalogue import Mutant, copy_of_the_code, mutants, plant

CALM = ("--seeds", "1..4", "--minutes", "0.5", "--faults", "none")
# In the scale world the scenarios are the faults.
CALM_SCALE = ("--seeds", "1..4", "--scenarios", "none")


@dataclass(frozen=True, slots=True)
class Catch:
    """The result of a hunt. `by` is the reason of the failed run; empty if the mutant was not caught."""

    mutant: str
    by: str
    seeds: int


def simulate(directory: Path, *options: str) -> dict[str, Any]:
    """Run `ledgermq sim` with the code in this directory. Returns the JSON output."""
    command = [sys.executable, "-m", "cluster.cli", "sim", "--json", "--no-shrink", "--until-failure", *options]
    environment = {**os.environ, "PYTHONPATH": str(directory)}
    with subprocess.Popen(
        command, cwd=directory, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as simulator:
        try:
            out, err = simulator.communicate()
        finally:
            simulator.kill()  # its worker processes end with it
    try:
        found: dict[str, Any] = json.loads(out)
    except json.JSONDecodeError:
        raise RuntimeError(f"`ledgermq sim` printed no JSON:\n{err}") from None
    return found


def hunt(mutant: Mutant, seeds: str, jobs: int) -> Catch:
    """Run these seeds (in the syntax of `ledgermq sim --seeds`) until one catches the mutant."""
    with tempfile.TemporaryDirectory(prefix="mutant-") as name:
        directory = Path(name)
        copy_of_the_code(directory)
        plant(mutant, directory)
        world = ("--world", mutant.world, *(() if mutant.world == SCALE else ("--jobs", str(jobs))))
        calm = simulate(directory, *world, *((*mutant.options, *CALM_SCALE) if mutant.world == SCALE else CALM))
        if broken := failure_of(calm):
            if not mutant.calm:
                raise RuntimeError(f"{mutant.name} breaks without any fault: {broken}")
            return Catch(mutant.name, broken, calm["seeds"])
        found = simulate(directory, *world, "--seeds", seeds, *mutant.options)
    return Catch(mutant.name, failure_of(found), found["seeds"])


def failure_of(found: Mapping[str, Any]) -> str:
    """Return the reason of the first seed that failed, or "". A seed in which a requested fault had no effect proves
    nothing, so it catches no mutant."""
    return next((each["reason"] for each in found["failures"] if not each["void"]), "")


def _stopped(number: int, _: object) -> None:
    sys.exit(128 + number)


@click.command()
@click.option("--only", multiple=True, help="Mutants whose name contains this.")
@click.option("--seeds", default=300, show_default=True, help="Largest number of seeds for one mutant.")
@click.option("--jobs", default=os.cpu_count() or 1, show_default=True, help="Worker processes.")
@click.option("--holes", is_flag=True, help="Also hunt the mutants that the simulator is known not to catch.")
def main(only: tuple[str, ...], seeds: int, jobs: int, holes: bool) -> None:
    """Hunt the planted faults, and show which the simulator caught."""
    signal.signal(signal.SIGTERM, _stopped)
    console = Console()
    table = Table("mutant", "caught", "by", "seeds")
    missed = []
    for mutant in mutants():
        if only and not any(part in mutant.name for part in only):
            continue
        if mutant.hole and not holes:
            table.add_row(mutant.name, "hole", mutant.hole, "")
            continue
        with console.status(f"hunting: {mutant.name}"):
            catch = hunt(mutant, f"1..{seeds}", jobs)
        console.print(f"{mutant.name}: {catch.by or 'NOT CAUGHT'} ({catch.seeds} seeds)", highlight=False)
        table.add_row(mutant.name, "yes" if catch.by else "NO", catch.by or mutant.hole, str(catch.seeds))
        missed += [] if catch.by or mutant.hole else [mutant.name]
    console.print(table)
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
