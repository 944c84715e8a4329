"""Damages the files of a node that is down. The damage is a flipped bit in a file, or an old copy that replaces a
file. The next start of the node must notice the damage.

    kill, flip a bit of an entry           ─> start: damaged ─> repair from other replicas ─> it takes part again
    stop in order, put an old segment back ─> start: damaged ─> repair from other replicas ─> it takes part again
    kill, flip a bit of the present base   ─> start: refused ─> the file is restored ─> start

A start that does not notice planted damage is a violation. Nodes must repair their logs themselves, so a log that is
still damaged at the end of a run is a violation too. A node is allowed to remove damaged entries only after a failed
flush. After a failed flush, a node cannot distinguish planted damage from the effect of the failed flush. In this case
the node removes the damaged entries from its log and marks itself as suspect.
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
from chaos.sim.stack.node_part import NodePart, directory_of
from store import CommitLog, DamagedError, LogDamagedError
from store.disk.numbered import name_of

DOWN_S = 0.5
# How long an orderly stop may take before the node is killed.
STOPPED_S = 6.0
RESTORED_AFTER_S = 8.0
# Age of an old copy.
OLD_AFTER_S = 3.0
# Directories of a shard whose files can be built again from its log.
INDEXES = {"queues", "positions", "keys"}


@dataclass(frozen=True, slots=True)
class _Planted:
    """One damaged file of a node."""

    part: NodePart
    path: Path
    # Content of the file before the damage.
    content: bytes
    # Incarnation of the disk in this shard.
    incarnation: bytes


class Damages:
    """Plants damage in files, and checks that nodes notice the damage. The function `fail(invariant, what)` records
    a violation. A node has at most one damaged file at a time."""

    def __init__(self, loop: SimLoop, fail: Callable[[str, str], None], happened: Counter[str]) -> None:
        self._loop = loop
        self._happened = happened
        self._fail = fail
        # Damaged files that are not known to be repaired.
        self._planted: dict[StackNode, _Planted] = {}

    def flip(self, node: StackNode, shard: int, random: Random, index: int = 0) -> bool:
        """Kill the node, and flip a bit of entry `index`; 0 means a random entry, or the snapshot at the log start.
        Return True if it was done."""
        part = node.part(shard)
        replica = part.replica
        if replica is None or self.is_planted(node) or replica.log.last_index < replica.log.first_index:
            return False
        if not replica.driver.raft.commit:  # possibly the only copy of the entry that starts the cluster
            return False
        path, at = self._place(replica.log, node, shard, random, index)
        node.kill()
        part.plant()
        self._planted[node] = _Planted(part, path, node.disk.content(path), part.incarnation)
        node.disk.flip(path, at, random.randrange(8))
        self._loop.call_later(DOWN_S, self._must_notice, node)
        return True

    def _place(self, log: CommitLog, node: StackNode, shard: int, random: Random, index: int) -> tuple[Path, int]:
        """Choose a byte to damage, in an entry or in the snapshot at the log start. Return the path of the file
        that contains the byte, and the offset of the byte in this file."""
        if not index and log.first_index > 1 and random.random() < 0.2:
            path = directory_of(shard) / "snapshot"
            return path, random.randrange(len(node.disk.content(path)))
        is_chosen, index = bool(index), index or random.randint(log.first_index, log.last_index)
        if (
            not is_chosen and random.random() < 0.5
        ):  # choose an entry after the last checkpoint, which knows the length of the log
            index = max(log.first_index, log.last_index - random.randint(0, 4))
        position = log.reading.position(index)
        at = random.randrange(position, position + log.reading.span(index, index))
        base = at - at % node.settings.segment_bytes
        return directory_of(shard) / "log" / name_of(base), at - base

    def flip_base(self, node: StackNode, random: Random) -> bool:
        """Flip a bit of a snapshot that the node can replace. The node can use another snapshot, or fetch the
        pieces of the snapshot again."""
        disk = node.disk
        paths = [path for path in disk.files() if _is_kept_base(path) and disk.content(path)]
        if not paths:
            return False
        path = random.choice(paths)
        disk.flip(path, random.randrange(len(disk.content(path))), random.randrange(8))
        return True

    def spoil_index(self, node: StackNode, random: Random) -> bool:
        """Kill a node, and delete, cut, extend or change one index file while the node is down. After its next
        start, the node must rebuild or repair the index."""
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
        """Copy the newest segment of a node's log, and replace the segment by this old copy later. The segment is
        replaced only if the other nodes can work without this node, according to the function `can_do_without`. The
        fault is counted when the old copy has replaced the segment."""
        part = node.part(shard)
        replica = part.replica
        if replica is None or replica.log.end == 0 or self.is_planted(node):
            return
        base = (replica.log.end - 1) // node.settings.segment_bytes * node.settings.segment_bytes
        path = directory_of(shard) / "log" / name_of(base)
        put_back = partial(self._put_old_back, node, part, path, node.disk.content(path), can_do_without)
        self._loop.call_later(OLD_AFTER_S, self._stop, node, part, path, put_back, node.process)

    def lose_end(self, node: StackNode, shard: int, can_do_without: Callable[[StackNode], bool]) -> None:
        """Stop the node in order, and remove the last entry of its log while it is down, as an older copy of the file
        would. The fault is counted when the entry is gone."""
        part, process = node.part(shard), node.process
        if part.replica is None or self.is_planted(node):
            return
        node.stop()
        self._loop.call_later(STOPPED_S, self._lose_end, node, part, part.replica.log, process, can_do_without)

    def _lose_end(
        self,
        node: StackNode,
        part: NodePart,
        log: CommitLog,
        process: object,
        can_do_without: Callable[[StackNode], bool],
    ) -> None:
        position, step = log.reading.position(log.last_index), node.settings.segment_bytes
        path = directory_of(part.shard) / "log" / name_of(position - position % step)
        old = bytearray(node.disk.content(path)) if node.disk.has(path) else bytearray()
        old[position % step :] = bytes(len(old) - position % step)
        self._happened["end_lost"] += self._put_back(node, part, path, bytes(old), can_do_without, process)

    def _stop(
        self, node: StackNode, part: NodePart, path: Path, put_back: Callable[[object], None], process: object
    ) -> None:
        is_same = node.process is process and process is not None
        if is_same and not self.is_planted(node) and _is_read(node, part, path):
            node.stop()
            self._loop.call_later(1.0, put_back, node.process)

    def _put_old_back(
        self,
        node: StackNode,
        part: NodePart,
        path: Path,
        old: bytes,
        can_do_without: Callable[[StackNode], bool],
        process: object,
    ) -> None:
        self._happened["old_file"] += self._put_back(node, part, path, old, can_do_without, process)

    def _put_back(
        self,
        node: StackNode,
        part: NodePart,
        path: Path,
        old: bytes,
        can_do_without: Callable[[StackNode], bool],
        process: object,
    ) -> bool:
        if process is None or node.process not in (None, process):
            return False
        if node.alive:
            node.kill()  # the orderly stop did not finish
        disk = node.disk
        was_clean, there = disk.exists(directory_of(part.shard) / "clean"), disk.exists(path)
        if was_clean and there and disk.content(path) != old and can_do_without(node):
            part.plant()
            self._planted[node] = _Planted(part, path, disk.content(path), part.incarnation)
            disk.put_back(path, old)
            self._must_notice(node)
            return True
        node.start_again()
        return False

    def _must_notice(self, node: StackNode) -> None:
        planted = self._planted.get(node)
        if node.alive or planted is None or not node.is_present:
            return
        node.start()
        if node.process is not None and not planted.part.is_damaged and not planted.part.suspect:
            self._fail("damage is noticed", f"node {node.node} started with the damaged file {planted.path}")

    def is_planted(self, node: StackNode) -> bool:
        """Return True if the node has a damaged file that is not repaired yet."""
        planted = self._planted.get(node)
        if planted is not None and node.process is not None and not planted.part.is_damaged:
            del self._planted[node]
            self._happened["repaired"] += planted.incarnation == planted.part.incarnation
        return node in self._planted

    def noticed(self, node: StackNode) -> bool:
        """Return True if the process of the node ended because it noticed planted damage, which only an operator
        can repair."""
        if node not in self._planted or not isinstance(node.ended, DamagedError):
            return False
        if isinstance(node.ended, LogDamagedError) and node.settings.peers:
            self._fail("damage is repaired", f"node {node.node} ended instead of repairing its log: {node.ended}")
        self._loop.call_later(RESTORED_AFTER_S, self._restore_and_start, node)
        return True

    def _restore_and_start(self, node: StackNode) -> None:
        self._restore(node)
        node.start_again()

    def restore_all(self) -> None:
        """Restore the damaged files of all nodes that are down because of damage."""
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


def _is_read(node: StackNode, part: NodePart, path: Path) -> bool:
    """Return True if the next start of the node reads this segment. A start does not read segments before the log
    start."""
    if part.replica is None:
        return False
    log = part.replica.log
    start = log.reading.position(log.first_index) if log.last_index >= log.first_index else log.end
    return int(path.name) + node.settings.segment_bytes > start
