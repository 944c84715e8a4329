"""The promise of a run: which files it wrote, and which nodes and queues it read at the end.

A run writes its promise into `run.json` when it ends. A judgement compares the promise with the files that are there,
with their lengths and digests, because something that is missing or changed proves nothing: without the final readings
of a node, the node's losses are invisible. What was promised and is missing makes the verdict void.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import file_digest
from pathlib import Path
from typing import Annotated

from pydantic import ConfigDict, Field, StringConstraints

from chaos.live.checker.completeness import FinalReads
from chaos.live.load.processes import ClientOfRun
from ledger.history import ends_in_half_a_line
from ledger.words import counted

_PIECE = 1 << 20
_MOST_QUEUES = 1 << 16
_HISTORY = re.compile(r"client-([0-9]{1,9})\.jsonl")


@dataclass(frozen=True, slots=True)
class PromisedFile:
    """A file of JSON lines in the directory of a run. `what` says in words what the file has, and `digest` is the
    SHA-256 of its bytes. A killed client may have left half a line at the end of its history, or no history at all;
    `digest` is empty then. `role` is the role of a client, and empty for other files.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    name: Annotated[str, StringConstraints(pattern=r"^[a-z]+(-[0-9]{1,9})?\.jsonl$")]
    what: str
    lines: Annotated[int, Field(ge=0)]
    digest: str
    role: str = ""
    was_killed: bool = False


@dataclass(frozen=True, slots=True)
class RunPromise:
    """The files, the nodes of the final readings, and the number of queues of each topic. `faults` is the number of
    faults that were planned. `holders` has, for each queue of each topic, the nodes that have a replica of it. Runs of
    older versions lack `holders`: each of their nodes has all queues."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    files: tuple[PromisedFile, ...]
    nodes: tuple[Annotated[int, Field(ge=1)], ...]
    queues: dict[str, Annotated[int, Field(ge=1, le=_MOST_QUEUES)]]
    faults: Annotated[int, Field(ge=0)]
    holders: dict[str, tuple[tuple[Annotated[int, Field(ge=1)], ...], ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for topic, nodes in self.holders.items():
            if len(nodes) != self.queues.get(topic):
                raise ValueError(f"holders has {counted(len(nodes), 'queue')} of topic {topic}")

    @property
    def reads(self) -> FinalReads:
        return FinalReads(self.nodes, self.queues, self.holders)

    def histories(self, directory: Path) -> list[Path]:
        """Return the promised histories that exist, in the order in which their clients were started."""
        names = {file.name for file in self.files if file.role}
        return [path for path in histories(directory) if path.name in names]


def histories(directory: Path) -> list[Path]:
    """Return the history files of all client processes, in the order in which the processes were started."""
    numbered = [(int(found[1]), path) for path in directory.iterdir() if (found := _HISTORY.fullmatch(path.name))]
    return [path for _, path in sorted(numbered)]


def promised_files(directory: Path, clients: Iterable[ClientOfRun]) -> tuple[PromisedFile, ...]:
    """Return the files that a run has written into its directory, with their present lengths."""
    return tuple(_promised(directory, clients))


def _promised(directory: Path, clients: Iterable[ClientOfRun]) -> Iterator[PromisedFile]:
    for client in clients:
        path = directory / f"client-{client.number}.jsonl"
        what = f"the history of client {client.number} ({client.role})"
        yield PromisedFile(path.name, what, _lines(path), _digest(path), client.role, client.was_killed)
    for name, what in (("faults.jsonl", "the record of the faults"), ("leaders.jsonl", "the record of the leaders")):
        if (directory / name).exists():
            yield PromisedFile(name, what, _lines(directory / name), _digest(directory / name))


@dataclass(frozen=True, slots=True)
class BrokenPromises:
    """What is not as the run left it: one sentence for each file. `absent` has the roles of the clients whose histories
    are missing, or have fewer lines."""

    sentences: tuple[str, ...]
    absent: frozenset[str]


def broken_promises(directory: Path, promise: RunPromise) -> BrokenPromises:
    """Compare the directory of a run with its promise."""
    found = [(file, sentence) for file in promise.files if (sentence := _broken(directory, file))]
    absent = {file.role for file, _ in found if _lines(directory / file.name) < file.lines}
    return BrokenPromises((*(sentence for _, sentence in found), *_unpromised(directory, promise)), frozenset(absent))


def _broken(directory: Path, file: PromisedFile) -> str:
    """Return what is wrong with a promised file, or ""."""
    path = directory / file.name
    if not path.exists():
        is_due = file.digest or not file.was_killed
        return f"{file.name} is missing: {file.what}" if is_due else ""
    if (lines := _lines(path)) < file.lines:
        return f"{file.name} has {lines:,} of its {counted(file.lines, 'line')}: {file.what} is not whole"
    if ends_in_half_a_line(path) and not file.was_killed:
        return f"{file.name} ends in the middle of a line: {file.what} is not whole"
    return "" if _digest(path) == file.digest else f"{file.name} was changed after the run: {file.what}"


def _unpromised(directory: Path, promise: RunPromise) -> Iterator[str]:
    """Yield one sentence for each client of which the promise says nothing, and for each role without a client."""
    names = {file.name for file in promise.files}
    for path in sorted(directory.glob("client-*.json*")):
        if path.name.removesuffix("l") + "l" not in names:
            yield f"run.json does not name the client of {path.name}, so its history is not judged"
    for role in ("producers", "consumers", "final"):
        if not any(file.role == role for file in promise.files):
            yield f"run.json names no client of the role {role!r}"


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


def _digest(path: Path) -> str:
    """Return the SHA-256 of the bytes of a file; "" if there is no file."""
    try:
        with path.open("rb") as file:
            return file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""


def _lines(path: Path) -> int:
    """Return the number of whole lines of the file; 0 if there is no file."""
    try:
        with path.open("rb") as file:
            return sum(piece.count(b"\n") for piece in iter(lambda: file.read(_PIECE), b""))
    except OSError:
        return 0
