"""Faults that damage the files of a node: flipped bits, truncated files, old copies, deleted files.

Each fault in this module kills the node first. When the node starts again, its files differ from the files that it
wrote. The node must notice the damage. After it has noticed the damage, the node must repair the damage from the other
replicas, or refuse to start. The node must never serve damaged data, and a damaged copy must never count for a
majority.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

from chaos.live.faults.fault import Fault, FaultSite, NoEvidenceError
from ledger.words import counted

# The flipped bit lies behind this position, in the bytes that were written and not in the blank rest of the segment.
_FLIPPED_AFTER = 4096

_INDEXES = ("queues", "keys", "positions")

Hurt = Callable[[Path, Random], str]


class Damaged(Fault):
    """The targets are killed, `hurt(data directory, random)` damages their files, and they start again."""

    def __init__(self, hurt: Hurt) -> None:
        self._hurt = hurt
        self._down: list[int] = []

    def strike(self, site: FaultSite, targets: Sequence[int]) -> str:
        evidence = []
        for node in targets:
            self._down.append(node)
            site.environment.kill(node)
            evidence.append(f"node {node}: {self._hurt(site.environment.data(node), site.random)}")
        return "; ".join(evidence)

    def heal(self, site: FaultSite) -> str:
        return "; ".join(site.environment.start(node) for node in self._down if not site.is_up(node))


class OldCopy(Fault):
    """A file is copied while the node runs. Later, while the node is down, the copy replaces the file."""

    def __init__(self) -> None:
        self._down: list[int] = []

    def strike(self, site: FaultSite, targets: Sequence[int]) -> str:
        evidence = []
        copies = {node: _kept_copy(site, node) for node in targets}
        site.wait(1.0)
        for node, (path, copy) in copies.items():
            self._down.append(node)
            site.environment.kill(node)
            if path.read_bytes() == copy.read_bytes():
                raise NoEvidenceError(f"{path.name} of node {node} had not changed")
            shutil.copy(copy, path)
            evidence.append(f"node {node}: {_short(path)} was replaced by a copy that is a second older")
        return "; ".join(evidence)

    def heal(self, site: FaultSite) -> str:
        return "; ".join(site.environment.start(node) for node in self._down if not site.is_up(node))


def flip_bit(data: Path, random: Random) -> str:
    path = random.choice(_segments(data))
    content = bytearray(path.read_bytes())
    written = len(bytes(content).rstrip(b"\0"))
    if written <= _FLIPPED_AFTER:
        raise NoEvidenceError(f"{path.name} has only {written} bytes: too few to damage")
    at, bit = random.randrange(_FLIPPED_AFTER, written), 1 << random.randrange(8)
    with path.open("r+b") as file:
        file.seek(at)
        file.write(bytes([content[at] ^ bit]))
    return f"one bit of byte {at:,} of {_short(path)} was flipped"


def cut_file(data: Path, random: Random) -> str:
    path = random.choice(_segments(data))
    written = len(path.read_bytes().rstrip(b"\0"))
    at = random.randrange(written // 2, written)
    with path.open("r+b") as file:
        file.truncate(at)
    return f"{_short(path)} was cut to {at:,} of its {written:,} written bytes"


def lose_indexes(data: Path, random: Random) -> str:
    """Delete all files of one kind of index. A node can rebuild the files of an index from its log."""
    found = [kind for kind in _INDEXES if [*data.glob(f"shard-*/{kind}")]]
    if not found:
        raise NoEvidenceError("the node has no index files yet")
    kind = random.choice(found)
    gone = [*data.glob(f"shard-*/{kind}")]
    for path in gone:
        shutil.rmtree(path)
    return f"the index files `{kind}` of {counted(len(gone), 'shard')} were deleted"


def _short(path: Path) -> str:
    """Return the name of a segment file with the name of its shard."""
    return f"{path.parent.parent.name}/{path.name}"


def _segments(data: Path) -> list[Path]:
    found = sorted(data.glob("shard-*/log/*"))
    return [path for path in found if path.name.isdigit() and path.read_bytes().rstrip(b"\0")]


def _kept_copy(site: FaultSite, node: int) -> tuple[Path, Path]:
    path = _segments(site.environment.data(node))[-1]
    copy = site.environment.setup.directory / f"copy-of-node-{node}"
    shutil.copy(path, copy)
    return path, copy
