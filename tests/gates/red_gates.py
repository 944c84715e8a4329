"""The red gates: faults of the deployed system, each of which `chaos run` must find.

A checker that has never reported "not valid" proves nothing. Therefore the nodes of a run get code or a library with a
planted fault. The clients, the faults of the run and the checker are unchanged. The format of a file in `plants/`:

    # the reason why this is a fault
    run: --faults kill --seconds 20                the options of `chaos run`
    node-env: LD_PRELOAD=libeatmydata.so           variables of the node processes; optional
    in raft/core/leader.py                         changes, in the format of tests/mutants; optional
    -    ...
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

from tests.mutants.catalogue import Mutant, copy_of_the_code, plant, read

PLANTS = Path(__file__).parent / "plants"


@dataclass(frozen=True, slots=True)
class Gate:
    """One planted fault. `options` are the options of `chaos run`, with and without the fault. If `node_env` and the
    plant's changes are both empty, a fault of the run itself must make the run not valid.
    """

    name: str
    options: tuple[str, ...]
    node_env: tuple[str, ...]
    plant: Mutant

    @property
    def has_control(self) -> bool:
        """Return whether the same run without the planted fault must be valid."""
        return bool(self.node_env or self.plant.changes)


def gates() -> list[Gate]:
    return [_gate(path) for path in sorted(PLANTS.glob("*.txt"))]


def planted(gate: Gate, directory: Path) -> tuple[str, ...]:
    """Plant the fault, and return the environment variables for the nodes. If the fault changes code, the changed copy
    of the code is in `directory`. Raises StaleMutantError if a change does not fit the code.
    """
    if not gate.plant.changes:
        return gate.node_env
    copy_of_the_code(directory)
    plant(gate.plant, directory)
    return (*gate.node_env, f"PYTHONPATH={directory}")


def _gate(path: Path) -> Gate:
    plant = read(path)
    return Gate(plant.name, tuple(_words(path, "run:")), tuple(_words(path, "node-env:")), plant)


def _words(path: Path, name: str) -> list[str]:
    lines = [line for line in path.read_text().splitlines() if line.startswith(name)]
    return [word for line in lines for word in shlex.split(line.removeprefix(name))]
