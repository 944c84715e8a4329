"""The links of a consumer of a shared group: which topics its streams name when topics are deleted and created again,
and to which shards it must have streams when it starts.
"""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ledger.client.connection.route_table import RoutedTopic
from ledger.client.shared.group_links import GroupLinks, Membership
from ledger.client.shared.shard_link import ShardLink
from ledger.errors import GroupConflictError, LedgerError, NoLeaderError, PermissionDeniedError, UnknownTopicError
from ledger.v1.consumer_group_pb2 import ShareOpening, ShareResponse, WantedChange

Topics = dict[str, RoutedTopic]


def topics(**ids: int) -> Topics:
    return {name: RoutedTopic(name, topic_id, (0,), 0) for name, topic_id in ids.items()}


class Stream:
    """A stream to a leader that counts every change, and refuses the topics with the ids `refused`."""

    made: list[Stream]
    refused: set[int]

    def __init__(self, address: str, stub: object, opening: ShareOpening) -> None:
        self.address = address
        self.error: LedgerError | None = None
        self.topics = {topic.topic_id for topic in opening.topics}
        self.opened = asyncio.get_running_loop().create_future()
        self.opened.set_result(None)
        self.is_closed = False
        self.made.append(self)

    def send(self, changes: list[WantedChange], receive: object) -> tuple[int, Any, Any]:
        answer = asyncio.get_running_loop().create_future()
        if self.topics & self.refused:
            self.error = PermissionDeniedError("no right")
            answer.set_exception(self.error)
        else:
            answer.set_result(ShareResponse(changed=[1] * len(changes)))
        return 1, answer, None

    async def close(self) -> None:
        self.is_closed = True


class Cluster:
    """A client of a cluster. Its routes are `known`, until it asks the leader of shard 0."""

    request_timeout_ms = 1_000

    def __init__(self, known: Topics) -> None:
        table = SimpleNamespace(topics=known, leader_address=lambda _: "n1:1", with_names=lambda error: error)
        self.routes = SimpleNamespace(table=table, note=lambda *_: None)
        self.connections = SimpleNamespace(stub=lambda _: None)
        self.there = dict(known)

    def check_open(self) -> None:
        """Be open."""

    async def topic(self, name: str, *, newest: bool = False) -> RoutedTopic:
        known: Topics = self.routes.table.topics
        if newest or name not in known:
            known.pop(name, None)
            if name not in self.there:
                raise UnknownTopicError(f"no {name}")
            known[name] = self.there[name]
        return known[name]


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Stream]:
    Stream.made, Stream.refused = [], set()
    monkeypatch.setattr("ledger.client.shared.shard_link.ShareStream", Stream)
    return Stream.made


def links_of_a_member(cluster: Cluster) -> GroupLinks:
    membership = Membership("work", "member", by_key=False, start_offset=0, tag_hashes=(), where="")
    return GroupLinks(cast(Any, cluster), ["orders", "returns"], membership)


async def changed(links: GroupLinks) -> list[int]:
    (link,) = await links.current()
    return await link.change([WantedChange()])


async def test_a_stream_names_the_topics_that_exist(made: list[Stream]) -> None:
    cluster = Cluster(topics(orders=1, returns=2))
    links = links_of_a_member(cluster)
    for _ in range(2):
        assert await changed(links) == [1]
    cluster.routes.table.topics = topics(returns=2)
    assert await changed(links) == [1]
    cluster.routes.table.topics = topics(orders=3, returns=2)
    for _ in range(2):
        assert await changed(links) == [1]
    assert [stream.topics for stream in made] == [{1, 2}, {2}, {2, 3}]
    assert [stream.is_closed for stream in made] == [True, True, False]


async def test_a_member_is_not_refused_because_of_a_topic_that_was_deleted(made: list[Stream]) -> None:
    """Its routes still name the topic. The topic has no name any more, so no user has a right on it."""
    cluster = Cluster(topics(orders=1, returns=2))
    links = links_of_a_member(cluster)
    await changed(links)
    del cluster.there["orders"]
    Stream.refused = {1}
    assert await changed(links) == [1]
    assert [stream.topics for stream in made] == [{1, 2}, {2}]


async def test_a_member_that_has_no_right_is_refused(made: list[Stream]) -> None:
    Stream.refused = {2}
    with pytest.raises(PermissionDeniedError):
        await changed(links_of_a_member(Cluster(topics(orders=1, returns=2))))
    assert len(made) == 1


async def test_without_any_topic_a_receive_says_so_until_one_exists(made: list[Stream]) -> None:
    cluster = Cluster({})
    links = links_of_a_member(cluster)
    with pytest.raises(UnknownTopicError, match='no topic "orders"'):
        await changed(links)
    cluster.there = topics(returns=5)
    assert await changed(links) == [1]
    assert [stream.topics for stream in made] == [{5}]


class Opening:
    """Replaces `ShardLink.open`. It fails in the shards of `errors`, after the shards of the topic have all begun."""

    def __init__(self, errors: dict[int, LedgerError]) -> None:
        self.errors = errors
        self.begun: list[int] = []
        self.all_begun = asyncio.Event()

    async def open(self, link: ShardLink) -> None:
        self.begun.append(link.shard)
        if len(self.begun) == 3:
            self.all_begun.set()
        await asyncio.wait_for(self.all_begun.wait(), 5)
        if link.shard in self.errors:
            raise self.errors[link.shard]


NO_LEADER, CONFLICT = NoLeaderError("No node leads shard 0."), GroupConflictError("another mode")


@pytest.mark.parametrize(
    ("errors", "raised"),
    [
        ({0: NO_LEADER}, None),
        ({0: NO_LEADER, 1: NO_LEADER}, None),
        ({0: NO_LEADER, 2: CONFLICT}, CONFLICT),
        (dict.fromkeys(range(3), NO_LEADER), NO_LEADER),
    ],
)
async def test_a_shard_without_a_leader_does_not_prevent_a_start(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    errors: dict[int, LedgerError],
    raised: LedgerError | None,
) -> None:
    opening = Opening(errors)

    async def open_link(link: ShardLink) -> None:
        await opening.open(link)

    monkeypatch.setattr(ShardLink, "open", open_link)
    links = links_of_a_member(Cluster({"orders": RoutedTopic("orders", 1, (0, 1, 2), 0)}))
    if raised is None:
        await links.open()
        assert caplog.text.count("No node leads shard 0.") == len(errors)
    else:
        with pytest.raises(type(raised)):
            await links.open()
    assert opening.begun == [0, 1, 2]
