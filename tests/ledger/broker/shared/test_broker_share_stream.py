"""The stream of a member of a shared group on its node: what it refuses, and when it reads no further request."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import cast

import grpc
import pytest
from grpc import aio

from ledger.batch import Batch
from ledger.broker.rpc import share_stream
from ledger.broker.rpc.share_stream import Context, open_stream, serve_share
from ledger.broker.shared import lease_turns
from ledger.broker.shared.group_lookup import GroupLookup
from ledger.broker.shared.lease_turns import LeaseTurns
from ledger.broker.shared.members import MAX_REQUESTS, MAX_TAGS, SharedMember
from ledger.errors import InvalidArgumentError, LedgerError
from ledger.v1.consumer_group_pb2 import Receive, SharedTopic, ShareOpening, ShareRequest, WantedChange
from tests.ledger.broker.shared.leader import GROUP, ORDERS, LeasingLeader
from tests.ledger.broker.stream_client import AbortedError, StreamClient

TOPIC = SharedTopic(topic_id=ORDERS, start_offset=0)
OPEN = ShareRequest(number=1, opening=ShareOpening(consumer_group=GROUP, member="m", topics=[TOPIC]))
RECEIVE = Receive(max_messages=1, max_bytes=100, lease_ms=1_000, max_wait_ms=60_000)
CHANGE = WantedChange(kind=1, topic_id=ORDERS, first=0, size=1, lease=7)


class Node:
    """Implements `Sharing`, with every right."""

    def __init__(self, leader: LeasingLeader) -> None:
        self._leader = leader
        self.refused: list[LedgerError] = []
        self.counted: list[tuple[int, int, int]] = []

    @property
    def lookup(self) -> GroupLookup:
        return self._leader.lookup

    def turns(self, shard: int) -> LeaseTurns:
        assert shard == 0
        return self._leader.turns

    def check_rights(self, consumer_group: str, topics: Iterable[int]) -> None:
        """Every caller may do everything."""

    def given(self, topic_id: int, messages: int, size: int) -> None:
        self.counted.append((topic_id, messages, size))

    async def serve(self, client: StreamClient) -> None:
        await serve_share(self, cast("Context", client), self.refused.append)

    @asynccontextmanager
    async def serving(self, *clients: StreamClient) -> AsyncIterator[None]:
        streams = [asyncio.create_task(self.serve(client)) for client in clients]
        await settled()
        yield
        for stream in streams:
            stream.cancel()
        await asyncio.gather(*streams, return_exceptions=True)


async def settled() -> None:
    for _ in range(500):
        await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("opening", "match"),
    [
        (ShareOpening(consumer_group=GROUP, member="m" * 4_000_000, topics=[TOPIC]), "not a valid member name"),
        (ShareOpening(consumer_group=GROUP, topics=[TOPIC]), "not a valid member name"),
        (ShareOpening(consumer_group=GROUP, member="m"), "1 to 256 topics"),
        (
            ShareOpening(consumer_group=GROUP, member="m", topics=[SharedTopic(topic_id=ORDERS, start_offset=-3)]),
            "cannot be a start offset",
        ),
        (
            ShareOpening(consumer_group=GROUP, member="m", topics=[SharedTopic(tag_hashes=[1] * (MAX_TAGS + 1))]),
            "at most 256 tags",
        ),
        (
            ShareOpening(consumer_group=GROUP, member="m", topics=[SharedTopic(topic_id=ORDERS, filter="a != 1")]),
            'mistake at character 3, "!= 1"',
        ),
        (
            ShareOpening(consumer_group=GROUP, member="m", topics=[SharedTopic(topic_id=ORDERS, filter="a" * 4_097)]),
            "at most 4,096 characters",
        ),
        (
            ShareOpening(
                consumer_group=GROUP,
                member="m",
                topics=[SharedTopic(topic_id=1 + each, filter=f"a{each}".ljust(4_000)) for each in range(5)],
            ),
            "filters of one member can have at most 16,384 characters together, and these have 20,000",
        ),
        (None, "must open it"),
    ],
    ids=[
        "a long name",
        "no name",
        "no topics",
        "a start",
        "many tags",
        "a mistake in a filter",
        "a long filter",
        "many filters",
        "no opening",
    ],
)
async def test_an_opening_that_is_not_valid_is_refused(opening: ShareOpening | None, match: str) -> None:
    leader = LeasingLeader()
    with pytest.raises(InvalidArgumentError, match=match):
        await open_stream(Node(leader), ShareRequest(number=1, opening=opening))
    assert leader.turns.members(GROUP) == 0


async def test_a_stream_hands_out_what_matches_the_filter_of_its_opening() -> None:
    leader = LeasingLeader()
    leader.send(3, headers=[[("price", b"5")], [("price", b"15")], []])
    topic = SharedTopic(topic_id=ORDERS, start_offset=0, filter="price > 10")
    opening = ShareOpening(consumer_group=GROUP, member="m", topics=[topic])
    client = StreamClient(ShareRequest(number=1, opening=opening), ShareRequest(number=2, receive=RECEIVE))
    node = Node(leader)
    async with node.serving(client):
        await leader.turn(3)
        await settled()
    opened, received = client.received
    assert opened.filters
    assert Batch(received.batches[0].body).offsets_from(0).tolist() == [1]
    assert node.counted == [(ORDERS, 1, len(received.batches[0].body))]


async def test_a_stream_that_its_client_does_not_open_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(share_stream, "FIRST_S", 0.01)
    client = StreamClient()
    with pytest.raises(AbortedError, match="did not open this stream"):
        await Node(LeasingLeader()).serve(client)
    assert client.ended is grpc.StatusCode.DEADLINE_EXCEEDED


async def test_a_stream_reads_no_further_request_while_too_many_wait() -> None:
    leader = LeasingLeader()
    client = StreamClient(
        OPEN, *[ShareRequest(number=2 + place, receive=RECEIVE) for place in range(MAX_REQUESTS + 10)]
    )
    async with Node(leader).serving(client):
        assert client.requests.qsize() == 10
        leader.send(4)
        await leader.turn(3)
        await settled()
        assert [response.number for response in client.received if response.has_received] == [2, 3, 4, 5]
        assert client.requests.qsize() == 6


async def test_a_request_that_is_refused_while_an_answer_is_sent_is_told_behind_it() -> None:
    client = StreamClient(OPEN, ShareRequest(number=2, receive=Receive()))
    client.may_send.clear()
    node = Node(LeasingLeader())
    async with node.serving(client):
        assert not client.received
        client.may_send.set()
        await settled()
    opened, refused = client.received
    assert opened.number == 1
    assert not opened.HasField("error")
    assert "lease" in refused.error.message
    assert len(node.refused) == 1


async def test_a_stream_that_its_client_ends_sends_its_answer_to_the_end() -> None:
    client = StreamClient(OPEN, None)
    client.may_send.clear()
    stream = asyncio.create_task(Node(LeasingLeader()).serve(client))
    await settled()
    client.may_send.set()
    await stream
    assert [response.number for response in client.received] == [1]


async def test_changes_wait_while_the_shard_has_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease_turns, "MAX_WAITING_CHANGES", 2)
    leader = LeasingLeader()
    clients = [StreamClient(OPEN, ShareRequest(number=2, changes=[CHANGE])) for _ in range(5)]

    def answered() -> int:
        return sum(response.has_changed for client in clients for response in client.received)

    async with Node(leader).serving(*clients):
        await leader.turn()
        assert answered() == 0, "the answers are not sent yet"
        await settled()
        assert answered() == 2
        await leader.turn()
        await settled()
        assert answered() == 4
        await leader.turn()
        await settled()
        assert answered() == 5


@pytest.mark.parametrize("failing", ["change", "next_answer"], ids=["reading", "writing"])
async def test_a_defect_of_a_stream_ends_it_with_the_defect(failing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before, the stream ended with the status OK, and the log had no line."""

    def fail(*_: object) -> None:
        raise RuntimeError("a defect")

    monkeypatch.setattr(LeaseTurns if failing == "change" else SharedMember, failing, fail)
    leader = LeasingLeader()
    client = StreamClient(OPEN, ShareRequest(number=2, changes=[CHANGE]))
    stream = asyncio.create_task(Node(leader).serve(client))
    await settled()
    await leader.turn()
    with pytest.raises(RuntimeError, match="a defect"):
        await stream
    assert leader.turns.members(GROUP) == 0


async def test_a_stream_whose_call_has_ended_ends_without_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    client = StreamClient(OPEN, ShareRequest(number=2, changes=[CHANGE]))

    async def write(message: object) -> None:
        raise aio.UsageError("RPC already finished.")

    monkeypatch.setattr(client, "write", write)
    leader = LeasingLeader()
    await Node(leader).serve(client)
    assert leader.turns.members(GROUP) == 0


async def test_changes_that_waited_for_room_are_refused_after_the_term(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease_turns, "MAX_WAITING_CHANGES", 1)
    leader = LeasingLeader()
    clients = [StreamClient(OPEN, ShareRequest(number=2, changes=[CHANGE])) for _ in range(2)]
    async with Node(leader).serving(*clients):
        await leader.turn()  # answers the first change
        await settled()
        clients[0].requests.put_nowait(ShareRequest(number=3, changes=[CHANGE]))
        await settled()  # one change waits for the next turn, and the other for room
        leader.replica._projected = None
        await leader.turn()
        await settled()
        assert not leader.turns._requests
        assert leader.turns._waiting_changes == 0
    for client in clients:
        assert "no leader is known" in client.received[-1].error.message
