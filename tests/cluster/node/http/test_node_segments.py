"""Segment files over the HTTP port: the exact bytes of the log, in any range, while the log grows and its start
moves."""

from __future__ import annotations

import asyncio
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from cluster.node.http.downloads import DownloadLimits
from store import FoundEntry, LogReader, PosixReadOnlyDisk, SegmentFile
from store.log.tail import EMPTY
from tests.cluster.fleet import Fleet, MakeFleet, error_of, sample_batch
from tests.cluster.scrape import get
from tests.cluster.waiter import eventually

pytestmark = pytest.mark.real

NAME = f"{0:020}"
SECOND = f"{2 << 20:020}"


@pytest.fixture
async def fleet(make_fleet: MakeFleet) -> Fleet:
    """One node with two and a half segments of 2 MiB."""
    fleet = make_fleet(1)
    await fleet.start()
    await fleet.leader()
    topic = await fleet.create_topic()
    await fill(fleet, topic, 0, 80)
    return fleet


async def fill(fleet: Fleet, topic: int, first: int, count: int) -> None:
    """Produce batches of 64 KB; 80 of them fill two and a half segments."""
    stream = fleet.stream(1)
    for number in range(first, first + count):
        values = [bytes([number % 251]) * 64_000]
        assert error_of(await stream.produce(sample_batch(topic, values, first_sequence=number))) is None
    stream.drop()


async def listed(fleet: Fleet) -> dict[str, Any]:
    status, body = await get(fleet.http(1), "/shards/0/segments")
    assert status == 200
    answer: dict[str, Any] = json.loads(body)
    return answer


def file(fleet: Fleet, name: str) -> bytes:
    return (fleet.data(1) / "shard-0" / "log" / name).read_bytes()


async def ask(
    fleet: Fleet, name: str, headers: dict[str, str] | None = None, method: str = "GET"
) -> tuple[int, Any, bytes]:
    url = f"http://{fleet.http(1)}/shards/0/segments/{name}"
    async with aiohttp.ClientSession() as session, session.request(method, url, headers=headers or {}) as response:
        return response.status, response.headers, await response.read()


async def test_the_list_says_what_there_is(fleet: Fleet) -> None:
    answer = await listed(fleet)
    status = await fleet.status(1)
    assert (answer["first_index"], answer["last_index"], answer["start"]) == (1, status.last_index, 0)
    assert (answer["end"], answer["chain"], answer["commit"]) == (status.end_position, status.chain, status.commit)
    segments = answer["segments"]
    assert [segment["state"] for segment in segments] == ["sealed", "sealed", "active"]
    assert [segment["position"] for segment in segments] == [0, 2 << 20, 4 << 20]
    for one, following in pairwise(segments):
        assert following["first_index"] == one["last_index"] + 1
    last = segments[-1]
    assert (last["last_index"], last["chain"]) == (status.last_index, status.chain)
    assert last["position"] + last["length"] == status.end_position


async def test_each_segment_is_the_file_up_to_its_last_entry(fleet: Fleet) -> None:
    for segment in (await listed(fleet))["segments"]:
        status, headers, body = await ask(fleet, segment["name"])
        assert status == 200
        assert body == file(fleet, segment["name"])[: segment["length"]]
        assert headers["Content-Length"] == str(segment["length"])
        assert ("ETag" in headers) == (segment["state"] == "sealed")
        assert file(fleet, segment["name"])[segment["length"] :].strip(b"\0") == b"", "what is left out is blank"


RANGES = ["0-0", "0-79", "1-1048576", "1000000-", "-5", "-99999999", "2000000-99999999", "7-7"]


@pytest.mark.parametrize("asked", RANGES)
async def test_ranges(fleet: Fleet, asked: str) -> None:
    length = (await listed(fleet))["segments"][0]["length"]
    first, _, last = asked.partition("-")
    if first:
        start, end = int(first), min(int(last or length), length - 1) + 1
    else:
        start, end = max(0, length - int(last)), length
    status, headers, body = await ask(fleet, NAME, {"Range": f"bytes={asked}"})
    assert status == 206
    assert body == file(fleet, NAME)[start:end]
    assert headers["Content-Range"] == f"bytes {start}-{end - 1}/{length}"


