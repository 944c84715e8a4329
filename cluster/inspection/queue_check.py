"""ConsumeQueue units against the log: what each message's unit says, and what the log gives.

    entry 57: topic 3, queue 1, offsets 100 .. 119, at 4,096, 800 bytes
    <queues>/3-1/00000000000000000000, units 100 .. 119     position 4,096, size 800, tag hash as in the batch

One idea: as entries come by, in order, the bytes that their units must have are made once more and compared with those
that are there. Units may lag behind a log whose node was killed; none may say anything else than the log. Those of a
topic that was deleted may be there or not.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from google.protobuf.message import DecodeError

from ledger.batch import tag_hashes
from ledger.errors import LedgerError
from ledger.v1 import command_pb2
from store import Flaw, FlawKind, Found, Kind, PosixReadOnlyDisk
from store.disk.disk import view_file
from store.disk.numbered import name_of, numbers_of
from store.index.consume_queue import UNIT_BYTES, UNITS_PER_FILE, unit_bytes

_OPEN_FILES = 64


@dataclass(slots=True)
class _Queue:
    """One queue, as the log has shown it so far."""

    next_offset: int
    absent: tuple[int, int] | None = None
    """(offset, index of its entry) of the first unit that is not there."""


class QueueCheck:
    def __init__(self, directory: Path) -> None:
        self._disk = PosixReadOnlyDisk()
        self._directory = directory
        self._queues: dict[tuple[int, int], _Queue] = {}
        self._deleted: dict[int, None] = {}
        """Ids of topics."""
        self._views: OrderedDict[Path, memoryview] = OrderedDict()
        # The last flaw of units, as long as the next one may continue it.
        self._wrong: Flaw | None = None
        self._is_continuous = True
        self.units = 0
        """How many were there and right."""

    @property
    def queues(self) -> int:
        return len(self._queues)

    def interrupted(self) -> None:
        """The log has a gap here: offsets may have been in it."""
        self._is_continuous = False
        for queue in self._queues.values():
            queue.next_offset = -1

    def take(self, found: Found) -> Iterator[Flaw]:
        header = found.header
        if header.kind is Kind.COMMAND:
            self._forget(deleted_topic(found.body))
        if header.kind is not Kind.BATCH:
            return
        key, last = (header.topic_id, header.queue), header.base_offset + header.count
        queue = self._queues.setdefault(key, _Queue(header.base_offset if self._is_continuous else -1))
        if queue.next_offset not in (-1, header.base_offset):
            reason = (
                f"its messages begin at offset {header.base_offset}, and queue {key[1]} of topic {key[0]} goes on at"
            )
            yield Flaw(
                FlawKind.DAMAGE, found.path, header.position, header.index, f"{reason} {queue.next_offset}", header.end
            )
        queue.next_offset = last
        try:
            hashes = tag_hashes(found.body)
            due = unit_bytes(header.position, header.size, hashes, header.count)
        except (LedgerError, ValueError) as error:
            reason = f"its body is no batch ({error})"
            yield Flaw(FlawKind.DAMAGE, found.path, header.position, header.index, reason, header.end)
            return
        yield from self._compare(queue, key, found, due)

    def _forget(self, topic_id: int | None) -> None:
        if topic_id is not None:
            self._deleted[topic_id] = None
            self._queues = {key: queue for key, queue in self._queues.items() if key[0] != topic_id}

    def _compare(self, queue: _Queue, key: tuple[int, int], found: Found, due: bytes) -> Iterator[Flaw]:
        header = found.header
        done = 0
        while done < header.count:
            offset = header.base_offset + done
            at = offset % UNITS_PER_FILE
            count = min(header.count - done, UNITS_PER_FILE - at)
            path = self._path(key, offset - at)
            there = self._view(path)[at * UNIT_BYTES : (at + count) * UNIT_BYTES]
            there = there[: len(there) // UNIT_BYTES * UNIT_BYTES]
            if len(there) < count * UNIT_BYTES and queue.absent is None:
                queue.absent = (offset + len(there) // UNIT_BYTES, header.index)
            expected = due[done * UNIT_BYTES :][: len(there)]
            if there != expected:
                yield from self._tell(path, at, bytes(there), expected, header.index)
            else:
                self.units += len(there) // UNIT_BYTES
            done += count

    def _tell(self, path: Path, at: int, there: bytes, due: bytes, index: int) -> Iterator[Flaw]:
        """Units that are wrong, each run of them once."""
        wrong = [i for i in range(0, len(due), UNIT_BYTES) if there[i : i + UNIT_BYTES] != due[i : i + UNIT_BYTES]]
        self.units += (len(due) // UNIT_BYTES) - len(wrong)
        start = at * UNIT_BYTES
        for i in wrong:
            place, end = start + i, start + i + UNIT_BYTES
            before = self._wrong
            if before is not None and (before.path, before.end) == (path, place):
                self._wrong = Flaw(
                    before.kind, path, before.position, before.index, before.reason, end, last_index=index
                )
                continue
            yield from self._settle()
            unit = int(path.name) + place // UNIT_BYTES
            reason = f"the unit of offset {unit} is not what the log gives for entry {index}"
            self._wrong = Flaw(FlawKind.DAMAGE, path, place, index, reason, end, last_index=index)

    def _settle(self) -> Iterator[Flaw]:
        if self._wrong is not None:
            yield self._wrong
            self._wrong = None

    # -- at the end of the log

    def finish(self, *, known_commit: int, begins_later: bool, orderly: bool, changing: bool) -> Iterator[Flaw]:
        """What units lack, and what they have too much. `begins_later`: the log does not begin at entry 1, so a queue
        may have units of which it knows nothing. `changing`: the node runs, and more of both may have come."""
        yield from self._settle()
        for (topic, number), queue in sorted(self._queues.items()):
            if queue.absent is not None and queue.absent[1] <= known_commit and not changing:
                yield self._absent((topic, number), *queue.absent, orderly=orderly)
        if not changing and self._disk.exists(self._directory):
            for name in self._disk.list(self._directory):
                yield from self._surplus(name, begins_later)

    def _absent(self, key: tuple[int, int], offset: int, index: int, *, orderly: bool) -> Flaw:
        path = self._path(key, offset - offset % UNITS_PER_FILE)
        kind = FlawKind.DAMAGE if orderly else FlawKind.TORN
        reason = f"the units end before offset {offset}, though entry {index} was committed"
        return Flaw(kind, path, offset % UNITS_PER_FILE * UNIT_BYTES, index, reason)

    def _surplus(self, name: str, begins_later: bool) -> Iterator[Flaw]:
        """Units of one queue behind the last one that the log gives."""
        topic, dash, number = name.partition("-")
        if not (dash and topic.isdigit() and number.isdigit()) or int(topic) in self._deleted:
            return
        queue = self._queues.get((int(topic), int(number)))
        if queue is None and begins_later:
            return
        end = queue.next_offset if queue is not None else 0
        for base in numbers_of(self._disk.list(self._directory / name)):
            path = self._directory / name / name_of(base)
            size = len(self._view(path))
            if size % UNIT_BYTES:
                reason = f"the file ends within a unit, at {size} bytes"
                yield Flaw(FlawKind.TORN, path, size - size % UNIT_BYTES, None, reason)
            first = max(0, end - base)
            if end >= 0 and first < size // UNIT_BYTES:
                reason = f"units from offset {base + first} on are of messages that the log does not have"
                yield Flaw(FlawKind.DAMAGE, path, first * UNIT_BYTES, None, reason)

    def _path(self, key: tuple[int, int], base: int) -> Path:
        return self._directory / f"{key[0]}-{key[1]}" / name_of(base)

    def _view(self, path: Path) -> memoryview:
        """The file's bytes; none where there is no file."""
        view = self._views.get(path)
        if view is None:
            if len(self._views) == _OPEN_FILES:
                self._views.popitem(last=False)
            view = self._views[path] = view_file(self._disk, path) if self._disk.exists(path) else memoryview(b"")
        self._views.move_to_end(path)
        return view


def deleted_topic(command: bytes | memoryview) -> int | None:
    """Its id, where that command deletes one."""
    try:
        parsed = command_pb2.Command.FromString(bytes(command))
    except DecodeError:
        return None
    return parsed.delete_topic.topic_id if parsed.HasField("delete_topic") else None
