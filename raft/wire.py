"""Between the core's messages and protobuf: the gRPC rim, where generated types stop.

Sender and receiver are not in the messages: the stream knows them.
"""

from __future__ import annotations

from raft.core import Append, AppendResponse, Heartbeat, HeartbeatResponse, Message, VoteRequest, VoteResponse
from raft.v1 import raft_pb2


def control_to_wire(message: Message) -> raft_pb2.ControlMessage:
    """A vote or heartbeat, or the answer to one."""
    match message:
        case VoteRequest():
            return raft_pb2.ControlMessage(
                vote_request=raft_pb2.VoteRequest(
                    term=message.term, last_index=message.last_index, last_term=message.last_term, pre=message.pre
                )
            )
        case VoteResponse():
            return raft_pb2.ControlMessage(
                vote_response=raft_pb2.VoteResponse(term=message.term, granted=message.granted, pre=message.pre)
            )
        case Heartbeat():
            return raft_pb2.ControlMessage(
                heartbeat=raft_pb2.Heartbeat(term=message.term, commit=message.commit, round=message.round)
            )
        case HeartbeatResponse():
            return raft_pb2.ControlMessage(
                heartbeat_response=raft_pb2.HeartbeatResponse(term=message.term, round=message.round)
            )
        case _:
            raise AssertionError(f"{type(message).__name__} does not go by the control stream")


def control_from_wire(wire: raft_pb2.ControlMessage, sender: int, receiver: int) -> Message | None:
    """None for a kind of message that this version does not know."""
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
            )
        case "vote_response":
            answer = wire.vote_response
            return VoteResponse(
                sender=sender, receiver=receiver, term=answer.term, granted=answer.granted, pre=answer.pre
            )
        case "heartbeat":
            beat = wire.heartbeat
            return Heartbeat(sender=sender, receiver=receiver, term=beat.term, commit=beat.commit, round=beat.round)
        case "heartbeat_response":
            heard = wire.heartbeat_response
            return HeartbeatResponse(sender=sender, receiver=receiver, term=heard.term, round=heard.round)
        case _:
            return None


def append_to_wire(append: Append, entries: bytes) -> raft_pb2.AppendRequest:
    """Terms and configurations are not sent: the receiver reads them from the entries."""
    return raft_pb2.AppendRequest(
        term=append.term,
        prev_index=append.prev_index,
        prev_term=append.prev_term,
        commit=append.commit,
        entries=entries,
    )


def append_from_wire(wire: raft_pb2.AppendRequest, sender: int, receiver: int) -> Append:
    """Without entries yet: the driver reads what they are from `wire.entries`."""
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


def answer_to_wire(answer: AppendResponse) -> raft_pb2.AppendResponse:
    """A follower's acknowledgement or refusal."""
    return raft_pb2.AppendResponse(
        term=answer.term,
        rejected=answer.rejected,
        match=answer.match,
        hint_index=answer.hint_index,
        hint_term=answer.hint_term,
        rejected_index=answer.rejected_index,
    )


def answer_from_wire(wire: raft_pb2.AppendResponse, sender: int, receiver: int) -> AppendResponse:
    """The same, come in."""
    return AppendResponse(
        sender=sender,
        receiver=receiver,
        term=wire.term,
        match=wire.match,
        rejected=wire.rejected,
        rejected_index=wire.rejected_index,
        hint_index=wire.hint_index,
        hint_term=wire.hint_term,
    )
