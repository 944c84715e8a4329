"""Damage to the files of a node that is down: a flipped bit, an old copy put back. The node must notice at its start.

    kill, flip a bit of an entry           ─> start: damaged ─> the others have the bytes ─> it takes part again
    stop in order, put an old segment back ─> start: damaged ─> the others have the bytes ─> it takes part again
    kill, flip a bit of the present base   ─> start: refused ─> the file is restored ─> start

Damage is planted, and a start that takes it for whole is a violation. Nobody repairs a log but the nodes themselves:
one that is not whole when all is over is a violation too. A node whose last flush had failed takes damage for what
that left behind, cuts it off, and knows that it may lack something.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random

from chaos.sim.engine.loop import SimLoop
from chaos.sim.stack.node import StackNode
from chaos.sim.stack.node_part import Part, directory_of
from store import CommitLog, DamagedError, LogDamagedError
from store.disk.numbered import name_of

DOWN_S = 0.5
RESTORED_AFTER_S = 8.0
OLD_AFTER_S = 3.0
"""How old an old copy is."""
INDEXES = {"queues", "positions", "keys"}
"""Directories of a shard, each with what can be built from its log."""


@dataclass(frozen=True, slots=True)
class _Planted:
    part: Part
    path: Path
    content: bytes
    """Of the file, as it was when it was whole."""
    incarnation: bytes
    """Of the disk, in that shard."""


class Damages:
    """`fail(invariant, what)` is told of violations. Of a node one file at a time is damaged, in one of its shards."""

    def __init__(self, loop: SimLoop, fail: Callable[[str, str], None], happened: Counter[str]) -> None:
        self._loop = loop
        self._happened = happened
        self._fail = fail
        self._planted: dict[StackNode, _Planted] = {}
        """What was damaged, and is not known to be whole again."""

    def flip(self, node: StackNode, shard: int, random: Random) -> bool:
        part = node.part(shard)
        replica = part.replica
        if replica is None or self.is_planted(node) or replica.log.last_index < replica.log.first_index:
            return False
        if not replica.driver.raft.commit:  # nobody else may have the entry by which the cluster begins
            return False
        path, at = self._place(replica.log, node, shard, random)
        node.kill()
        self._planted[node] = _Planted(part, path, node.disk.content(path), part.incarnation)
        node.disk.flip(path, at, random.randrange(8))
        self._loop.call_later(DOWN_S, self._must_notice, node)
        return True

    def _place(self, log: CommitLog, node: StackNode, shard: int, random: Random) -> tuple[Path, int]:
        """Of a byte that matters: in an entry, or in the base before the first one."""
        if log.first_index > 1 and random.random() < 0.2:
            path = directory_of(shard) / "snapshot"
            return path, random.randrange(len(node.disk.content(path)))
        index = random.randint(log.first_index, log.last_index)
        if random.random() < 0.5:  # behind the last checkpoint, which knows how long the log was
            index = max(log.first_index, log.last_index - random.randint(0, 4))
        position = log.reading.position(index)
        at = random.randrange(position, position + log.reading.span(index, index))
        base = at - at % node.settings.segment_bytes
        return directory_of(shard) / "log" / name_of(base), at - base

    def flip_base(self, node: StackNode, random: Random) -> bool:
        """In one that the node may do without: it begins its log elsewhere then, or asks for the pieces once more."""
        disk = node.disk
        paths = [path for path in disk.files() if _is_kept_base(path) and disk.content(path)]
        if not paths:
            return False
        path = random.choice(paths)
        disk.flip(path, random.randrange(len(disk.content(path))), random.randrange(8))
        return True

    def spoil_index(self, node: StackNode, random: Random) -> bool:
        """Its file is lost, cut short, longer or wrong when the node starts again, which is no harm."""
        if not node.alive or self.is_planted(node):
            return False
        node.kill()
        disk = node.disk
        paths = [path for path in disk.files() if _can_be_built_anew(path) and disk.content(path)]
        if paths:
            path = random.choice(paths)
            content = disk.content(path)
            at, some = random.randrange(len(content)), random.randbytes(random.randint(1, 40))
            spoiled = random.choice(
                (b"", content[:at], content + some, content[:at] + some + content[at + len(some) :])
            )
            disk.put_back(path, spoiled) if spoiled else disk.unlink(path)
        self._loop.call_later(DOWN_S, node.start_again)
        return bool(paths)

    def put_back_old(self, node: StackNode, shard: int, can_do_without: Callable[[StackNode], bool]) -> None:
        """Keeps a copy of the newest segment now, for later; it is counted when it comes to that, if the others
        `can_do_without` the node then."""
        part = node.part(shard)
        replica = part.replica
        if replica is None or replica.log.end == 0 or self.is_planted(node):
            return
        base = (replica.log.end - 1) // node.settings.segment_bytes * node.settings.segment_bytes
        path = directory_of(shard) / "log" / name_of(base)
        put_back = partial(self._put_back, node, part, path, node.disk.content(path), can_do_without)
        self._loop.call_later(OLD_AFTER_S, self._stop, node, part, path, put_back, node.process)

    def _stop(
        self, node: StackNode, part: Part, path: Path, put_back: Callable[[object], None], process: object
    ) -> None:
        is_same = node.process is process and process is not None
        if is_same and not self.is_planted(node) and _is_read(node, part, path):
            node.stop()
            self._loop.call_later(1.0, put_back, node.process)

    def _put_back(
        self,
        node: StackNode,
        part: Part,
        path: Path,
        old: bytes,
        can_do_without: Callable[[StackNode], bool],
        process: object,
    ) -> None:
        if process is None or node.process not in (None, process):
            return
        if node.alive:
            node.kill()  # the orderly stop did not come to its end
        disk = node.disk
        was_clean, there = disk.exists(directory_of(part.shard) / "clean"), disk.exists(path)
        if was_clean and there and disk.content(path) != old and can_do_without(node):
            self._planted[node] = _Planted(part, path, disk.content(path), part.incarnation)
            disk.put_back(path, old)
            self._happened["old_file"] += 1
            self._must_notice(node)
        else:
            node.start_again()

    def _must_notice(self, node: StackNode) -> None:
        planted = self._planted.get(node)
        if node.alive or planted is None or not node.is_present:
            return
        node.start()
        if node.process is not None and not planted.part.is_damaged and not planted.part.suspect:
            self._fail("damage is noticed", f"node {node.node} starts on {planted.path}")

    def is_planted(self, node: StackNode) -> bool:
        """Whether a damaged file lies there still."""
        planted = self._planted.get(node)
        if planted is not None and node.process is not None and not planted.part.is_damaged:
            del self._planted[node]
            self._happened["repaired"] += planted.incarnation == planted.part.incarnation
        return node in self._planted

    def noticed(self, node: StackNode) -> bool:
        """Whether the end of this node was that it noticed planted damage that only a person can repair."""
        if node not in self._planted or not isinstance(node.ended, DamagedError):
            return False
        if isinstance(node.ended, LogDamagedError) and node.settings.peers:
            self._fail("damage is repaired", f"node {node.node} ends: {node.ended}")
        self._loop.call_later(RESTORED_AFTER_S, self._restore_and_start, node)
        return True

    def _restore_and_start(self, node: StackNode) -> None:
        self._restore(node)
        node.start_again()

    def restore_all(self) -> None:
        """Of the nodes that are down for it, and wait for a person."""
        for node in [*self._planted]:
            if isinstance(node.ended, DamagedError):
                self._restore(node)

    def _restore(self, node: StackNode) -> None:
        planted = self._planted.pop(node, None)
        if planted is not None and node.process is None and node.is_present:
            node.disk.put_back(planted.path, planted.content)


def _is_kept_base(path: Path) -> bool:
    return path.parent.name == "snapshots" or path.name == "incoming"


def _can_be_built_anew(path: Path) -> bool:
    return path.name == "checkpoint" or any(parent.name in INDEXES for parent in path.parents)


def _is_read(node: StackNode, part: Part, path: Path) -> bool:
    """Whether a start would read that segment: one that lies before the log's start it would not."""
    if part.replica is None:
        return False
    log = part.replica.log
    start = log.reading.position(log.first_index) if log.last_index >= log.first_index else log.end
    return int(path.name) + node.settings.segment_bytes > start
