"""The promise of a run: which files it wrote, and which nodes and queues it read at the end.

A run writes its promise into `run.json` when it ends. A judgement compares the promise with the files that are there,
because something that is missing proves nothing: without the final readings of a node, the node's losses are invisible.
What was promised and is missing makes the verdict void.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from chaos.live.checker.completeness import FinalReads
from chaos.live.load.processes import ClientOfRun

_PIECE = 1 << 20


@dataclass(frozen=True, slots=True)
class PromisedFile:
    """A file of JSON lines in the directory of a run. `what` says in words what the file has. A killed client may have
    left half a line at the end of its history.
    """

    name: str
    what: str
    lines: int
    was_killed: bool = False


@dataclass(frozen=True, slots=True)
class RunPromise:
    """The files, the nodes of the final readings, and the number of queues of each topic. `faults` is the number of
    faults that were planned."""

    files: tuple[PromisedFile, ...]
    nodes: tuple[int, ...]
    queues: dict[str, int]
    faults: int

    @property
    def reads(self) -> FinalReads:
        return FinalReads(self.nodes, self.queues)

    @classmethod
    def of(cls, values: dict[str, Any]) -> Self:
        """Return the promise from the values of `run.json`. Raises KeyError or TypeError if they are no promise."""
        files = tuple(PromisedFile(**file) for file in values["files"])
        return cls(files, tuple(values["nodes"]), dict(values["queues"]), int(values["faults"]))


def promised_files(directory: Path, clients: Iterable[ClientOfRun]) -> tuple[PromisedFile, ...]:
    """Return the files that a run has written into its directory, with their present lengths."""
    return tuple(_promised(directory, clients))


def _promised(directory: Path, clients: Iterable[ClientOfRun]) -> Iterator[PromisedFile]:
    for client in clients:
        path = directory / f"client-{client.number}.jsonl"
        if path.exists() or not client.was_killed:
            what = f"the history of client {client.number} ({client.role})"
            yield PromisedFile(path.name, what, _lines(path), client.was_killed)
    for name, what in (("faults.jsonl", "the record of the faults"), ("leaders.jsonl", "the record of the leaders")):
        if (directory / name).exists():
            yield PromisedFile(name, what, _lines(directory / name))


def absent_files(directory: Path, promise: RunPromise) -> list[str]:
    """Return one sentence for each promised file that is missing or is shorter than the run left it."""
    sentences = []
    for file in promise.files:
        path = directory / file.name
        lines = _lines(path)
        if not path.exists():
            sentences.append(f"{file.name} is missing: {file.what}")
        elif lines < file.lines:
            sentences.append(f"{file.name} has {lines:,} of its {file.lines:,} lines: {file.what} is not whole")
        elif ends_in_half_a_line(path) and not file.was_killed:
            sentences.append(f"{file.name} ends in the middle of a line: {file.what} is not whole")
    return sentences


def half_lines(paths: Iterable[Path], promise: RunPromise | None = None) -> list[str]:
    """Return one sentence for each history that ends in the middle of a line. A judgement does not see the operation
    of this line."""
    killed = {file.name for file in promise.files if file.was_killed} if promise is not None else set()
    return [
        f"{path.name} ends in the middle of a line, which is not judged"
        + (": its client was killed" if path.name in killed else "")
        for path in paths
        if ends_in_half_a_line(path)
    ]


def ends_in_half_a_line(path: Path) -> bool:
    """Return whether the last line of the file has no newline at its end."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - 1))
            return file.read(1) not in (b"", b"\n")
    except OSError:
        return False


def _lines(path: Path) -> int:
    """Return the number of whole lines of the file; 0 if there is no file."""
    try:
        with path.open("rb") as file:
            return sum(piece.count(b"\n") for piece in iter(lambda: file.read(_PIECE), b""))
    except OSError:
        return 0
