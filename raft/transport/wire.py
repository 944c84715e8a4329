"""Converts the core's messages to protobuf and back. Generated protobuf types do not leave raft/transport.

A protobuf message does not contain sender and receiver. Each stream has one sender and one receiver, which are checked
when the stream opens.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from raft.core import (
    Append,
    AppendResponse,
    CommittedEntry,
    Heartbeat,
    HeartbeatResponse,
    RaftMessage,
    SnapshotChunk,
    SnapshotResponse,
    TimeoutNow,
    VoteRequest,
    VoteResponse,
)
from raft.snapshot_piece import SnapshotPiece
from raft.transport.bulk import Bulk, serialize
from raft.v1 import raft_pb2
from store import Readable, SnapshotOffer


def control_to_wire(message: RaftMessage) -> raft_pb2.ControlMessage:
    """Convert a vote request, a heartbeat, TimeoutNow, or an answer to a vote request or a heartbeat."""
    match message:
        case VoteRequest():
            return raft_pb2.ControlMessage(
                vote_request=raft_pb2.VoteRequest(
                    term=message.term,
                    last_index=message.last_index,
                    last_term=message.last_term,
                    pre=message.pre,
                    transfer=message.transfer,
                    unanimous=message.unanimous,
                )
            )
        case VoteResponse():
            return raft_pb2.ControlMessage(
                vote_response=raft_pb2.VoteResponse(
                    term=message.term,
                    granted=message.granted,
                    pre=message.pre,
                    suspicion=message.suspicion,
                    wall_ms=message.wall_ms,
                )
            )
        case Heartbeat():
            return raft_pb2.ControlMessage(
                heartbeat=raft_pb2.Heartbeat(
                    term=message.term, commit=message.commit, round=message.round, lifted=message.lifted
                )
            )
        case HeartbeatResponse():
            return raft_pb2.ControlMessage(
                heartbeat_response=raft_pb2.HeartbeatResponse(
                    term=message.term,
                    round=message.round,
                    suspicion=message.suspicion,
                    feature_level=message.feature_level,
                    owes_nothing=message.owes_nothing,
                    refuses_writes=message.refuses_writes,
                    wall_ms=message.wall_ms,
                )
            )
        case TimeoutNow():
            return raft_pb2.ControlMessage(timeout_now=raft_pb2.TimeoutNow(term=message.term))
        case _:
            raise AssertionError(f"{type(message).__name__} is not a message of the control stream")


def control_from_wire(wire: raft_pb2.ControlMessage, sender: int, receiver: int) -> RaftMessage | None:
    """Return the core's message, or None for a kind of message that this version does not know."""
    match wire.WhichOneof("message"):
        case "vote_request":
            vote = wire.vote_request
            return VoteRequest(
                sender=sender,
                receiver=receiver,
                term=vote.term,
                last_index=vote.last_index,
                last_term=vote.last_term,
                pre=vote.pre,
                transfer=vote.transfer,
                unanimous=vote.unanimous,
            )
        case "vote_response":
            answer = wire.vote_response
            return VoteResponse(
                sender=sender,
                receiver=receiver,
                term=answer.term,
                granted=answer.granted,
                pre=answer.pre,
                suspicion=answer.suspicion,
                wall_ms=answer.wall_ms,
            )
        case "heartbeat":
            beat = wire.heartbeat
            return Heartbeat(
                sender=sender,
                receiver=receiver,
                term=beat.term,
                commit=beat.commit,
                round=beat.round,
                lifted=beat.lifted,
            )
        case "heartbeat_response":
            heard = wire.heartbeat_response
            return HeartbeatResponse(
                sender=sender,
                receiver=receiver,
                term=heard.term,
                round=heard.round,
                suspicion=heard.suspicion,
                feature_level=heard.feature_level,
                owes_nothing=heard.owes_nothing,
                refuses_writes=heard.refuses_writes,
                wall_ms=heard.wall_ms,
            )
        case "timeout_now":
            return TimeoutNow(sender=sender, receiver=receiver, term=wire.timeout_now.term)
        case _:
            return None


def append_to_wire(append: Append, entries: Readable) -> Bulk:
    """Convert an Append to protobuf. The message does not contain terms and configurations, because the receiver
    reads them from the entries."""
    head = raft_pb2.AppendRequest(
        term=append.term, prev_index=append.prev_index, prev_term=append.prev_term, commit=append.commit
    )
    return Bulk(head, entries)


