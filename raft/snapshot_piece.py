"""Defines one piece of a snapshot that a leader sends to a follower, with the bytes of the piece and their
checksum."""

from __future__ import annotations

from dataclasses import dataclass

from store import SnapshotOffer


@dataclass(frozen=True, slots=True)
class SnapshotPiece:
    """`SnapshotPiece` contains some bytes of an encoded snapshot, and the description of the whole snapshot."""

    # Describes the snapshot that the piece belongs to.
    offer: SnapshotOffer
    data: bytes
    # CRC32C of `data`.
    crc: int
