"""Asks RocketMQ producers how transactions ended that they began and did not end.

    the decision shard's leader ── check ──> front ── command ──> a producer of the topic, over its telemetry stream
                                                                          │
    the decision shard's leader <── commit or rollback ── any front <── EndTransaction

RocketMQ's clients name no producer group, so all producers of a topic are one group. A front answers checks of a topic
only while such a producer has a telemetry stream to it. Its answer to the leader is "unknown", and the producer's own
answer ends the transaction.

Java's client hangs for ever if it answers as many checks at the same time as the machine has processors, unless the
checks come over one stream. So all leaders ask one front first, by its name, and a front asks a client over one stream.

A node answers checks for a limited number of topics. If producers name more topics, each caller gets an equal share of
them, so that no caller leaves the others without checks.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable

from ledger.client.records import Message
from ledger.client.transactions.checks import GroupChecks
from ledger.client.transactions.records import CheckedTransaction, CheckResult, PreparedMessage
from ledger.rocketmq.incoming_message import incoming_message
from ledger.rocketmq.names import producer_group_of
from ledger.rocketmq.native_clients import NativeClients
from ledger.rocketmq.producers import TopicProducers
from ledger.rocketmq.topic_types import accepted_types
from ledger.rocketmq.v2 import definition_pb2 as pb
from ledger.rocketmq.v2 import service_pb2

log = logging.getLogger("ledgermq.rocketmq")

# Topics for which one node answers checks.
MAX_TOPICS = 1_000
LOOK_S = 2.0
# After looking at so many topics and producers, other work has a turn.
LOOKS_IN_A_TURN = 1_000

# A user and a topic.
_Place = tuple[str, str]


class OrphanChecks:
    """Answers the checks of one node. Run the method `run` as a task."""

    def __init__(self, producers: TopicProducers, started: Callable[[], list[NativeClients]], name: str) -> None:
        """`started()` returns the native clients of all callers. `name` is a name of this front in the cluster."""
        self._producers = producers
        self._started = started
        self._name = name
        # With the clients that they use.
        self._checks: dict[_Place, tuple[NativeClients, GroupChecks]] = {}
        # How many topics have no checks, because there are too many.
        self._left_out = 0
        self._turn = 0

    async def run(self) -> None:
        """Follow the producers that come and go, until the task is cancelled."""
        while True:
            await asyncio.sleep(LOOK_S)
            await self._follow()

    async def close(self) -> None:
        checks, self._checks = self._checks, {}
        for _, each in checks.values():
            await each.stop()

    async def _follow(self) -> None:
        clients = {each.caller.user: each for each in self._started()}
        wanted = await self._wanted(clients)
        for place, (used, checks) in list(self._checks.items()):
            if place not in wanted or clients.get(place[0]) is not used:
                del self._checks[place]
                await checks.stop()
        for user, topic in wanted:
            if (user, topic) not in self._checks:
                found = clients[user]
                self._checks[user, topic] = (found, self._answered(found, topic))

    async def _wanted(self, clients: dict[str, NativeClients]) -> dict[_Place, None]:
        """Return the topics that get checks. They exist, take transactions, and have a producer with a stream."""
        by_holder: dict[str, list[_Place]] = {}
        looks = found = 0
        for user, topic in self._producers:
            used = clients.get(user)
            producers = self._producers.of(user, topic) if used and _has_transactions(used, topic) else ()
            for holder in dict.fromkeys(producer.holder for producer in producers):
                by_holder.setdefault(holder, []).append((user, topic))
            found += bool(producers)
            looks += 1 + len(producers)
            if looks >= LOOKS_IN_A_TURN:
                looks = 0
                await asyncio.sleep(0)
        wanted = in_turns(by_holder.values(), MAX_TOPICS)
        self._tell(found - len(wanted))
        return wanted

    def _tell(self, left_out: int) -> None:
        """Log that topics have no checks, when this begins."""
        if left_out and not self._left_out:
            log.warning(
                "this node answers checks of transactions for %d topics, which is the limit; it leaves out %d topics "
                "of RocketMQ producers that are connected to it",
                MAX_TOPICS,
                left_out,
            )
        self._left_out = left_out

    def _answered(self, clients: NativeClients, topic: str) -> GroupChecks:
        def check(asked: CheckedTransaction) -> CheckResult:
            self._ask(clients.caller.user, topic, asked)
            return "unknown"

        return GroupChecks(clients.cluster, producer_group_of(topic), check, self._name)

    def _ask(self, user: str, topic: str, asked: CheckedTransaction) -> None:
        """Send the first message of a transaction to a producer of its topic, each in turn."""
        command = service_pb2.RecoverOrphanedTransactionCommand(
            message=prepared_message(asked.messages[0], topic), transaction_id=asked.id
        )
        producers = self._producers.of(user, topic)
        self._turn += 1
        for number in range(len(producers)):
            producer = producers[(self._turn + number) % len(producers)]
            if producer.command(service_pb2.TelemetryCommand(recover_orphaned_transaction_command=command)):
                return
        log.info("no producer of topic %s can be asked for the transaction %s now", topic, asked.id)


def _has_transactions(clients: NativeClients, topic: str) -> bool:
    known = clients.cluster.routes.table.topics.get(topic)
    return known is not None and pb.TRANSACTION in accepted_types(known)


def in_turns(wanted: Iterable[Iterable[_Place]], most: int) -> dict[_Place, None]:
    """Return up to `most` of the places that callers want. The callers take turns: each gets the next of its places
    that is not chosen yet."""
    chosen: dict[_Place, None] = {}
    turns = deque(iter(each) for each in wanted)
    while turns and len(chosen) < most:
        turn = turns.popleft()
        place = next((each for each in turn if each not in chosen), None)
        if place is not None:
            chosen[place] = None
            turns.append(turn)
    return chosen


def prepared_message(message: PreparedMessage, topic: str) -> pb.Message:
    """Return a message that waits for the end of its transaction, as its producer sent it."""
    stored = Message(
        message.topic,
        message.queue,
        0,
        message.timestamp_ms,
        message.timestamp_ms,
        message.key,
        message.value,
        message.tag,
        message.headers,
        0,
        message.look_up_keys,
    )
    found = incoming_message(stored, pb.Resource(name=topic), None)
    found.system_properties.delivery_attempt = 1  # as Apache's server tells the checker
    return found