def ranges_to_wire(ranges: Iterable[tuple[Append, Readable]]) -> Iterator[tuple[int, bytes]]:
    """Yield (receiver, encoded message) for each byte range that a leader sends in one turn of the event loop.

    Followers that need the same range get the same bytes, which are encoded once."""
    joined: dict[tuple[int, ...], bytes] = {}
    for append, entries in ranges:
        said = (append.term, append.prev_index, append.prev_term, append.last_index, append.commit)
        if said not in joined:
            joined[said] = serialize(append_to_wire(append, entries))
        yield append.receiver, joined[said]


def append_from_wire(wire: raft_pb2.AppendRequest, sender: int, receiver: int) -> Append:
    """Return the Append without terms and configurations, which the driver reads from the entries."""
    return Append(
        sender=sender,
        receiver=receiver,
        term=wire.term,
        prev_index=wire.prev_index,
        prev_term=wire.prev_term,
        runs=(),
        last_index=wire.prev_index,
        commit=wire.commit,
        configurations=(),
    )


def snapshot_to_wire(chunk: SnapshotChunk, piece: SnapshotPiece) -> Bulk:
    """Convert a piece of a snapshot to protobuf. The piece is sent on the stream for byte ranges."""
    offer = piece.offer
    wire_piece = raft_pb2.SnapshotPiece(
        index=offer.index,
        index_term=offer.term,
        size=offer.size,
        crc=offer.crc,
        offset=chunk.offset,
        piece=piece.data,
        piece_crc=piece.crc,
    )
    return Bulk(raft_pb2.AppendRequest(term=chunk.term, snapshot=wire_piece))


def snapshot_from_wire(wire: raft_pb2.AppendRequest, sender: int, receiver: int) -> tuple[SnapshotChunk, SnapshotPiece]:
    """Convert a received protobuf message to the core's chunk and the bytes of the snapshot's piece."""
    wire_piece = wire.snapshot
    chunk = SnapshotChunk(
        sender=sender, receiver=receiver, term=wire.term, index=wire_piece.index, offset=wire_piece.offset
    )
    offer = SnapshotOffer(index=wire_piece.index, term=wire_piece.index_term, size=wire_piece.size, crc=wire_piece.crc)
    return chunk, SnapshotPiece(offer, wire_piece.piece, wire_piece.piece_crc)


def answer_to_wire(answer: AppendResponse | SnapshotResponse) -> raft_pb2.AppendResponse:
    """Convert a follower's answer to an Append or to a piece of a snapshot to protobuf."""
    if isinstance(answer, SnapshotResponse):
        received = raft_pb2.SnapshotReceived(index=answer.index, received=answer.received, installed=answer.installed)
        return raft_pb2.AppendResponse(term=answer.term, snapshot=received, suspicion=answer.suspicion)
    if answer.contradicted is not None:
        entry = answer.contradicted
        return raft_pb2.AppendResponse(
            term=answer.term,
            rejected=True,
            suspicion=answer.suspicion,
            contradicted=raft_pb2.CommittedEntry(index=entry.index, term=entry.term, chain=entry.chain),
        )
    return raft_pb2.AppendResponse(
        term=answer.term,
        rejected=answer.rejected,
        match=answer.match,
        hint_index=answer.hint_index,
        hint_term=answer.hint_term,
        rejected_index=answer.rejected_index,
        suspicion=answer.suspicion,
    )


def answer_from_wire(wire: raft_pb2.AppendResponse, sender: int, receiver: int) -> AppendResponse | SnapshotResponse:
    """Convert a received answer to an Append or to a piece of a snapshot to the core's message."""
    if wire.HasField("snapshot"):
        return SnapshotResponse(
            sender=sender,
            receiver=receiver,
            term=wire.term,
            index=wire.snapshot.index,
            received=wire.snapshot.received,
            installed=wire.snapshot.installed,
            suspicion=wire.suspicion,
        )
    return AppendResponse(
        sender=sender,
        receiver=receiver,
        term=wire.term,
        match=wire.match,
        rejected=wire.rejected,
        rejected_index=wire.rejected_index,
        hint_index=wire.hint_index,
        hint_term=wire.hint_term,
        suspicion=wire.suspicion,
        contradicted=_committed_from_wire(wire.contradicted) if wire.HasField("contradicted") else None,
    )


def _committed_from_wire(wire: raft_pb2.CommittedEntry) -> CommittedEntry:
    return CommittedEntry(wire.index, wire.term, wire.chain)
