"""Where the log of a shard begins (section 7): how that moves on, and how a replica gets there that lacks what came
before.

    the machine passes the start of a segment ──> a base is kept: place and chain of the log there, members, state
    an entry says "begin behind index i"      ──> the base kept there is made durable, then whole segments go
    a follower lacks entries from before that ──> it gets the base in pieces, checks it, and begins there itself;
                                                  the retained log follows by the usual way

The one idea: the log *is* the data, so a base never replaces it; it only stands for what is not kept any more. The log
start moves by an entry of its own, so all replicas keep the same; one that has no base at that place keeps more.

It must not know what the state means, nor what makes somebody want to move the start.
"""

from __future__ import annotations

import logging
import struct

import google_crc32c

from raft.base_piece import Piece
from raft.interfaces import Log, Machine
from store import Base, Bases, Draft, Header, Kind, Offer

log = logging.getLogger("raft.log_start")

PIECE_BYTES = 256 << 10
_INDEX = struct.Struct("<Q")


def log_start_draft(index: int) -> Draft:
    """The entry by which the log begins behind `index`."""
    return Draft(Kind.LOG_START, _INDEX.pack(index))


class LogStart:
    """One shard's. Its calls write to the disk, and are rare."""

    def __init__(self, log: Log, bases: Bases, machine: Machine, resumed: Base | None) -> None:
        """`resumed`: what the machine begins with; None: nothing."""
        self.configuration = resumed.configuration if resumed else b""
        """The body of the newest configuration that is applied."""
        self._log = log
        self._bases = bases
        self._machine = machine
        self.dropped_bytes = 0
        """Of the entries that were let go since this process began."""
        self._kept = set(bases.candidates())
        self._encoded: tuple[Base, bytes] | None = None

    @property
    def base(self) -> Base | None:
        return self._bases.base

    def candidates(self) -> list[int]:
        """Behind which entries the log may begin now, ascending."""
        return self._bases.candidates()

    def candidate(self, index: int) -> Base | None:
        """The base that is kept there; None where it is missing or damaged."""
        return self._bases.candidate(index)

    # -- the own log moves on

    def passes(self, header: Header, body: memoryview) -> None:
        """That entry is about to be applied."""
        if header.index > self._log.first_index and self._log.begins_segment(header.index):
            self._keep(header.index - 1)
        if header.kind is Kind.CONFIGURATION:
            self.configuration = bytes(body)

    def _keep(self, index: int) -> None:
        if index not in self._kept:  # in an earlier run of this node it was
            state = self._machine.snapshot()
            self._bases.keep(self._log.base_at(index, configuration=self.configuration, state=state))
            self._kept.add(index)

    def move(self, body: memoryview) -> Base | None:
        """An entry that moves the log start is applied. Returns the new base; None where nothing moves here."""
        (index,) = _INDEX.unpack(body)
        if index < self._log.first_index:
            return None
        base = self._bases.candidate(index)
        if base is None:
            log.warning("the log could begin behind entry %d, but no base was kept there: all of it stays", index)
            return None
        before = self._bases.base
        entries, size = base.index + 1 - self._log.first_index, base.end - (before.end if before else 0)
        self._bases.begin_behind(base)
        self._log.drop_before(base)
        self.dropped_bytes += size
        log.info("the log begins behind entry %d now: %d entries, %d bytes, go", base.index, entries, size)
        return base

    # -- to others

    def piece(self, offset: int) -> Piece:
        """Of the present base, from that byte on."""
        base = self._bases.base
        assert base is not None, "only a log that begins later has a base to send"
        if self._encoded is None or self._encoded[0] is not base:
            self._encoded = (base, base.encode())
        data = self._encoded[1]
        piece = data[offset : offset + PIECE_BYTES]
        return Piece(Offer.of(base, data), piece, google_crc32c.value(piece))

    # -- from others

    @property
    def is_installing(self) -> bool:
        """Whether the log that was here is void, and the new one has not begun yet."""
        return self._bases.is_resetting

    def receive(self, offset: int, piece: Piece) -> int | Base:
        """Returns how many bytes of it are here, or the whole base."""
        return self._bases.receive(piece.offer, offset, piece.data, piece.crc)

    def install(self, base: Base) -> None:
        """Begin behind that base, without anything that was here before. The next start ends what a kill cut off. After
        an error nothing has happened unless `is_installing`."""
        self._bases.begin_reset(base)
        self._log.reset(base)
        self._bases.finish_reset()
        self._bases.forget_incoming()
        self._kept.clear()
        self.configuration = base.configuration
        self._machine.restore(base)
