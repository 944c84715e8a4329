"""The Transactions service: prepare, end, list, checks, and the messages between the leaders of shards.

Each method turns its request into a call of ledger/broker/transactions, and the result into protobuf.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from grpc import StatusCode, aio

from ledger.access.rules import Resource
from ledger.broker.access.authorizer import Authorizer
from ledger.broker.access.callers import Caller, present_caller
from ledger.broker.produce.proposals import Committed
from ledger.broker.replicas import Replicas
from ledger.broker.rpc.refusals import Context, RefusingService, answers, storage_checked
from ledger.broker.rpc.routes_wire import topic_route
from ledger.broker.rpc.topic_rights import TopicRights
from ledger.broker.rpc.two_way_stream import StalledError, StallLimit, raise_defect, serve_both
from ledger.broker.topics.transaction_topics import TransactionTopics
from ledger.broker.transactions.checkers import MAX_NAME_CHARACTERS, AskedTransaction, Checker, Checkers
from ledger.broker.transactions.ends import TransactionEnd, check_ends
from ledger.broker.transactions.listing import ListedTransaction, list_open, show
from ledger.broker.transactions.other_shards import DecisionVerdict, HalfOfTransaction
from ledger.broker.transactions.shard_transactions import ShardTransactions
from ledger.broker.turn_budget import TurnBudget
from ledger.consumer_groups import validate_group_name
from ledger.errors import InvalidArgumentError, LedgerError, UnavailableError, to_wire
from ledger.state import HalfName
from ledger.transactions import MAX_HALF
from ledger.v1 import transaction_pb2, transaction_pb2_grpc

UNREADABLE = "this node cannot read the data"
# How long a stream may wait before it names its producer group.
FIRST_S = 10.0
# A stream whose client accepts no check for this time is refused.
STALLED_S = 10.0


class TransactionShard(Protocol):
    """The interface through which the service uses a shard of this node."""

    @property
    def shard_transactions(self) -> ShardTransactions | None: ...


class TransactionService(RefusingService, transaction_pb2_grpc.TransactionsServicer):
    """The gRPC service of one node for transactions."""

    def __init__(
        self,
        shards: Mapping[int, TransactionShard],
        replicas: Replicas,
        topics: TransactionTopics,
        checkers: Checkers,
        authorizer: Authorizer | None = None,
    ) -> None:
        """`shards` maps shard numbers to the shards of this node. `authorizer` decides what callers may do; None means
        that every caller may do everything."""
        self._shards = shards
        self._replicas = replicas
        self._topics = topics
        self._checkers = checkers
        self._authorizer = authorizer
        self._rights = TopicRights(replicas, authorizer)
        # The lists of all callers together: one in a turn of the event loop.
        self._turns = TurnBudget(1)

    def _of(self, shard: int) -> ShardTransactions:
        """Return the transactions of a shard. Raises the errors of `Replicas.require`."""
        self._replicas.require(shard)
        found = self._shards[shard].shard_transactions
        if found is None:
            raise UnavailableError(f"shard {shard} has not started on this node yet: try again shortly")
        return found

    @answers(transaction_pb2.PrepareTransactionsResponse)
    async def PrepareTransactions(  # noqa: N802 (gRPC names)
        self,
        request: transaction_pb2.PrepareTransactionsRequest,
        response: transaction_pb2.PrepareTransactionsResponse,
    ) -> None:
        response.topic.CopyFrom(topic_route(await self._topics.prepare(request.producer_group)))

    @answers(transaction_pb2.EndTransactionsResponse)
    async def EndTransactions(  # noqa: N802
        self, request: transaction_pb2.EndTransactionsRequest, response: transaction_pb2.EndTransactionsResponse
    ) -> None:
        transactions = self._of(request.shard)
        check_ends(len(request.ends))
        ends = [self._end(each) for each in request.ends]
        with storage_checked(UNREADABLE):
            found: dict[int, tuple[HalfName, ...]] = {}
            for place, each in enumerate(request.ends):
                # Other shards are asked once, and only for transactions that this end can end.
                if each.commit and each.find_halves and transactions.ends.is_of(ends[place]):
                    if each.transaction not in found:
                        found[each.transaction] = await transactions.finder.halves_of(each.transaction)
                    ends[place] = replace(ends[place], halves=found[each.transaction])
            results = await transactions.ends.end_all(ends)
        response.results.extend(map(_ended, results))

    def _end(self, wire: transaction_pb2.TransactionEnd) -> TransactionEnd:
        halves = tuple(HalfName(each.shard, each.number) for each in wire.halves)
        shards = self._replicas.topics.state.shards
        if wire.transaction > MAX_HALF or any(half.number > MAX_HALF or half.shard not in shards for half in halves):
            raise InvalidArgumentError("an end names half batches that cannot exist: use the id of a transaction")
        return TransactionEnd(wire.transaction, wire.topic_id, wire.commit, halves if wire.commit else ())

    @answers(transaction_pb2.ListTransactionsResponse)
    async def ListTransactions(  # noqa: N802
        self, request: transaction_pb2.ListTransactionsRequest, response: transaction_pb2.ListTransactionsResponse
    ) -> None:
        replica = self._of(request.shard).replica
        may_see = self._rights.may_read
        with storage_checked(UNREADABLE):
            if request.HasField("only"):
                found = await show(replica, request.only, may_see, sees_all=self._rights.sees_all)
                listed = [] if found is None else [found]
            else:
                after = request.after if request.HasField("after") else None
                page = await list_open(replica, request.producer_group, after, request.limit, may_see, self._turns)
                listed = page.transactions
                if page.next is not None:
                    response.next = page.next
        response.transactions.extend(map(_listed, listed))

    # -- checks

    async def CheckTransactions(self, request_iterator: Any, context: Context) -> None:  # noqa: N802
        try:
            async with asyncio.timeout(FIRST_S):
                first = await context.read()
        except TimeoutError:
            await context.abort(StatusCode.DEADLINE_EXCEEDED, "name the producer group at the begin of the stream")
        if first is aio.EOF:
            return
        caller = present_caller()
        try:
            validate_group_name(first.producer_group)
            self._check_group(caller, first.producer_group)
            if len(first.name) > MAX_NAME_CHARACTERS:
                raise InvalidArgumentError(
                    f"The name of a producer that answers checks has at most {MAX_NAME_CHARACTERS} characters."
                )
            checker = Checker(
                first.producer_group,
                lambda topic_id: self._may_answer(caller, first.producer_group, topic_id),
                first.name,
            )
            self._checkers.add(checker)
        except LedgerError as error:
            await context.write(transaction_pb2.TransactionCheck(error=to_wire(error)))
            return
        try:
            is_valid, asked = await serve_both(
                _read_answers(checker, context), _ask(checker, context), lambda error: self._checkers.remove(checker)
            )
        finally:
            self._checkers.remove(checker)
        if isinstance(asked, StalledError):
            await context.abort(
                StatusCode.RESOURCE_EXHAUSTED,
                f"the client read no check of this stream for {STALLED_S:.0f} s: read them, and open a new stream",
            )
        if is_valid is False:
            await context.abort(StatusCode.INVALID_ARGUMENT, "an answer is commit, rollback or unknown")
        raise_defect(is_valid, asked)

    def _check_group(self, caller: Caller, group: str) -> None:
        if self._authorizer is not None:
            self._authorizer.check(caller, "subscribe", Resource("group", group))

    def _may_answer(self, caller: Caller, group: str, topic_id: int) -> bool:
        try:
            self._check_group(caller, group)
            self._rights.check(caller, "publish", topic_id)
        except LedgerError:
            return False
        return True

    # -- between shards

    @answers(transaction_pb2.SettleHalvesResponse)
    async def SettleHalves(  # noqa: N802
        self, request: transaction_pb2.SettleHalvesRequest, response: transaction_pb2.SettleHalvesResponse
    ) -> None:
        found = self._of(request.shard).answers
        response.settled.extend(await found.settle(request.decision_shard, _halves(request.halves)))

    @answers(transaction_pb2.JudgeHalvesResponse)
    async def JudgeHalves(  # noqa: N802
        self, request: transaction_pb2.JudgeHalvesRequest, response: transaction_pb2.JudgeHalvesResponse
    ) -> None:
        found = self._of(request.shard).answers
        verdicts = await found.judge(request.asking_shard, _halves(request.halves))
        response.verdicts.extend(_VERDICTS[each] for each in verdicts)

    @answers(transaction_pb2.FindHalvesResponse)
    async def FindHalves(  # noqa: N802
        self, request: transaction_pb2.FindHalvesRequest, response: transaction_pb2.FindHalvesResponse
    ) -> None:
        found = self._of(request.shard).answers
        response.numbers.extend(await found.find(request.decision_shard, request.transaction))


_VERDICTS = {
    DecisionVerdict.UNDECIDED: transaction_pb2.UNDECIDED,
    DecisionVerdict.COMMIT: transaction_pb2.TO_COMMIT,
    DecisionVerdict.ROLL_BACK: transaction_pb2.TO_ROLL_BACK,
    DecisionVerdict.DEAD_LETTERS: transaction_pb2.TO_DEAD_LETTERS,
}
_OUTCOMES = {transaction_pb2.UNKNOWN: None, transaction_pb2.COMMIT: True, transaction_pb2.ROLL_BACK: False}


async def _ask(checker: Checker, context: Context) -> None:
    """Send the checks of one producer, until it gets no other. Raises StalledError if the client reads none."""
    limit = StallLimit(STALLED_S)
    while (question := await checker.questions.get()) is not None:
        with limit:
            await context.write(_check(*question))


async def _read_answers(checker: Checker, context: Context) -> bool:
    """Read the answers of one producer, until it ends the stream. Return False at an answer that is not valid."""
    while (answer := await context.read()) is not aio.EOF:
        if answer.outcome not in _OUTCOMES:
            return False
        checker.answered(answer.check, _OUTCOMES[answer.outcome])
    return True


def _check(number: int, asked: AskedTransaction) -> transaction_pb2.TransactionCheck:
    return transaction_pb2.TransactionCheck(
        check=number,
        shard=asked.shard,
        transaction=asked.transaction,
        topic_id=asked.topic_id,
        queue=asked.queue,
        since_ms=asked.since_ms,
        unknowns=asked.unknowns,
        body=asked.body,
    )


def _ended(result: Committed | LedgerError | None) -> transaction_pb2.TransactionEnded:
    if isinstance(result, LedgerError):
        return transaction_pb2.TransactionEnded(error=to_wire(result))
    if result is None:
        return transaction_pb2.TransactionEnded()
    return transaction_pb2.TransactionEnded(
        base_offset=result.base_offset, append_time_ms=result.append_time_ms, term=result.term
    )


def _listed(found: ListedTransaction) -> transaction_pb2.ListedTransaction:
    listed = transaction_pb2.ListedTransaction(
        transaction=found.transaction, state=found.state, decided_ms=found.decided_ms
    )
    if found.first is not None:
        listed.producer_group = found.first.group
        listed.since_ms, listed.unknowns = found.first.since_ms, found.first.unknowns
    bodies = (*found.bodies, *[b""] * (len(found.halves) - len(found.bodies)))
    for half, body in zip(found.halves, bodies, strict=True):
        listed.halves.add(
            number=half.number,
            topic_id=half.topic_id,
            queue=half.queue,
            messages=half.count,
            size=half.size,
            body=body,
        )
    return listed


def _halves(wire: Sequence[transaction_pb2.HalfOfTransaction]) -> list[HalfOfTransaction]:
    return [HalfOfTransaction(each.transaction, each.number) for each in wire]
