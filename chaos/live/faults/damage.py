"""Damage to the files of a node that is killed first: bits, pieces, old copies, files that are gone.

What a node finds when it starts is not what it wrote, and it must notice: repair it from the others, or refuse; never
serve it, never count it.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

from chaos.live.faults.fault import Fault, NoEvidenceError, Site

# A bit in the middle of what was written, rather than in the blank behind it.
_FLIPPED_AFTER = 4096

_INDEXES = ("queues", "keys", "positions")

Hurt = Callable[[Path, Random], str]


class Damaged(Fault):
    """The targets are killed, `hurt(data directory, random)` does something to their files, and they start again."""

    def __init__(self, hurt: Hurt) -> None:
        self._hurt = hurt
        self._down: list[int] = []

    def strike(self, site: Site, targets: Sequence[int]) -> str:
        evidence = []
        for node in targets:
            self._down.append(node)
            site.environment.kill(node)
            evidence.append(f"node {node}: {self._hurt(site.environment.data(node), site.random)}")
        return "; ".join(evidence)

    def heal(self, site: Site) -> str:
        return "; ".join(site.environment.start(node) for node in self._down if not site.is_up(node))


class OldCopy(Fault):
    """A file is copied while the node runs, and the copy put in its place later, while it is down."""

    def __init__(self) -> None:
        self._down: list[int] = []

    def strike(self, site: Site, targets: Sequence[int]) -> str:
        evidence = []
        copies = {node: _kept_copy(site, node) for node in targets}
        site.wait(1.0)
        for node, (path, copy) in copies.items():
            self._down.append(node)
            site.environment.kill(node)
            if path.read_bytes() == copy.read_bytes():
                raise NoEvidenceError(f"{path.name} of node {node} had not changed")
            shutil.copy(copy, path)
            evidence.append(f"node {node}: {path.name} as it was a second before")
        return "; ".join(evidence)

    def heal(self, site: Site) -> str:
        return "; ".join(site.environment.start(node) for node in self._down if not site.is_up(node))


def flip_bit(data: Path, random: Random) -> str:
    path = random.choice(_segments(data))
    content = bytearray(path.read_bytes())
    written = len(bytes(content).rstrip(b"\0"))
    if written <= _FLIPPED_AFTER:
        raise NoEvidenceError(f"{path.name} has too little in it")
    at, bit = random.randrange(_FLIPPED_AFTER, written), 1 << random.randrange(8)
    with path.open("r+b") as file:
        file.seek(at)
        file.write(bytes([content[at] ^ bit]))
    return f"bit {bit:#04x} of byte {at} of {path.name}"


def cut_file(data: Path, random: Random) -> str:
    path = random.choice(_segments(data))
    written = len(path.read_bytes().rstrip(b"\0"))
    at = random.randrange(written // 2, written)
    with path.open("r+b") as file:
        file.truncate(at)
    return f"{path.name} cut to {at} bytes of {written} written"


def lose_indexes(data: Path, random: Random) -> str:
    """All files of one kind of index: they can be built from the log."""
    found = [kind for kind in _INDEXES if [*data.glob(f"shard-*/{kind}")]]
    if not found:
        raise NoEvidenceError("there are no indexes yet")
    kind = random.choice(found)
    gone = [*data.glob(f"shard-*/{kind}")]
    for path in gone:
        shutil.rmtree(path)
    return f"{kind} of {len(gone)} shards deleted"


def _segments(data: Path) -> list[Path]:
    found = sorted(data.glob("shard-*/log/*"))
    return [path for path in found if path.name.isdigit() and path.read_bytes().rstrip(b"\0")]


def _kept_copy(site: Site, node: int) -> tuple[Path, Path]:
    path = _segments(site.environment.data(node))[-1]
    copy = site.environment.setup.directory / f"copy-of-node-{node}"
    shutil.copy(path, copy)
    return path, copy