@pytest.mark.parametrize("asked", ["bytes=3000000-", "bytes=5-2", "bytes=-", "lines=1-2", "bytes=0-1,4-5"])
async def test_ranges_that_cannot_be(fleet: Fleet, asked: str) -> None:
    length = (await listed(fleet))["segments"][0]["length"]
    status, headers, body = await ask(fleet, NAME, {"Range": asked})
    assert status == 416
    assert headers["Content-Range"] == f"bytes */{length}"
    assert f"{length} bytes".encode() in body


async def test_head_and_conditions(fleet: Fleet) -> None:
    length = (await listed(fleet))["segments"][0]["length"]
    status, headers, body = await ask(fleet, NAME, method="HEAD")
    assert (status, body, headers["Content-Length"]) == (200, b"", str(length))
    etag = headers["ETag"]
    assert (await ask(fleet, NAME, {"If-None-Match": etag}))[0] == 304
    assert (await ask(fleet, NAME, {"Range": "bytes=0-9", "If-Range": etag}))[0] == 206
    status, _, body = await ask(fleet, NAME, {"Range": "bytes=0-9", "If-Range": '"another"'})
    assert (status, len(body)) == (200, length), "other bytes than those that the client has begun with: all of them"


async def test_several_requests_on_one_connection(fleet: Fleet) -> None:
    """After bytes were sent by sendfile, the connection serves further requests."""
    connector = aiohttp.TCPConnector(limit=1)
    async with aiohttp.ClientSession(connector=connector) as session:
        for _ in range(3):
            async with session.get(f"http://{fleet.http(1)}/shards/0/segments/{NAME}") as response:
                assert (await response.read())[:100] == file(fleet, NAME)[:100]
            async with session.get(f"http://{fleet.http(1)}/healthz") as response:
                assert await response.json() == {"status": "ok"}


async def test_bytes_are_right_while_the_log_grows(fleet: Fleet, tmp_path: Path) -> None:
    """A copy that is fetched in pieces, while a producer sends, equals the log and can be read."""
    growing = asyncio.create_task(fill(fleet, 1, 80, 80))
    copy: dict[str, bytes] = {}
    while not growing.done():
        for segment in (await listed(fleet))["segments"]:
            have = copy.get(segment["name"], b"")
            if len(have) < segment["length"]:
                status, _, body = await ask(fleet, segment["name"], {"Range": f"bytes={len(have)}-"})
                assert status == 206
                assert len(have) + len(body) >= segment["length"]
                copy[segment["name"]] = have + body
    await growing
    assert len(copy) > 3
    for name, have in copy.items():
        assert have == file(fleet, name)[: len(have)]
        (tmp_path / name).write_bytes(have.ljust(2 << 20, b"\0"))
    files = [SegmentFile(tmp_path / name, int(name)) for name in sorted(copy)]
    reader = LogReader(PosixReadOnlyDisk(), files, segment_bytes=2 << 20, start=EMPTY)
    assert all(isinstance(each, FoundEntry) for each in reader)


async def test_a_segment_that_is_removed_while_it_is_read(fleet: Fleet) -> None:
    """A download continues after retention removes the file; later requests get 410."""
    path = fleet.data(1) / "shard-0" / "log" / NAME
    whole, length = path.read_bytes(), (await listed(fleet))["segments"][0]["length"]
    url = f"http://{fleet.http(1)}/shards/0/segments/{NAME}"
    async with aiohttp.ClientSession(read_bufsize=1024) as session, session.get(url) as response:
        begun = await response.content.readexactly(100)
        path.unlink()
        assert begun + await response.content.read() == whole[:length]
    status, _, body = await ask(fleet, NAME)
    assert status == 410
    assert b"begins at position 0" in body


