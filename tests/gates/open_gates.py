"""Runs the planted faults of the deployed system, and reports which of them `chaos run` finds.

    python -m tests.gates.open_gates [--only NAME] [--tries 5] [--seed 1] [--control]        or: make gates

Needs root, as `chaos run --env local` does. Each gate runs with one seed after another until the fault is caught. With
`--control`, the unchanged code runs with the same options and seed and must be valid; otherwise the catch proves
nothing. The exit status is 0 if all faults were caught and all controls were valid.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from contextlib import nullcontext
from ctypes.util import find_library
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from tests.gates.red_gates import Gate, gates, planted
from tests.mutants.catalogue import ROOT

LIBRARIES = {"libeatmydata.so": "libeatmydata1"}


@dataclass(frozen=True, slots=True)
class Judged:
    """The verdict of `chaos run`. `anomalies` maps kinds to counts; `trouble` says why there is no verdict."""

    valid: bool | None
    anomalies: dict[str, int]
    trouble: str

    def __str__(self) -> str:
        if self.valid is None:
            return f"no verdict: {self.trouble}"
        return "valid" if self.valid else ", ".join(f"{kind} ({count:,})" for kind, count in self.anomalies.items())


@dataclass(frozen=True, slots=True)
class Opened:
    """The result of a gate: the verdict of the last run, the number of runs, and the verdict of the same run without
    the planted fault.
    """

    gate: str
    judged: Judged
    tries: int
    control: Judged | None

    @property
    def is_right(self) -> bool:
        return self.judged.valid is False and (self.control is None or self.control.valid is True)


def chaos_run(gate: Gate, seed: int, node_env: tuple[str, ...]) -> Judged:
    """Make one run in a temporary directory."""
    with tempfile.TemporaryDirectory(prefix="gate-") as out:
        command = [sys.executable, "-m", "chaos", "run", *gate.options, "--seed", str(seed), "--json"]
        command += ["--out", f"{out}/run", *(word for one in node_env for word in ("--node-env", one))]
        path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
        ended = subprocess.run(
            command, cwd=out, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False
        )
    try:
        told: dict[str, Any] = json.loads(ended.stdout)
    except json.JSONDecodeError:
        return Judged(None, {}, ended.stderr.strip()[-500:])
    anomalies = {kind: found["count"] for kind, found in told["anomalies"].items() if found["count"]}
    return Judged(told["valid"], anomalies, "; ".join(told["void"]))


def open_gate(gate: Gate, tries: int, *, first_seed: int = 1, control: bool = False) -> Opened:
    """Run the gate with one seed after another until the fault is caught."""
    with tempfile.TemporaryDirectory(prefix="planted-") as name:
        node_env = planted(gate, Path(name))
        for seed in range(first_seed, first_seed + tries):
            judged = chaos_run(gate, seed, node_env)
            if judged.valid is False:
                break
    tried = seed - first_seed + 1
    return Opened(gate.name, judged, tried, chaos_run(gate, seed, ()) if control and gate.has_control else None)


def missing_libraries(wanted: list[Gate]) -> list[str]:
    """Return the Debian packages that these gates need and that are not installed."""
    told = " ".join(variable for gate in wanted for variable in gate.node_env)
    stems = {library: library.removeprefix("lib").removesuffix(".so") for library in LIBRARIES if library in told}
    return [LIBRARIES[library] for library, stem in stems.items() if find_library(stem) is None]


@click.command()
@click.option("--only", multiple=True, help="Run only gates whose name contains this.")
@click.option("--tries", type=click.IntRange(1), default=5, show_default=True, help="Seeds that a gate may need.")
@click.option("--seed", default=1, show_default=True, help="The first seed.")
@click.option("--control", is_flag=True, help="Also run the unchanged code with the same options.")
def main(only: tuple[str, ...], tries: int, seed: int, control: bool) -> None:
    """Run the planted faults of the deployed system, and show which `chaos run` finds."""
    console = Console()
    wanted = [gate for gate in gates() if not only or any(part in gate.name for part in only)]
    if missing := missing_libraries(wanted):
        console.print(f"not installed; on Debian: apt-get install {' '.join(missing)}")
        sys.exit(2)
    opened = []
    for gate in wanted:
        with console.status(f"running: {gate.name}") if console.is_terminal else nullcontext():
            opened.append(open_gate(gate, tries, first_seed=seed, control=control))
        console.print(f"{gate.name}: {opened[-1].judged} (run {opened[-1].tries})", highlight=False, soft_wrap=True)
    table = Table("gate", "caught", "by", "runs", "without the fault")
    for one in opened:
        caught = "yes" if one.judged.valid is False else "NO"
        table.add_row(one.gate, caught, str(one.judged), str(one.tries), str(one.control or ""))
    console.print(table)
    sys.exit(0 if all(one.is_right for one in opened) else 1)


if __name__ == "__main__":
    main()
