"""An incoming snapshot arrives from another node in pieces. An interrupted transfer continues where it stopped.

    the offer, 36 bytes: magic, version, index, term, size, crc of the whole (little-endian u32 u32 u64 u64 u64 u32);
    then one frame for each piece that has come, without gaps:

     0        4        8
    +--------+--------+----------- - - -+
    | size   | crc    | piece           |      crc = CRC32C of the piece
    +--------+--------+----------- - - -+

Each piece has its own CRC, which shows whether a crash damaged the piece, so no piece needs to be flushed. After a
kill or a power loss, only the first pieces in the file are certainly undamaged, up to the first piece with a wrong
CRC. The node requests all pieces from the first damaged piece on again. An incoming snapshot can be used only when it
has been received completely and its CRC is right. `SnapshotFile.begin_reset` makes the decision to use the snapshot.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import google_crc32c

from store.disk.disk import Disk, File, remove_file
from store.errors import CorruptSnapshotError
from store.snapshot.snapshot import Snapshot

MAGIC = int.from_bytes(b"LMQI", "little")
VERSION = 1
_OFFER = struct.Struct("<IIQQQI")
_FRAME = struct.Struct("<II")


@dataclass(frozen=True, slots=True)
class SnapshotOffer:
    """A snapshot that another node has: its index and term, its size in bytes, and the CRC32C of all its bytes."""

    index: int
    term: int
    size: int
    crc: int

    @staticmethod
    def of(snapshot: Snapshot, data: bytes) -> SnapshotOffer:
        """Return the offer for `snapshot`. `data` has the encoded bytes of the snapshot."""
        return SnapshotOffer(snapshot.index, snapshot.term, len(data), google_crc32c.value(data))

    def encode(self) -> bytes:
        return _OFFER.pack(MAGIC, VERSION, self.index, self.term, self.size, self.crc)


class TransferPosition(NamedTuple):
    """How many bytes of a snapshot were received, and the offset in the file behind them."""

    received: int
    end: int


_BEGINNING = TransferPosition(0, _OFFER.size)


class IncomingSnapshot:
    def __init__(self, disk: Disk, path: Path, offer: SnapshotOffer, file: File, received: int, end: int) -> None:
        """Use `open`."""
        self._disk = disk
        self._path = path
        self._offer = offer
        self._file = file
        self._received = received
        # Offset in the file after the last frame.
        self._end = end

    @staticmethod
    def open(disk: Disk, path: Path, offer: SnapshotOffer, known: TransferPosition | None = None) -> IncomingSnapshot:
        """Open the transfer of the offered snapshot. The pieces of the same offer that were received before are
        kept. If the directory has a file of another offer, the file is removed.

        `known` is the position of this transfer after the last piece that this process stored. The pieces before it are
        not read again. Without it, all pieces in the file are checked."""
        if disk.exists(path):
            file = disk.open(path)
            if file.read(0, _OFFER.size) == offer.encode():
                received, end = known or _BEGINNING
                for piece, behind in _frames(file, end, offer.size - received):
                    received, end = received + len(piece), behind
                return IncomingSnapshot(disk, path, offer, file, received, end)
            file.close()
            disk.unlink(path)
        file = disk.create(path, 0)
        file.write(0, offer.encode())
        return IncomingSnapshot(disk, path, offer, file, 0, _OFFER.size)

    @property
    def received(self) -> int:
        """The number of bytes received so far, which is the offset of the next piece to request."""
        return self._received

    @property
    def position(self) -> TransferPosition:
        """Where the next piece belongs, for the next `open`."""
        return TransferPosition(self._received, self._end)

    @property
    def is_complete(self) -> bool:
        return self._received == self._offer.size

    def append(self, offset: int, piece: bytes, crc: int) -> None:
        """Store the piece that begins at `offset`. Raise `CorruptSnapshotError` if `offset` is not `received`, or the
        piece is too long or damaged."""
        if offset != self._received:
            raise CorruptSnapshotError(f"a piece for offset {offset} arrived, but offset {self._received} is next")
        if not piece or offset + len(piece) > self._offer.size:
            raise CorruptSnapshotError(
                f"a piece of {len(piece)} bytes arrived for offset {offset} of {self._offer.size} bytes"
            )
        if (found := google_crc32c.value(piece)) != crc:
            raise CorruptSnapshotError(f"the CRC of the piece for offset {offset} is {found:#010x}, not {crc:#010x}")
        self._file.write(self._end, _FRAME.pack(len(piece), crc) + piece)
        self._end += _FRAME.size + len(piece)
        self._received += len(piece)

    def complete(self) -> Snapshot:
        """Return the snapshot after all pieces have arrived. If the snapshot differs from the offer, remove all
        pieces and raise `CorruptSnapshotError`. After this error, the transfer begins again."""
        assert self.is_complete
        data = b"".join(piece for piece, _ in _frames(self._file, _OFFER.size, self._offer.size))
        try:
            snapshot = Snapshot.decode(data)
            if SnapshotOffer.of(snapshot, data) != self._offer:
                raise ValueError("it differs from the snapshot that was offered")
        except ValueError as error:
            self.remove()
            raise CorruptSnapshotError(str(error)) from error
        return snapshot

    def close(self) -> None:
        """Close the file. The received pieces stay for the next attempt."""
        self._file.close()

    def remove(self) -> None:
        """Remove the file after the snapshot was used or given up."""
        self._file.close()
        remove_file(self._disk, self._path)


def _frames(file: File, at: int, rest: int) -> Iterator[tuple[bytes, int]]:
    """Return the whole pieces from offset `at` of the file on, up to `rest` bytes, each with the offset in the file
    behind it."""
    while rest:
        head = file.read(at, _FRAME.size)
        if len(head) < _FRAME.size:
            return
        count, crc = _FRAME.unpack(head)
        if not 0 < count <= rest:
            return
        piece = file.read(at + _FRAME.size, count)
        if len(piece) < count or google_crc32c.value(piece) != crc:
            return
        at += _FRAME.size + count
        rest -= count
        yield piece, at
