"""The red gates: faults of the deployed system, each of which `chaos run` must find.

A judge who has never said "not valid" proves nothing. So the nodes of a run get code, or a library, with a fault in
it, while clients, faults and checker are the real ones. A file of `plants/`:

    # why it is wrong
    run: --faults kill --seconds 20                what `chaos run` is given
    node-env: LD_PRELOAD=libeatmydata.so           variables of the node processes; may be left out
    in raft/core/leader.py                         changes, as of tests/mutants; may be left out
    -    ...
"""

from __future__ import annotations

import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path

from tests.mutants.catalogue import Mutant, plant, read

ROOT = Path(__file__).resolve().parent.parent.parent
PLANTS = Path(__file__).parent / "plants"
NODE_PARTS = ("store", "raft", "ledger", "cluster", "chaos", "ledgermq")


@dataclass(frozen=True, slots=True)
class Gate:
    """`options`: of `chaos run`, with and without the fault. Where neither `node_env` nor the plant's changes plant it,
    one of the faults of the run does."""

    name: str
    options: tuple[str, ...]
    node_env: tuple[str, ...]
    plant: Mutant

    @property
    def has_control(self) -> bool:
        """Whether the same run must be valid once the fault is not planted."""
        return bool(self.node_env or self.plant.changes)


def gates() -> list[Gate]:
    return [_gate(path) for path in sorted(PLANTS.glob("*.txt"))]


def planted(gate: Gate, directory: Path) -> tuple[str, ...]:
    """The variables with which a node has the fault; its code lies in `directory` then. Raises StaleMutantError."""
    if not gate.plant.changes:
        return gate.node_env
    for part in NODE_PARTS:
        shutil.copytree(ROOT / part, directory / part, ignore=shutil.ignore_patterns("__pycache__"))
    plant(gate.plant, directory)
    return (*gate.node_env, f"PYTHONPATH={directory}")


def _gate(path: Path) -> Gate:
    plant = read(path)
    return Gate(plant.name, tuple(_words(path, "run:")), tuple(_words(path, "node-env:")), plant)


def _words(path: Path, name: str) -> list[str]:
    lines = [line for line in path.read_text().splitlines() if line.startswith(name)]
    return [word for line in lines for word in shlex.split(line.removeprefix(name))]
