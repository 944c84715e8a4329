"""Damages the log of a stopped node, and compares the logs of nodes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ledgermq import AsyncConsumer
from store import FoundEntry, LogReader, PosixReadOnlyDisk, segment_files
from store.log.entry import HEADER_SIZE, Header
from store.log.tail import EMPTY
from tests.cluster.fleet import SEGMENT_BYTES, Fleet

FIELDS = {"magic": 0, "size": 8, "term": 24, "commit": 40, "crc": 72, "chain": 76, "body": HEADER_SIZE + 3}
"""Where in an entry a byte of each lies."""


def log_directory(fleet: Fleet, node: int) -> Path:
    return fleet.data(node) / "shard-0" / "log"


def headers(fleet: Fleet, node: int) -> list[Header]:
    """Return the headers of all whole entries on the disk of a node."""
    disk = PosixReadOnlyDisk()
    segments = segment_files(disk, log_directory(fleet, node))
    reader = LogReader(disk, segments, segment_bytes=SEGMENT_BYTES, start=EMPTY)
    return [found.header for found in reader if isinstance(found, FoundEntry)]


def segment(fleet: Fleet, node: int, position: int) -> Path:
    return log_directory(fleet, node) / f"{position // SEGMENT_BYTES * SEGMENT_BYTES:020}"


def flip(fleet: Fleet, node: int, header: Header, field: str) -> None:
    """Flip one bit in a field of this entry on the disk."""
    assert FIELDS[field] < header.size
    with open(segment(fleet, node, header.position), "r+b") as file:
        at = header.position % SEGMENT_BYTES + FIELDS[field]
        file.seek(at)
        (byte,) = file.read(1)
        file.seek(at)
        file.write(bytes([byte ^ 1]))


def killed(fleet: Fleet, node: int) -> None:
    """Remove the clean mark of a node, as if the node had been killed instead of stopped in order."""
    (fleet.data(node) / "shard-0" / "clean").unlink()


def assert_same_bytes(fleet: Fleet, nodes: Sequence[int], end: int) -> None:
    """Check that the logs of these nodes have the same bytes up to position `end`, which all of them have
    committed."""
    for base in range(0, end, SEGMENT_BYTES):
        first, *others = [segment(fleet, node, base).read_bytes() for node in nodes]
        assert len(first) == SEGMENT_BYTES
        assert all(other[: end - base] == first[: end - base] for other in others), f"the segments at {base} differ"


async def values_on(fleet: Fleet, node: int, topic: str) -> list[bytes]:
    """Read a topic with one queue from this node, from the first message to the end, and return the values."""
    async with AsyncConsumer(topic, bootstrap_servers=fleet.address(node), node=node, start="earliest") as consumer:
        (end,) = (await consumer.end_offsets()).values()
        found: list[bytes] = []
        while len(found) < end:
            messages = await consumer.getmany(1000, timeout_ms=10_000)
            assert messages, f"node {node} gives nothing more before its end"
            found += [message.value for message in messages]
    return found
