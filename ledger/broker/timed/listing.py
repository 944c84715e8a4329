"""Lists waiting messages, on the leader of their shard, in the order of their delivery.

    timed index ──> target topics of the batches ──> the messages that the caller may read ──> their keys and values

One answer is bounded: in the messages that it has, in the messages that it looks at, and in bytes. It says where the
next one continues.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from ledger.batch import Batch
from ledger.batch.columns import Headers
from ledger.broker.broker_replica import BrokerReplica
from ledger.broker.timed.applied_timed import cursor_of
from ledger.broker.timed.targets import targets_of
from ledger.broker.timed.waiting_batches import TargetMessages, WaitingBatches, first_that_fit
from ledger.errors import CorruptBatchError, InvalidArgumentError
from ledger.timed import DELIVER_AT, MAX_DELIVERY_MS
from store import TimedKey
from store.index.timed_unit import Units, not_among

MOST_MESSAGES = 1000
# One answer looks at so many messages, also of other topics.
MOST_LOOKED_AT = 4096
# One message is returned even if it is larger.
MAX_ANSWER_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class WaitingQuery:
    """Asks for messages of the topic `topic_id` (0: of all topics) with delivery times in [from_ms, to_ms), in ms since
    1970, and with keys after `after`."""

    topic_id: int = 0
    from_ms: int = 0
    to_ms: int = MAX_DELIVERY_MS + 1
    # 0: as many as an answer may have.
    limit: int = 0
    after: TimedKey | None = None
    with_values: bool = False


@dataclass(frozen=True, slots=True)
class ListedMessage:
    """A waiting message. `size` is the number of bytes of its value. `value`, `headers` and `look_up_keys` are empty
    if the query did not ask for them. `unreadable` says why this node cannot read the message, and is "" if it can."""

    topic_id: int
    queue: int
    place: TimedKey
    timestamp_ms: int = 0
    key: bytes | None = None
    tag: str | None = None
    size: int = 0
    value: bytes = b""
    headers: Headers = ()
    unreadable: str = ""
    look_up_keys: tuple[bytes, ...] = ()

    @property
    def answer_bytes(self) -> int:
        """The bytes that the message takes in an answer, about."""
        headers = sum(len(name) + len(value) for name, value in self.headers)
        headers += sum(map(len, self.look_up_keys))
        return 64 + len(self.key or b"") + len(self.tag or "") + len(self.value) + headers


@dataclass(slots=True)
class WaitingList:
    """The found messages. The next query continues after `next`; None means that there are no more messages."""

    messages: list[ListedMessage] = field(default_factory=list)
    next: TimedKey | None = None


async def list_waiting(replica: BrokerReplica, query: WaitingQuery, may_read: Callable[[int], bool]) -> WaitingList:
    """Return the first waiting messages that the query asks for, without those of target topics for which
    `may_read(topic_id)` is False. Messages whose target cannot be read are left out. Raises StoreError, and LedgerError
    if this node does not lead."""
    await replica.confirm_still_leading()
    looked_at = _units(replica, query)
    units, is_last = looked_at[:MOST_LOOKED_AT], len(looked_at) <= MOST_LOOKED_AT
    end = None if is_last else _key(units, -1)
    units = units[not_among(units, replica.state.timed.open)]
    targets = await targets_of(replica.log, units)
    wanted = {
        topic_id
        for topic_id in targets.values()
        if topic_id is not None and query.topic_id in (0, topic_id) and may_read(topic_id)
    }
    units = units[[targets[position] in wanted for position in units["position"].tolist()]]
    fitting = first_that_fit(replica.log, units[: min(query.limit or MOST_MESSAGES, MOST_MESSAGES)])
    if len(fitting) < len(units):
        end = _key(fitting, -1)
    return _cut(_messages(replica, fitting, with_values=query.with_values), end)


def _units(replica: BrokerReplica, query: WaitingQuery) -> Units:
    from_ms, to_ms = max(0, query.from_ms), min(query.to_ms, MAX_DELIVERY_MS + 1)
    return replica.timed.index.read(from_ms, to_ms, MOST_LOOKED_AT + 1, query.after, cursor_of(replica.state))


def _messages(replica: BrokerReplica, units: Units, *, with_values: bool) -> list[ListedMessage]:
    """Return the messages of the units, in their order."""
    found: dict[int, ListedMessage] = {}
    targets, _ = WaitingBatches(replica.log).by_target(units)
    for target in targets:
        for message in _decoded(target, with_values=with_values):
            found[message.place.identity] = message
    return [found[identity] for identity in units["identity"].tolist() if identity in found]


def _decoded(target: TargetMessages, *, with_values: bool) -> Iterator[ListedMessage]:
    """Yield the messages as they will be delivered, without the header of the delivery time."""
    try:
        batch = Batch(target.firing_batch(0), check_crc=False)
    except (CorruptBatchError, InvalidArgumentError) as error:
        if len(target.messages) == 1:
            yield ListedMessage(target.topic_id, target.queue, _place(target, 0), unreadable=str(error))
            return
        for one in target.alone():
            yield from _decoded(one, with_values=with_values)
        return
    columns = zip(batch.timestamps_ms(), batch.keys(), batch.tags(), batch.values(), batch.headers(), strict=True)
    look_up_keys = batch.look_up_keys()
    for number, (timestamp_ms, key, tag, value, headers) in enumerate(columns):
        yield ListedMessage(
            target.topic_id,
            target.queue,
            _place(target, number),
            timestamp_ms,
            key,
            tag,
            len(value),
            value if with_values else b"",
            tuple(pair for pair in headers if pair[0] != DELIVER_AT) if with_values else (),
            look_up_keys=look_up_keys[number] if with_values else (),
        )


def _cut(messages: list[ListedMessage], end: TimedKey | None) -> WaitingList:
    """Return the first messages that fit into an answer."""
    sums = np.cumsum([message.answer_bytes for message in messages])
    fitting = max(1, int(np.searchsorted(sums, MAX_ANSWER_BYTES, "right")))
    if fitting < len(messages):
        end = messages[fitting - 1].place
    return WaitingList(messages[:fitting], end)


def _place(target: TargetMessages, number: int) -> TimedKey:
    return TimedKey(int(target.messages.times_ms[number]), int(target.messages.identities[number]))


def _key(units: Units, number: int) -> TimedKey:
    return TimedKey(int(units["time"][number]), int(units["identity"][number]))
