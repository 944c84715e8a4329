"""Lists, shows and ends transactions for operators, at the leaders of their decision shards."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping

from ledger.client.connection.cluster_client import ClusterClient
from ledger.client.records import TopicQueue
from ledger.client.transactions.records import TransactionDescription, prepared_messages
from ledger.errors import InternalError, UnknownTopicError, from_wire
from ledger.timed import moment
from ledger.transactions import HALF_TOPIC, TransactionId
from ledger.v1 import transaction_pb2

MAX_TRANSACTIONS = 10_000


async def list_transactions(client: ClusterClient, group: str | None, limit: int) -> list[TransactionDescription]:
    """Do what AsyncAdmin.transactions does."""
    shards, names = await _shards(client), _names(client)
    lists = await asyncio.gather(*(_of_shard(client, shard, group or "", limit, names) for shard in shards))
    found = [transaction for transactions in lists for transaction in transactions]
    found.sort(key=lambda transaction: transaction.since)
    return found[:limit]


async def get_transaction(client: ClusterClient, text: str) -> TransactionDescription | None:
    """Do what AsyncAdmin.transaction does."""
    transaction = TransactionId.parse(text)
    request = transaction_pb2.ListTransactionsRequest(shard=transaction.shard, only=transaction.number)
    response = await _listed(client, request)
    names = _names(client)
    return next((_description(each, transaction, names) for each in response.transactions), None)


async def end_transaction(client: ClusterClient, text: str, *, commit: bool) -> None:
    """Do what AsyncAdmin.commit_transaction and AsyncAdmin.rollback_transaction do."""
    transaction = TransactionId.parse(text)
    end = transaction_pb2.TransactionEnd(
        transaction=transaction.number, topic_id=transaction.topic_id, commit=commit, find_halves=commit
    )
    request = transaction_pb2.EndTransactionsRequest(shard=transaction.shard, ends=[end])
    response = await client.call_feature(
        "transactions", transaction.shard, lambda stub, seconds: stub.EndTransactions(request, timeout=seconds)
    )
    if len(response.results) != 1:
        raise InternalError(f"A node answered {len(response.results)} results for one transaction.")
    if response.results[0].HasField("error"):
        raise from_wire(response.results[0].error)


async def _shards(client: ClusterClient) -> Iterable[int]:
    """Return the shards in which transactions can begin."""
    try:
        return sorted(set((await client.topic(HALF_TOPIC, newest=True)).shards))
    except UnknownTopicError:
        return ()


def _names(client: ClusterClient) -> Mapping[int, str]:
    """Return the names of the topics that the client knows, by topic id."""
    return {topic.topic_id: name for name, topic in client.routes.table.topics.items()}


async def _of_shard(
    client: ClusterClient, shard: int, group: str, limit: int, names: Mapping[int, str]
) -> list[TransactionDescription]:
    request = transaction_pb2.ListTransactionsRequest(shard=shard, producer_group=group)
    found: list[TransactionDescription] = []
    while True:
        request.limit = limit - len(found)
        response = await _listed(client, request)
        for each in response.transactions:
            transaction = TransactionId(each.halves[0].topic_id, shard, each.transaction)
            found.append(_description(each, transaction, names))
        if not response.HasField("next") or len(found) >= limit:
            return found
        request.after = response.next


async def _listed(
    client: ClusterClient, request: transaction_pb2.ListTransactionsRequest
) -> transaction_pb2.ListTransactionsResponse:
    return await client.call_feature(
        "transactions", request.shard, lambda stub, seconds: stub.ListTransactions(request, timeout=seconds)
    )


def _description(
    wire: transaction_pb2.ListedTransaction, transaction: TransactionId, names: Mapping[int, str]
) -> TransactionDescription:
    queues = tuple(TopicQueue(names.get(half.topic_id, ""), half.queue) for half in wire.halves)
    messages = [
        message
        for queue, half in zip(queues, wire.halves, strict=True)
        if half.body
        for message in prepared_messages(*queue, half.body)
    ]
    return TransactionDescription(
        id=str(transaction),
        state=wire.state,
        group=wire.producer_group,
        since=moment(wire.since_ms),
        ended=moment(wire.decided_ms) if wire.decided_ms else None,
        unknowns=wire.unknowns,
        queues=queues,
        message_count=sum(half.messages for half in wire.halves),
        size=sum(half.size for half in wire.halves),
        messages=tuple(messages),
    )
