"""Tests which peers a node accepts: it checks the sender's identity when a stream opens, and checks all bytes when
they arrive."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from typing import Any

import grpc
import pytest
import pytest_asyncio
from grpc import aio

from ledger.errors import InvalidArgumentError
from ledger.v1 import operations_pb2, operations_pb2_grpc
from raft.v1 import raft_pb2, raft_pb2_grpc
from tests.cluster.fleet import Fleet, error_of, sample_batch
from tests.cluster.scrape import not_ready, scrape

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def fleet(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Fleet]:
    fleet = Fleet(tmp_path_factory.mktemp("strangers"))
    await fleet.start()
    await fleet.leader()
    await fleet.create_topic()
    await fleet.level()
    yield fleet
    await fleet.close()


async def introduction(fleet: Fleet, node: int, **other: Any) -> raft_pb2.IntroduceResponse:
    request: dict[str, Any] = {"cluster": "test", "shard": 0, "sender": 1, "voters": fleet.nodes, **other}
    async with aio.insecure_channel(fleet.address(node)) as channel:
        answer: raft_pb2.IntroduceResponse = await raft_pb2_grpc.RaftStub(channel).Introduce(
            raft_pb2.IntroduceRequest(**request), timeout=5
        )
    return answer


async def identity(fleet: Fleet, *, sender: int, receiver: int) -> dict[str, str]:
    """Return the metadata of a stream from `sender` to `receiver`."""
    incarnation = (await introduction(fleet, receiver)).incarnation
    return {
        "ledgermq-cluster": "test",
        "ledgermq-shard": "0",
        "ledgermq-sender": str(sender),
        "ledgermq-receiver": str(receiver),
        "ledgermq-incarnation": incarnation.hex(),
    }


async def refusal(
    fleet: Fleet, node: int, metadata: dict[str, str], message: Any = None, *, method: str = "Replicate"
) -> tuple[str, str]:
    """Open a stream with this metadata. Return the status and the message with which the node ends the stream."""
    async with aio.insecure_channel(fleet.address(node)) as channel:
        call = getattr(raft_pb2_grpc.RaftStub(channel), method)(metadata=tuple(metadata.items()), timeout=10)
        if message is not None:
            await call.write(message)
        with pytest.raises(aio.AioRpcError) as ended:
            await call.read()
    return ended.value.code().name, ended.value.details() or ""


DIFFERENCES = {
    "another cluster": ({"ledgermq-cluster": "other"}, "FAILED_PRECONDITION", "is of cluster 'test', not 'other'"),
    "another node": ({"ledgermq-receiver": "3"}, "FAILED_PRECONDITION", "this is node 2, not node 3"),
    "another disk": ({"ledgermq-incarnation": "00" * 16}, "FAILED_PRECONDITION", "another data directory"),
    "itself": ({"ledgermq-sender": "2"}, "FAILED_PRECONDITION", "no other node has the number '2'"),
    "no number": ({"ledgermq-sender": "one"}, "FAILED_PRECONDITION", "no other node has the number 'one'"),
    "another shard": ({"ledgermq-shard": "7"}, "UNAVAILABLE", "does not serve this shard"),
}


@pytest.mark.parametrize("case", DIFFERENCES)
async def test_a_stream_that_means_somebody_else_is_refused(fleet: Fleet, case: str) -> None:
    difference, status, sentence = DIFFERENCES[case]
    ended = await refusal(fleet, 2, {**await identity(fleet, sender=1, receiver=2), **difference})
    assert ended[0] == status
    assert sentence in ended[1]
    assert not await not_ready(fleet.http(2))  # what a stranger believes does not matter


@pytest.mark.parametrize("case", ["another cluster", "another node", "itself", "no number"])
async def test_so_is_one_of_all_shards(fleet: Fleet, case: str) -> None:
    difference, status, sentence = DIFFERENCES[case]
    metadata = {**await identity(fleet, sender=1, receiver=2), **difference}
    ended = await refusal(fleet, 2, metadata, method="Control")
    assert ended[0] == status
    assert sentence in ended[1]


async def test_a_stream_without_metadata_is_refused(fleet: Fleet) -> None:
    assert (await refusal(fleet, 2, {}))[0] == "UNAVAILABLE"
    assert (await refusal(fleet, 2, {}, method="Control"))[0] == "FAILED_PRECONDITION"


async def test_on_the_stream_of_all_shards_each_message_says_whom_it_means(fleet: Fleet) -> None:
    """The node drops messages for another incarnation or for a shard that it does not have. Other messages of the
    stream are delivered."""
    known = (await introduction(fleet, 2)).incarnation
    metadata = await identity(fleet, sender=1, receiver=2)
    would_you = raft_pb2.VoteRequest(term=(await fleet.status(2)).term, pre=True)
    strange = raft_pb2.ControlMessage(vote_request=would_you, incarnation=bytes(16))
    elsewhere = raft_pb2.ControlMessage(vote_request=would_you, incarnation=known, shard=7)
    meant = raft_pb2.ControlMessage(vote_request=would_you, incarnation=known)
    async with aio.insecure_channel(fleet.address(2)) as channel:
        call = raft_pb2_grpc.RaftStub(channel).Control(metadata=tuple(metadata.items()), timeout=10)
        await call.write(raft_pb2.ControlBundle(messages=[strange, elsewhere, meant]))
        answers: raft_pb2.ControlBundle = await call.read()
        call.cancel()
    assert [answer.WhichOneof("message") for answer in answers.messages] == ["vote_response"]
    assert not await not_ready(fleet.http(2))


async def test_a_stranger_cannot_fill_the_log(fleet: Fleet, caplog: pytest.LogCaptureFixture) -> None:
    """Before, each message for another incarnation that followed a right message wrote a line."""
    known = (await introduction(fleet, 2)).incarnation
    metadata = await identity(fleet, sender=1, receiver=2)
    would_you = raft_pb2.VoteRequest(term=(await fleet.status(2)).term, pre=True)
    strange = raft_pb2.ControlMessage(vote_request=would_you, incarnation=bytes(16))
    meant = raft_pb2.ControlMessage(vote_request=would_you, incarnation=known)
    async with aio.insecure_channel(fleet.address(2)) as channel:
        call = raft_pb2_grpc.RaftStub(channel).Control(metadata=tuple(metadata.items()), timeout=10)
        for _ in range(30):
            await call.write(raft_pb2.ControlBundle(messages=[strange, meant]))
            await call.read()
        call.cancel()
    assert len([line for line in caplog.messages if "another data directory" in line]) <= 1


async def test_once_begun_nobody_is_empty(fleet: Fleet) -> None:
    """Nodes that have formed a cluster no longer answer that they are empty. Therefore no second cluster can be
    formed with them."""
    await fleet.level()
    assert [(await introduction(fleet, node)).empty for node in fleet.nodes] == [False] * 3


@pytest.mark.parametrize("shard", [1, 7, 63, 64, (1 << 32) - 1])
async def test_a_shard_that_shard_0_does_not_list_is_not_begun(fleet: Fleet, shard: int) -> None:
    """Before, the request created the directory of the shard, and the node was not ready until a person removed it."""
    with pytest.raises(aio.AioRpcError) as refused:
        await introduction(fleet, 2, shard=shard, adding=True, voters=[])
    assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
    assert not [*fleet.data(2).rglob(f"shard-{shard}")]
    assert not await not_ready(fleet.http(2))


async def test_bytes_that_are_no_entries_are_refused_and_change_nothing(fleet: Fleet) -> None:
    leader = await fleet.leader()
    victim, other = (node for node in fleet.nodes if node != leader)
    before = await fleet.level()
    garbage = raft_pb2.AppendRequest(
        term=before.term, prev_index=before.last_index, prev_term=before.term, commit=before.commit, entries=b"x" * 200
    )
    status, sentence = await refusal(fleet, victim, await identity(fleet, sender=other, receiver=victim), garbage)
    assert status == grpc.StatusCode.DATA_LOSS.name
    assert "Nothing was written" in sentence
    after = await fleet.level()
    assert (after.last_index, after.chain) == (before.last_index, before.chain)
    assert error_of(await fleet.produce(leader, sample_batch(1))) is None
    await fleet.level()


# -- messages that no correct node sends

HUGE = (1 << 64) - 1
FORGED: dict[str, Callable[[int], dict[str, Any]]] = {
    "a heartbeat of a second leader": lambda term: {"heartbeat": raft_pb2.Heartbeat(term=term, round=1)},
    "a heartbeat of a huge term": lambda term: {"heartbeat": raft_pb2.Heartbeat(term=HUGE)},
    "a vote request of a huge term": lambda term: {
        "vote_request": raft_pb2.VoteRequest(term=1 << 63, last_index=HUGE >> 1, last_term=1 << 62, transfer=True)
    },
    "a vote response of a huge term": lambda term: {"vote_response": raft_pb2.VoteResponse(term=HUGE)},
    "a second leader's wish": lambda term: {"timeout_now": raft_pb2.TimeoutNow(term=term)},
}


@pytest.mark.parametrize("case", FORGED)
async def test_a_forged_control_message_is_refused_counted_and_changes_nothing(fleet: Fleet, case: str) -> None:
    """Before these checks, the messages ended the node, or gave it a term with which it could not start again."""
    leader = await fleet.leader()
    before = await fleet.level()
    for victim in fleet.nodes:
        counted = await refused_messages(fleet, victim)
        sender = next(node for node in fleet.nodes if node not in (leader, victim))
        metadata = await identity(fleet, sender=sender, receiver=victim)
        incarnation = bytes.fromhex(metadata["ledgermq-incarnation"])
        message = raft_pb2.ControlMessage(**FORGED[case](before.term), incarnation=incarnation)
        bundle = raft_pb2.ControlBundle(messages=[message])
        status, sentence = await refusal(fleet, victim, metadata, bundle, method="Control")
        assert status == "INVALID_ARGUMENT"
        assert f"node {sender} sent a message that no correct node sends" in sentence
        assert await refused_messages(fleet, victim) == counted + 1
    after = await fleet.level()
    assert (await fleet.leader(), after.term, after.last_index) == (leader, before.term, before.last_index)
    assert error_of(await fleet.produce(leader, sample_batch(1))) is None


async def test_entries_of_a_second_leader_are_refused(fleet: Fleet) -> None:
    leader = await fleet.leader()
    victim, other = (node for node in fleet.nodes if node != leader)
    before = await fleet.level()
    metadata = await identity(fleet, sender=other, receiver=victim)
    forged = raft_pb2.AppendRequest(term=before.term, prev_index=before.last_index, prev_term=before.term)
    status, sentence = await refusal(fleet, victim, metadata, forged)
    assert status == "INVALID_ARGUMENT"
    assert f"node {leader} leads term {before.term}, not node {other}" in sentence
    after = await fleet.level()
    assert (await fleet.leader(), after.term, after.last_index) == (leader, before.term, before.last_index)


@pytest.mark.parametrize("method", ["Control", "Replicate"])
async def test_a_node_that_is_no_member_is_refused_and_counted(fleet: Fleet, method: str) -> None:
    leader = await fleet.leader()
    await fleet.level()
    for victim in fleet.nodes:
        counted = await refused_messages(fleet, victim)
        metadata = await identity(fleet, sender=77, receiver=victim)
        status, sentence = await refusal(fleet, victim, metadata, method=method)
        assert status == "FAILED_PRECONDITION"
        assert "node 77 is not a member of shard 0" in sentence
        assert await refused_messages(fleet, victim) == counted + 1
    assert await fleet.leader() == leader


async def refused_messages(fleet: Fleet, node: int) -> float:
    return (await scrape(fleet.http(node)))["ledgermq_raft_refused_messages_total"]


@pytest.mark.parametrize(("method", "producer_id"), [("Replicate", 101), ("Control", 102)])
async def test_a_silent_stream_in_the_leaders_name_does_not_take_its_answers(
    fleet: Fleet, method: str, producer_id: int
) -> None:
    """Before, the leader got no acknowledgement while the forged streams were open, and all writes waited for ever."""
    leader = await fleet.leader()
    await fleet.level()
    followers = [node for node in fleet.nodes if node != leader]
    async with AsyncExitStack() as stack:
        for victim in followers:
            channel = await stack.enter_async_context(aio.insecure_channel(fleet.address(victim)))
            metadata = await identity(fleet, sender=leader, receiver=victim)
            call = getattr(raft_pb2_grpc.RaftStub(channel), method)(metadata=tuple(metadata.items()))
            stack.callback(call.cancel)
            await call.wait_for_connection()
        for number in range(3):
            batch = sample_batch(1, [b"one"], producer_id=producer_id, first_sequence=number)
            async with asyncio.timeout(5):
                assert error_of(await fleet.produce(leader, batch)) is None
        assert await fleet.leader() == leader


# -- values that the state cannot store


@pytest.mark.parametrize(
    "request_of",
    [
        {"shard": 0, "topic_id": (1 << 32) - 1, "name": "orders", "shards": [0]},
        {"shard": 0, "topic_id": 7, "name": "orders", "shards": [0], "created_ms": -1},
        {"shard": 0, "topic_id": 7, "name": "", "shards": []},
    ],
    ids=str,
)
async def test_a_topic_that_no_shard_can_store_is_refused(fleet: Fleet, request_of: dict[str, Any]) -> None:
    """Before, the command was committed, and all nodes ended at the next checkpoint and at each start."""
    leader = await fleet.leader()
    before = await fleet.level()
    async with aio.insecure_channel(fleet.address(leader)) as channel:
        stub = operations_pb2_grpc.OperationsStub(channel)
        answer = await stub.OpenTopic(operations_pb2.OpenTopicRequest(**request_of), timeout=5)
    assert type(error_of(answer)) is InvalidArgumentError
    assert (await fleet.level()).last_index == before.last_index, "nothing was proposed"
