"""Decides whether the message ids of a producer's batch are new. The decision changes nothing.

    two messages of the batch have the same id                InvalidArgumentError
    the first send of an id is not committed yet              BusyError: the sender tries again, and hears its result
    an id was appended as a message of another kind           InvalidArgumentError
    ids were appended within the last minutes                 RepeatedMessagesError, with the place of each one

In all cases nothing of the batch is appended. After RepeatedMessagesError the sender sends the other messages again.
"""

from __future__ import annotations

from collections.abc import Sequence

from ledger.errors import BusyError, InvalidArgumentError, RepeatedMessage, RepeatedMessagesError
from ledger.state import Projected, State


def check_ids(
    sent_to: int, read_in: int, ids: Sequence[bytes], state: State, projected: Projected, now_ms: int
) -> None:
    """Raise an error unless all message ids of a batch are new for the topic `read_in`, which consumers read. The batch
    is sent to the topic `sent_to`. `now_ms` is the leader's time, in ms since 1970."""
    if len(set(ids)) != len(ids):
        raise InvalidArgumentError("two messages of a batch have the same message id: send them in two batches")
    if any(projected.message_ids.is_coming(read_in, each) for each in ids):
        raise BusyError("a message with the same message id is being appended: send it again to learn its result")
    known = list(state.message_ids.known(read_in, ids, now_ms))
    if any(record.place_topic_id != sent_to for _, record in known):
        raise InvalidArgumentError(
            "a message with the same message id was sent with or without a delivery time, or a transaction, and this "
            "one is different: give it another id"
        )
    if known:
        repeats = tuple(
            RepeatedMessage(place, record.queue, record.offset, record.append_time_ms) for place, record in known
        )
        raise RepeatedMessagesError(
            f"{len(repeats)} messages of the batch were sent before, with the same message ids: send the others again",
            repeats=repeats,
        )
