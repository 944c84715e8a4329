"""The planted faults: each is a small change of the production code that the simulator must notice.

A simulator that has never failed proves nothing. Therefore each planted fault is kept in a file, and hunted again when
the code or the simulator changes (`make mutants`). The format of a file in `patches/`:

    # the reason why this change is a fault
    world: stack                                   optional; the default is `protocol`
    options: --minutes 1 --faults kill             optional: what `ledgermq sim` gets; the default is `--minutes 5`
    hole: no run waits so long                     optional: why the simulator does not catch the fault
    calm: each cancel shows it                     optional: why a run without faults may catch it
    in raft/core/leader.py
    -        if held <= server.commit or ...        must occur exactly once in the file; else the mutant is stale
    +        if held <= server.commit:              the replacement
     unchanged lines begin with a blank
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PATCHES = Path(__file__).parent / "patches"
HEADS = ("world: ", "options: ", "hole: ", "calm: ")
# Options of `ledgermq sim`, unless the file of a mutant has its own.
USUAL_OPTIONS = ("--minutes", "5")
PRODUCT = ("store", "raft", "ledger", "cluster", "chaos", "ledgermq")


@dataclass(frozen=True, slots=True)
class Change:
    file: str
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Mutant:
    name: str
    world: str
    changes: tuple[Change, ...]
    options: tuple[str, ...] = USUAL_OPTIONS
    # Why the simulator does not catch the fault; "" if it must catch it.
    hole: str = ""
    # Why a run without faults may catch the fault; "" if such a run must pass.
    calm: str = ""


class StaleMutantError(Exception):
    """A change does not fit the current code. The message names the change."""


def mutants() -> list[Mutant]:
    return [read(path) for path in sorted(PATCHES.glob("*.txt"))]


def read(path: Path) -> Mutant:
    lines = path.read_text().splitlines(keepends=True)
    heads = dict(line.strip().split(": ", 1) for line in lines if line.startswith(HEADS))
    options = tuple(heads["options"].split()) if "options" in heads else USUAL_OPTIONS
    name, world = path.stem.replace("_", " "), heads.get("world", "protocol")
    return Mutant(name, world, tuple(_changes(lines)), options, heads.get("hole", ""), heads.get("calm", ""))


def _changes(lines: list[str]) -> Iterator[Change]:
    starts = [number for number, line in enumerate(lines) if line.startswith("in ")]
    for start, stop in zip(starts, [*starts, len(lines)][1:], strict=True):
        body = lines[start + 1 : stop]
        old = "".join(line[1:] for line in body if line[0] in " -")
        new = "".join(line[1:] for line in body if line[0] in " +")
        yield Change(lines[start].removeprefix("in ").strip(), old, new)


def copy_of_the_code(directory: Path) -> None:
    """Copy the packages of the product into `directory`."""
    for package in PRODUCT:
        shutil.copytree(ROOT / package, directory / package, ignore=shutil.ignore_patterns("__pycache__"))


def plant(mutant: Mutant, directory: Path) -> None:
    """Apply the changes to the copy of the code in `directory`. Raises StaleMutantError."""
    for change in mutant.changes:
        path = directory / change.file
        text = path.read_text()
        if text.count(change.old) != 1:
            raise StaleMutantError(
                f"{mutant.name}: adapt the patch; {change.file} must contain exactly once: {change.old.strip()!r}"
            )
        path.write_text(text.replace(change.old, change.new))
