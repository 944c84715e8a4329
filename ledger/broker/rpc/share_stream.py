"""Serves the stream of one member of a shared group.

The first request opens the stream and names the group and its topics. One task reads requests and gives them to the
turns of the shard's leader (`LeaseTurns`), and another task sends the answers. A stream reads no further request while
it has too many without an answer, or the shard has too many changes that wait. A client that does not read its answers
is refused after `STALLED_S`; its leases end in their time. So is a client that does not open its stream in `FIRST_S`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, Protocol

from grpc import StatusCode, aio

from ledger.broker.rpc.two_way_stream import StalledError, StallLimit, raise_defect, serve_both
from ledger.broker.shared.group_lookup import GroupLookup
from ledger.broker.shared.lease_turns import LeaseTurns
from ledger.broker.shared.members import (
    END,
    MAX_TAGS,
    Answer,
    ChangeRequest,
    Receive,
    SharedMember,
    SharedTopic,
)
from ledger.consumer_groups import (
    AT_THE_FIRST,
    BEHIND_THE_LAST,
    MAX_SUBSCRIPTIONS,
    validate_group_name,
    validate_member_name,
)
from ledger.errors import GroupConflictError, InvalidArgumentError, LedgerError, to_wire
from ledger.limits import MAX_OFFSET
from ledger.shared import MAX_LEASE_MS, MAX_RECEIVED, MAX_RECEIVED_BYTES, MAX_WAIT_MS, validate_lease
from ledger.state import TopicQueueId
from ledger.state.lease_table import ChangeKind, LeaseChange
from ledger.v1 import consumer_group_pb2

# Streams of members of shared groups of one node.
MAX_SHARE_STREAMS = 10_000
# Changes of one request.
MAX_REQUEST_CHANGES = 1_024
# The different filters of one member together.
MAX_MEMBER_FILTER_CHARACTERS = 16_384
# A stream whose client accepts no answer for this time is refused.
STALLED_S = 10.0
# A stream whose client does not open it within this time is refused.
FIRST_S = 10.0

Context = aio.ServicerContext[Any, Any]


class Sharing(Protocol):
    """What a stream needs of its node."""

    @property
    def lookup(self) -> GroupLookup: ...

    def turns(self, shard: int) -> LeaseTurns:
        """Return the turns of a shard. Raises LedgerError if the shard has not started on this node."""

    def check_rights(self, consumer_group: str, topics: Iterable[int]) -> None:
        """Raise LedgerError if the caller may not read the topics as a member of the group."""

    def given(self, topic_id: int, messages: int, size: int) -> None:
        """Count messages that a member got. `size` is in bytes."""


async def serve_share(sharing: Sharing, context: Context, on_refused: Callable[[LedgerError], None]) -> None:
    """Serve the stream of one member until it ends."""
    try:
        async with asyncio.timeout(FIRST_S):
            first = await context.read()
    except TimeoutError:
        await context.abort(
            StatusCode.DEADLINE_EXCEEDED, f"the client did not open this stream within {FIRST_S:.0f} s: open a new one"
        )
    if first is aio.EOF:
        return
    try:
        member, turns = await open_stream(sharing, first)
    except LedgerError as error:
        on_refused(error)
        await context.write(consumer_group_pb2.ShareResponse(number=first.number, error=to_wire(error)))
        return

    def end_writing(error: BaseException | None) -> None:
        turns.leave(member)
        if isinstance(error, LedgerError):
            on_refused(error)
            member.answer(Answer(0, error=error))
        member.answer(END)

    try:
        read, ended = await serve_both(
            read_requests(sharing, member, turns, context),
            send_answers(sharing, member, first.number, context),
            end_writing,
        )
    finally:
        turns.leave(member)
    if isinstance(ended, LedgerError):
        on_refused(ended)
        await context.write(consumer_group_pb2.ShareResponse(error=to_wire(ended)))
    elif isinstance(ended, StalledError):
        await context.abort(
            StatusCode.RESOURCE_EXHAUSTED,
            f"the client read no answer of this stream for {STALLED_S:.0f} s: read the answers, and open a new stream",
        )
    raise_defect(read, ended)


async def open_stream(sharing: Sharing, request: consumer_group_pb2.ShareRequest) -> tuple[SharedMember, LeaseTurns]:
    """Add the member that the first request of a stream names. Raises LedgerError."""
    if not request.HasField("opening"):
        raise InvalidArgumentError("The first request of a stream must open it.")
    opening = request.opening
    validate_group_name(opening.consumer_group)
    validate_member_name(opening.member)
    topics = [shared_topic(topic) for topic in opening.topics]
    filters = {topic.topic_id: topic.filter for topic in opening.topics}
    if (characters := sum(map(len, set(filters.values())))) > MAX_MEMBER_FILTER_CHARACTERS:
        raise InvalidArgumentError(
            f"The filters of one member can have at most {MAX_MEMBER_FILTER_CHARACTERS:,} characters together, and "
            f"these have {characters:,}."
        )
    if not 1 <= len(topics) <= MAX_SUBSCRIPTIONS:
        raise InvalidArgumentError(f"A member reads 1 to {MAX_SUBSCRIPTIONS} topics, and not {len(topics)}.")
    sharing.check_rights(opening.consumer_group, [topic.topic_id for topic in topics])
    turns = sharing.turns(opening.shard)
    mode = await sharing.lookup.require(opening.consumer_group)
    if opening.by_key and not mode.by_key:
        raise GroupConflictError(
            f"Shared group {mode.consumer_group!r} has no order by key: create a group with `--order key`, or leave "
            "out `order`."
        )
    topics = [
        replace(topic, filter=await turns.filters.parse(text) if (text := filters[topic.topic_id]) else None)
        for topic in topics
    ]
    member = SharedMember(
        opening.consumer_group,
        opening.member,
        {topic.topic_id: topic for topic in topics},
        sharing.lookup,
        opening.only_changes,
    )
    await turns.wait_for_level()
    turns.join(member)
    return member, turns


def shared_topic(wire: consumer_group_pb2.SharedTopic) -> SharedTopic:
    """Return a topic of a member. Raises InvalidArgumentError."""
    if len(wire.tag_hashes) > MAX_TAGS:
        raise InvalidArgumentError(f"A member can want at most {MAX_TAGS} tags of a topic, not {len(wire.tag_hashes)}.")
    if wire.start_offset < 0 and wire.start_offset not in (AT_THE_FIRST, BEHIND_THE_LAST):
        raise InvalidArgumentError(f"{wire.start_offset} cannot be a start offset: give 0 or more.")
    return SharedTopic(wire.topic_id, frozenset(wire.tag_hashes) or None, wire.start_offset)


async def read_requests(sharing: Sharing, member: SharedMember, turns: LeaseTurns, context: Context) -> None:
    """Give the requests of a stream to the turns of the leader, until the client ends the stream. Raises LedgerError
    for a request that is not valid."""
    while (request := await context.read()) is not aio.EOF:
        if request.HasField("opening"):
            raise InvalidArgumentError("This stream is open already.")
        sharing.check_rights(member.consumer_group, member.topics)
        if request.cancelled:
            turns.cancel(member, request.cancelled)
        if request.changes:
            if len(request.changes) > MAX_REQUEST_CHANGES:
                raise InvalidArgumentError(
                    f"A request can have at most {MAX_REQUEST_CHANGES} changes, not {len(request.changes)}."
                )
            changes = [wanted_change(each) for each in request.changes]
            in_time = frozenset(place for place, each in enumerate(request.changes) if each.in_time)
            await turns.wait_for_room()
            member.asked()
            turns.change(ChangeRequest(member, request.number, changes, in_time))
        if request.HasField("receive"):
            if member.only_changes:
                raise InvalidArgumentError("This stream only changes leases: open another one to receive messages.")
            member.asked()
            turns.receive(member, wanted_receive(request.number, request.receive))
        await member.has_room.wait()


def wanted_change(wire: consumer_group_pb2.WantedChange) -> tuple[TopicQueueId, LeaseChange]:
    """Return a change that a member wants. Raises InvalidArgumentError."""
    if not ChangeKind.ACKNOWLEDGE <= wire.kind <= ChangeKind.EXTEND:
        raise InvalidArgumentError(f"{wire.kind} is no kind of change that a member can want.")
    kind = ChangeKind(wire.kind)
    if not 0 <= wire.first <= MAX_OFFSET - wire.size or not wire.size:
        raise InvalidArgumentError(f"No queue has {wire.size} messages from offset {wire.first} on.")
    if kind is ChangeKind.EXTEND:
        validate_lease(wire.duration_ms)
    elif wire.duration_ms > MAX_LEASE_MS:
        raise InvalidArgumentError(f"A message can be put off for at most {MAX_LEASE_MS} ms, not {wire.duration_ms}.")
    if wire.in_time and wire.size != 1:
        raise InvalidArgumentError(f"A change that counts only in time is of one message, and not of {wire.size}.")
    queue = TopicQueueId(wire.topic_id, wire.queue)
    return queue, LeaseChange(kind, wire.first, wire.size, wire.lease, wire.resets, wire.duration_ms)


def wanted_receive(number: int, wire: consumer_group_pb2.Receive) -> Receive:
    """Return the receive of a member. Raises InvalidArgumentError."""
    validate_lease(wire.lease_ms)
    if not 1 <= wire.max_messages <= MAX_RECEIVED:
        raise InvalidArgumentError(f"A receive can get 1 to {MAX_RECEIVED} messages, and not {wire.max_messages}.")
    arrived_s = asyncio.get_running_loop().time()
    return Receive(
        number,
        wire.max_messages,
        min(wire.max_bytes, MAX_RECEIVED_BYTES),
        wire.lease_ms,
        arrived_s,
        arrived_s + min(wire.max_wait_ms, MAX_WAIT_MS) / 1000,
        wire.attempt_id,
        wire.repeated_attempt,
    )


async def send_answers(sharing: Sharing, member: SharedMember, opening: int, context: Context) -> None:
    """Send the answers of a member, until `END` or an error. Raises StalledError if the client reads none, and
    LedgerError if the member may not read a topic any more."""
    limit = StallLimit(STALLED_S)
    with limit:
        await context.write(consumer_group_pb2.ShareResponse(number=opening, filters=True))
    while True:
        while not member.outbox:
            member.has_answers.clear()
            await member.has_answers.wait()
        answer = member.next_answer()
        if answer is END:
            return
        if answer.received:  # the right may have ended while the receive waited
            sharing.check_rights(member.consumer_group, member.topics)
        with limit:
            await context.write(to_response(answer))
        for batch in answer.received or ():
            sharing.given(batch.queue.topic_id, len(batch.attempts), len(batch.body))
        member.sent(answer)
        if answer.error is not None:
            return


def to_response(answer: Answer) -> consumer_group_pb2.ShareResponse:
    response = consumer_group_pb2.ShareResponse(number=answer.number)
    if answer.error is not None:
        response.error.CopyFrom(to_wire(answer.error))
    if answer.changed is not None:
        response.has_changed = True
        response.changed.extend(answer.changed)
        response.settled.extend(answer.settled)
    if answer.received is not None:
        response.has_received = True
        response.lease_left_ms, response.waited_ms = answer.lease_left_ms, answer.waited_ms
        for each in answer.received:
            response.batches.add(
                topic_id=each.queue.topic_id,
                queue=each.queue.queue,
                base_offset=each.base_offset,
                append_time_ms=each.append_time_ms,
                body=each.body,
                lease=each.lease,
                resets=each.resets,
                attempts=each.attempts,
            )
    return response
