"""Hunts the planted faults: for each fault it copies the production code, applies the change, and runs seeds until one
fails.

    python -m tests.mutants.hunt [--only NAME] [--seeds 2000]        or: make mutants

A mutant must first pass some seeds without faults, because code that breaks at once proves nothing about the simulator.
Then the simulator must catch the mutant. The table shows the violated invariant and the number of seeds. The exit
status is 0 if every mutant was caught.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from tests.mutants.catalogue import Mutant, copy_of_the_code, mutants, plant

CALM_SEEDS = "1..4"
CALM_MINUTES = 0.5
MINUTES = 5


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
    ended = subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True)
    try:
        found: dict[str, Any] = json.loads(ended.stdout)
    except json.JSONDecodeError:
        raise RuntimeError(f"`ledgermq sim` printed no JSON:\n{ended.stderr}") from None
    return found


def hunt(mutant: Mutant, seeds: str, jobs: int) -> Catch:
    """Run these seeds (in the syntax of `ledgermq sim --seeds`) until one catches the mutant."""
    with tempfile.TemporaryDirectory(prefix="mutant-") as name:
        directory = Path(name)
        copy_of_the_code(directory)
        plant(mutant, directory)
        world = ("--world", mutant.world, "--jobs", str(jobs))
        calm = simulate(directory, *world, "--seeds", CALM_SEEDS, "--minutes", str(CALM_MINUTES), "--faults", "none")
        if calm["failures"]:
            raise RuntimeError(f"{mutant.name} breaks without any fault: {calm['failures'][0]['reason']}")
        found = simulate(directory, *world, "--seeds", seeds, "--minutes", str(MINUTES))
    return Catch(mutant.name, found["failures"][0]["reason"] if found["failures"] else "", found["seeds"])


@click.command()
@click.option("--only", multiple=True, help="Mutants whose name contains this.")
@click.option("--seeds", default=2000, show_default=True, help="Largest number of seeds for one mutant.")
@click.option("--jobs", default=os.cpu_count() or 1, show_default=True, help="Worker processes.")
def main(only: tuple[str, ...], seeds: int, jobs: int) -> None:
    """Hunt the planted faults, and show which the simulator caught."""
    console = Console()
    catches = []
    for mutant in mutants():
        if only and not any(part in mutant.name for part in only):
            continue
        with console.status(f"hunting: {mutant.name}"):
            catches.append(hunt(mutant, f"1..{seeds}", jobs))
        console.print(f"{mutant.name}: {catches[-1].by or 'NOT CAUGHT'} ({catches[-1].seeds} seeds)", highlight=False)
    table = Table("mutant", "caught", "by", "seeds")
    for catch in catches:
        table.add_row(catch.mutant, "yes" if catch.by else "NO", catch.by, str(catch.seeds))
    console.print(table)
    sys.exit(0 if all(catch.by for catch in catches) else 1)


if __name__ == "__main__":
    main()
