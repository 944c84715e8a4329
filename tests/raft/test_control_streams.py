"""Control messages of several shards share one stream. All messages of one turn are sent in one bounded bundle."""

from __future__ import annotations

import asyncio

from raft.transport.control_streams import BUNDLE_BOUND, Bundles
from raft.v1 import raft_pb2


async def turn() -> None:
    await asyncio.sleep(0)
    await asyncio.sleep(0)


async def test_what_is_said_in_one_turn_is_one_message() -> None:
    sent: list[raft_pb2.ControlBundle] = []
    bundles = Bundles(sent.append)
    for shard in range(3):
        bundles.add(raft_pb2.ControlMessage(shard=shard))
    assert sent == []
    await turn()
    bundles.add(raft_pb2.ControlMessage(shard=9))
    await turn()
    assert [[message.shard for message in bundle.messages] for bundle in sent] == [[0, 1, 2], [9]]
    await turn()
    assert len(sent) == 2


async def test_more_than_a_bundle_may_have_is_dropped() -> None:
    sent: list[raft_pb2.ControlBundle] = []
    bundles = Bundles(sent.append)
    for shard in range(BUNDLE_BOUND + 5):
        bundles.add(raft_pb2.ControlMessage(shard=shard))
    await turn()
    (bundle,) = sent
    assert [message.shard for message in bundle.messages] == [*range(BUNDLE_BOUND)]