async def test_no_such_segment_and_no_such_shard(fleet: Fleet) -> None:
    status, _, body = await ask(fleet, f"{1 << 40:020}")
    assert status == 404
    assert b"the log ends at" in body
    status, _, body = await ask(fleet, f"{8:020}")
    assert status == 404
    status, text = await get(fleet.http(1), "/shards/7/segments")
    assert status == 404
    assert "no replica of shard 7" in text


async def test_only_so_many_downloads_at_once(fleet: Fleet, caplog: pytest.LogCaptureFixture) -> None:
    """Stalled clients use up all downloads. The next client gets 503, and is served when the stalled ones are
    closed."""
    idle = await take_all_places(fleet)
    for writer in idle:
        writer.close()
    await eventually(lambda: is_served(fleet), "there is a place again")
    assert not caplog.records, "a client that goes is no fault of the node"


async def test_a_client_that_takes_nothing_is_let_go(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    idle = await take_all_places(fleet)
    monkeypatch.setattr("cluster.node.http.downloads.WINDOW_S", 0.2)
    await eventually(lambda: is_served(fleet), "there is a place again")
    for writer in idle:
        writer.close()


async def test_a_node_stops_under_a_download(fleet: Fleet) -> None:
    writer = await idle_client(fleet)
    async with asyncio.timeout(10):
        await fleet.stop()
    writer.close()


async def take_all_places(fleet: Fleet) -> list[asyncio.StreamWriter]:
    """Start stalled downloads, more than the limit, because a client may lose its place between two of its requests."""
    idle: list[asyncio.StreamWriter] = []
    while not await is_refused(fleet):
        assert len(idle) < 10 * DownloadLimits().most
        idle.append(await idle_client(fleet))
    return idle


async def idle_client(fleet: Fleet) -> asyncio.StreamWriter:
    """Request more bytes than the socket buffers hold, and read none of them."""
    host, port = fleet.http(1).split(":")
    reader, writer = await asyncio.open_connection(host, int(port), limit=1024)
    writer.write(f"GET /shards/0/segments/{NAME} HTTP/1.1\r\nHost: here\r\n\r\n".encode() * 20)
    assert (await reader.readline()).startswith(b"HTTP/1.1 ")
    return writer


async def is_refused(fleet: Fleet) -> bool:
    status, headers, body = await ask(fleet, NAME)
    return status == 503 and headers["Retry-After"] == "1" and b"try again" in body


async def is_served(fleet: Fleet) -> bool:
    return (await ask(fleet, NAME))[0] == 200


async def test_what_waits_in_memory_is_not_served(make_fleet: MakeFleet, tmp_path: Path) -> None:
    """With `write = "staged"` the end of the log may be in no file yet. The node serves the bytes of the file."""
    fleet = make_fleet(1, write="staged", flush_interval_ms=10_000)
    await fleet.start()
    await fleet.leader()
    await fill(fleet, await fleet.create_topic(), 0, 10)
    segments = (await listed(fleet))["segments"]
    for segment in segments:
        assert segment["state"] == "active"
        body = (await ask(fleet, segment["name"]))[2]
        (tmp_path / segment["name"]).write_bytes(body.ljust(2 << 20, b"\0"))
        files = [SegmentFile(tmp_path / segment["name"], segment["position"])]
        *_, last = LogReader(PosixReadOnlyDisk(), files, segment_bytes=2 << 20, start=EMPTY)
        assert isinstance(last, FoundEntry)
        assert last.header.index == segment["last_index"]


async def test_they_need_not_be_served(make_fleet: MakeFleet) -> None:
    fleet = make_fleet(1, serve_segments=False)
    await fleet.start()
    await fleet.leader()
    assert (await get(fleet.http(1), "/shards/0/segments"))[0] == 404
    assert (await get(fleet.http(1), "/healthz"))[0] == 200
