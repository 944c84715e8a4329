"""What a cluster knows of the life of one message. Brokers find it, and clients read it.

    sent ──> written by each replica ──> committed ──> leased, acknowledged, retried, given up by consumer groups

All that a failover needs is an entry of the log. So the second half comes from the entries behind the message, whoever
led, and as far back as the log is kept. When each replica wrote the message is only in the memory of the replicas.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ledger.slow_request import CallingClient


class TracedPlace(NamedTuple):
    """A place where the message is, or was: the topic's id, the queue and the offset."""

    topic_id: int
    queue: int
    offset: int


NOWHERE = TracedPlace(0, 0, 0)


@dataclass(frozen=True, slots=True)
class TraceEvent:
    """Something that an entry of the log did with the message.

    The kinds of events:

        waits          the message was stored, and waits for its delivery time
        prepared       the message was stored in a transaction that had not ended
        copied         a copy of the waiting message was appended, because the log start was to move
        delivered      the message got the place `to`, at its delivery time, or when its transaction was committed
        cancelled      the waiting message was cancelled
        rolled back    the transaction of the message was rolled back
        leased         a member of a shared group received the message
        put off        a member of a shared group gave the message back for a later attempt
        given back     a member of a shared group gave the message back
        extended       the lease of the message was extended
        passed over    the filter of a shared group does not want the message
        acknowledged   the group has consumed the message
        retry          the group failed to consume the message; its copy at `to` is delivered later
        dead letter    the group gave up; the copy of the message is at `to`
        reset          the offset of the group was set: before the message, so that it is delivered again, or behind it
        forgotten      the progress of the group was deleted
        topic deleted  the topic of the message was deleted
    """

    # The append time of the entry, in ms since 1970, and its index.
    time_ms: int
    index: int
    kind: str
    # The consumer group, or "".
    group: str = ""
    # More, for people.
    text: str = ""
    # The place of the message that the event is about.
    at: TracedPlace = NOWHERE
    # The place that the message got.
    to: TracedPlace | None = None


@dataclass(frozen=True, slots=True)
class TracedEntry:
    """The entry of the message, and who sent it, as far as the node knows it."""

    index: int
    term: int
    append_time_ms: int
    # The number of messages in the entry.
    count: int
    # The producer id and its numbers; 0: a broker made the batch.
    producer_id: int
    epoch: int
    sequence: int
    # The producer's time of the message, in ms since 1970.
    timestamp_ms: int
    # The client with this producer id. None: the node does not know it, because it did not lead, or has restarted.
    client: CallingClient | None = None


@dataclass(frozen=True, slots=True)
class ReplicaTimes:
    """When one replica had the entry of the message, in ms since 1970. None: not yet, or not remembered; `note` says
    which."""

    node: int
    written_ms: int | None = None
    # As durable as the flush mode promises.
    flushed_ms: int | None = None
    committed_ms: int | None = None
    applied_ms: int | None = None
    # On the leader: when followers had acknowledged the entry.
    acknowledged_ms: tuple[tuple[int, int], ...] = ()
    leads: bool = False
    note: str = ""
