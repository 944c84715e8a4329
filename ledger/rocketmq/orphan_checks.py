"""Asks RocketMQ producers how transactions ended that they began and did not end.

    the decision shard's leader ── check ──> front ── command ──> a producer of the topic, over its telemetry stream
                                                                          │
    the decision shard's leader <── commit or rollback ── any front <── EndTransaction

RocketMQ's clients name no producer group, so all producers of a topic are one group. A front answers checks of a topic
only while such a producer has a telemetry stream to it. Its answer to the leader is "unknown", and the producer's own
answer ends the transaction.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from ledger.client.records import Message
from ledger.client.transactions.checks import GroupChecks
from ledger.client.transactions.records import CheckedTransaction, CheckResult, PreparedMessage
from ledger.rocketmq.incoming_message import incoming_message
from ledger.rocketmq.names import producer_group_of
from ledger.rocketmq.native_clients import NativeClients
from ledger.rocketmq.sessions import FrontSession, FrontSessions
from ledger.rocketmq.topic_types import accepted_types
from ledger.rocketmq.v2 import definition_pb2 as pb
from ledger.rocketmq.v2 import service_pb2

log = logging.getLogger("ledgermq.rocketmq")

# Topics for which one node answers checks.
MAX_TOPICS = 1_000
LOOK_S = 2.0


class OrphanChecks:
    """Answers the checks of one node. Run the method `run` as a task."""

    def __init__(self, sessions: FrontSessions, started: Callable[[], list[NativeClients]]) -> None:
        """`started()` returns the native clients of all callers."""
        self._sessions = sessions
        self._started = started
        # By caller and topic, with the clients that they use.
        self._checks: dict[tuple[str, str], tuple[NativeClients, GroupChecks]] = {}
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
        wanted: dict[tuple[str, str], None] = {}
        for session in self._sessions:
            if session.streams and session.type == pb.PRODUCER:
                wanted.update(dict.fromkeys((session.caller.user, topic) for topic in sorted(session.topics)))
        clients = {each.caller.user: each for each in self._started()}
        for key, (used, checks) in list(self._checks.items()):
            if key not in wanted or clients.get(key[0]) is not used:
                del self._checks[key]
                await checks.stop()
        for user, topic in list(wanted)[:MAX_TOPICS]:
            found = clients.get(user)
            if (user, topic) not in self._checks and found is not None and _has_transactions(found, topic):
                self._checks[user, topic] = (found, self._answered(found, topic))

    def _answered(self, clients: NativeClients, topic: str) -> GroupChecks:
        def check(asked: CheckedTransaction) -> CheckResult:
            self._ask(clients.caller.user, topic, asked)
            return "unknown"

        return GroupChecks(clients.cluster, producer_group_of(topic), check)

    def _ask(self, user: str, topic: str, asked: CheckedTransaction) -> None:
        """Send the first message of a transaction to a producer of its topic, each in turn."""
        command = service_pb2.RecoverOrphanedTransactionCommand(
            message=prepared_message(asked.messages[0], topic), transaction_id=asked.id
        )
        producers = [each for each in self._sessions if _sends_to(each, user, topic)]
        self._turn += 1
        for number in range(len(producers)):
            producer = producers[(self._turn + number) % len(producers)]
            if producer.command(service_pb2.TelemetryCommand(recover_orphaned_transaction_command=command)):
                return
        log.info("no producer of topic %s can be asked for the transaction %s now", topic, asked.id)


def _has_transactions(clients: NativeClients, topic: str) -> bool:
    known = clients.cluster.routes.table.topics.get(topic)
    return known is not None and pb.TRANSACTION in accepted_types(known)


def _sends_to(session: FrontSession, user: str, topic: str) -> bool:
    return bool(session.streams) and session.caller.user == user and topic in session.topics


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
