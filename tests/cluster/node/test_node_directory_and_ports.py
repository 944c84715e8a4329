"""Faults that keep a node from starting: each has an error type and a message, and leaves the directory usable."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from cluster.node.node import Node, NodeError
from ledger.errors import MessageTooLargeError
from store import DamagedError, DirectoryInUseError, StoreError, WrongDirectoryError
from tests.cluster.fleet import MESSAGE_LIMIT, SEGMENT_BYTES, Fleet, MakeFleet, error_of, sample_batch
from tests.cluster.mounts import NO_MOUNTS, may_mount, read_only
from tests.cluster.node_process import NodeProcess

pytestmark = pytest.mark.real


async def refusal(fleet: Fleet, **settings: object) -> Exception:
    """The error with which node 1 refuses to start with these settings."""
    try:
        node = Node(fleet.settings(1, **settings))
    except StoreError as error:
        return error
    try:
        with pytest.raises(NodeError) as caught:
            await node.start()
    finally:
        await node.stop()
    return caught.value


async def works(fleet: Fleet) -> None:
    """Start node 1 and send it a message."""
    await fleet.start(1)
    await fleet.leader()
    topic = await fleet.create_topic()
    assert error_of(await fleet.produce(1, sample_batch(topic))) is None


@contextmanager
def occupied(address: str) -> Iterator[None]:
    host, _, port = address.rpartition(":")
    with closing(socket.create_server((host, int(port)))):
        yield


async def test_a_second_node_on_the_same_directory(make_fleet: MakeFleet) -> None:
    fleet = make_fleet(1)
    await works(fleet)
    error = await refusal(fleet)
    assert type(error) is DirectoryInUseError
    assert str(fleet.data(1)) in str(error)
    assert str(os.getpid()) in str(error)
    assert "Stop that process" in str(error)
    assert (await fleet.status(1)).role == "leader"  # the first one goes on
    await fleet.stop()
    await fleet.start()


async def test_the_directory_of_another_node_or_cluster(make_fleet: MakeFleet) -> None:
    fleet = make_fleet(1)
    await works(fleet)
    await fleet.stop()
    for settings in ({"node": 2, "peers": {2: fleet.address(1)}}, {"cluster": "other"}):
        error = await refusal(fleet, **settings)
        assert type(error) is WrongDirectoryError
        assert "belongs to node 1 of cluster 'test'" in str(error)
    await fleet.start()
    await fleet.leader()


async def test_a_directory_of_an_unknown_format(make_fleet: MakeFleet) -> None:
    fleet = make_fleet(1)
    await works(fleet)
    await fleet.stop()
    identity = fleet.data(1) / "identity.json"
    identity.write_text(json.dumps({**json.loads(identity.read_text()), "format": 99}))
    assert "format 99" in str(await refusal(fleet))
    identity.write_text("{")
    assert type(await refusal(fleet)) is DamagedError


async def test_sizes_stay_as_the_shard_began(make_fleet: MakeFleet) -> None:
    """`segment_bytes` and the largest message are in entry 1, so other settings at a later start do not move the
    grid."""
    fleet = make_fleet(1)
    await works(fleet)
    await fleet.stop()
    larger = make_fleet(1, data=fleet.data(1), segment_bytes=8 << 20, max_message_bytes=2 << 20)
    await larger.start()
    await larger.leader()
    assert (fleet.data(1) / "shard-0/log" / f"{0:020}").stat().st_size == SEGMENT_BYTES
    refused = error_of(await larger.produce(1, sample_batch(1, [bytes(MESSAGE_LIMIT + 1)], producer_id=9)))
    assert type(refused) is MessageTooLargeError
    assert str(MESSAGE_LIMIT) in refused.message
    began_with = larger.settings(1, max_message_bytes=MESSAGE_LIMIT).largest_entry_bytes
    assert larger.running[1]._shards.replicas.topics.max_entry_bytes == began_with


async def test_the_port_of_clients_in_use(make_fleet: MakeFleet) -> None:
    fleet = make_fleet(1)
    with occupied(fleet.address(1)):
        error = await refusal(fleet)
    assert type(error) is NodeError
    assert fleet.address(1) in str(error)
    assert "`listen`" in str(error)
    await works(fleet)


async def test_the_http_port_in_use(make_fleet: MakeFleet) -> None:
    fleet = make_fleet(1)
    with occupied(fleet.http(1)):
        error = await refusal(fleet)
    assert type(error) is NodeError
    assert fleet.http(1) in str(error)
    assert "`http`" in str(error)
    await works(fleet)


async def test_a_path_that_cannot_be_a_directory(make_fleet: MakeFleet, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("in the way")
    error = await refusal(make_fleet(1), data=file / "data")
    assert isinstance(error, StoreError)
    assert str(file) in str(error)


async def test_the_process_ends_with_status_1_and_one_sentence(make_fleet: MakeFleet) -> None:
    fleet = make_fleet(1)
    await fleet.start()
    with NodeProcess(fleet.write_toml(1)) as second:
        assert await second.ended() == 1
    assert "Stop that process, or use another data directory" in second.log
    assert "Traceback" not in second.log


@pytest.mark.skipif(not may_mount(), reason=NO_MOUNTS)
async def test_a_read_only_directory(make_fleet: MakeFleet) -> None:
    fleet = make_fleet(1)
    await works(fleet)
    await fleet.stop()
    with NodeProcess(fleet.write_toml(1), before=read_only(fleet.data(1))) as node:
        assert await node.ended() == 1
    assert str(fleet.data(1)) in node.log
    assert "Read-only file system" in node.log
    assert "Check disk and permissions" in node.log
    assert "Traceback" not in node.log
    await fleet.start()  # nothing was harmed
    await fleet.leader()
