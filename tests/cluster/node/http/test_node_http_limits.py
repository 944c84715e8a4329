"""The limits of the HTTP port: connections, headers, bodies, responses that nobody reads, and downloads."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.cluster.fleet import Fleet, MakeFleet
from tests.cluster.scrape import get
from tests.cluster.secured import tls_fleet
from tests.cluster.waiter import eventually

pytestmark = pytest.mark.real

HALF_A_REQUEST = b"GET /metrics HTTP/1.1\r\nHost: here\r\nX-"


async def started(fleet: Fleet) -> Fleet:
    await fleet.start()
    return fleet


async def opened(fleet: Fleet, sent: bytes = b"") -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    host, port = fleet.http(1).split(":")
    reader, writer = await asyncio.open_connection(host, int(port), limit=1024)
    writer.write(sent)
    return reader, writer


async def is_ended(reader: asyncio.StreamReader) -> bool:
    """Read what there is. Return True if the node has ended the connection."""
    try:
        async with asyncio.timeout(15):
            while await reader.read(1 << 20):
                pass
    except ConnectionError:
        pass
    except TimeoutError:
        return False
    return True


async def is_healthy(fleet: Fleet) -> bool:
    try:
        return (await get(fleet.http(1), "/healthz"))[0] == 200
    except aiohttp.ClientError:
        return False


@pytest.mark.parametrize("sent", [b"", HALF_A_REQUEST, b"GET /healthz HTTP/1.1\r\nHost: here\r\n\r\n" + HALF_A_REQUEST])
async def test_a_connection_without_a_complete_request_is_closed(make_fleet: MakeFleet, sent: bytes) -> None:
    fleet = await started(make_fleet(1, http_idle_ms=200))
    connections = [await opened(fleet, sent) for _ in range(20)]
    assert all(await asyncio.gather(*(is_ended(reader) for reader, _ in connections)))
    for _, writer in connections:
        writer.close()


async def test_a_header_that_arrives_byte_by_byte_gets_no_more_time(make_fleet: MakeFleet) -> None:
    fleet = await started(make_fleet(1, http_idle_ms=300))
    reader, writer = await opened(fleet, HALF_A_REQUEST)
    ended = asyncio.create_task(is_ended(reader))
    while not ended.done():
        writer.write(b"a")
        await asyncio.wait([ended], timeout=0.05)
    assert ended.result()
    writer.close()


@pytest.mark.parametrize("secured", [False, True])
async def test_a_request_without_end_ends_its_connection(
    tmp_path: Path, make_fleet: MakeFleet, secured: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cluster.node.http.listener.LINGERING_S", 0.2)
    fleet = tls_fleet(tmp_path, 1) if secured else make_fleet(1)
    await fleet.start()
    try:
        context = ssl._create_unverified_context() if secured else None
        host, port = fleet.http(1).split(":")
        _, writer = await asyncio.open_connection(host, int(port), ssl=context)
        writer.write(HALF_A_REQUEST)
        with contextlib.suppress(ConnectionError):
            async with asyncio.timeout(10):
                while True:
                    writer.write(b"a" * (64 << 10))
                    await writer.drain()
        writer.close()
    finally:
        await fleet.stop()


async def test_a_tls_handshake_has_a_deadline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cluster.node.http.listener.HANDSHAKE_S", 0.2)
    fleet = tls_fleet(tmp_path, 1)
    await fleet.start()
    try:
        reader, writer = await opened(fleet)
        assert await is_ended(reader)
        writer.close()
    finally:
        await fleet.close()


@pytest.mark.parametrize("with_tls", [False, True])
async def test_a_host_has_a_limit_of_connections(
    tmp_path: Path, with_tls: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """With TLS, the connections that have not finished their handshakes count too."""
    limits: dict[str, Any] = {"max_http_connections": 6, "max_http_connections_per_host": 4}
    fleet = tls_fleet(tmp_path, 1, **limits) if with_tls else Fleet(tmp_path, 1, **limits)
    await fleet.start()
    try:
        held = [await opened(fleet) for _ in range(4)]
        reader, writer = await opened(fleet)
        answer = await reader.read(4096)
        assert (answer == b"") if with_tls else answer.startswith(b"HTTP/1.1 503 ") and b"Retry-After: " in answer
        writer.close()
        assert [line for line in caplog.messages if "127.0.0.1 has 4" in line]
        for _, each in held:
            each.close()
        if not with_tls:
            await eventually(lambda: is_healthy(fleet), "the places of closed connections are free")
    finally:
        await fleet.close()


async def test_a_connection_with_tls_counts_until_it_ends(tmp_path: Path) -> None:
    fleet = tls_fleet(tmp_path, 1, max_http_connections=4, max_http_connections_per_host=2)
    await fleet.start()
    host, port = fleet.http(1).split(":")
    tls = ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))
    try:
        held = []
        for _ in range(2):
            reader, writer = await asyncio.open_connection(host, int(port), ssl=tls)
            writer.write(b"GET /healthz HTTP/1.1\r\nHost: here\r\n\r\n")
            assert (await reader.readline()).startswith(b"HTTP/1.1 200 ")
            held.append(writer)
        with pytest.raises(OSError):  # noqa: PT011 (ssl.SSLError or ConnectionResetError)
            await asyncio.open_connection(host, int(port), ssl=tls)
        held[0].close()

        async def has_room() -> bool:
            with contextlib.suppress(OSError):
                _, writer = await asyncio.open_connection(host, int(port), ssl=tls)
                writer.close()
                return True
            return False

        await eventually(has_room, "the place of the closed connection is free")
    finally:
        await fleet.close()


async def test_a_request_with_a_body_is_refused(make_fleet: MakeFleet) -> None:
    fleet = await started(make_fleet(1))
    reader, writer = await opened(fleet, b"POST /healthz HTTP/1.1\r\nHost: here\r\nContent-Length: 1000000\r\n\r\nx")
    assert (await reader.readline()).startswith(b"HTTP/1.1 413 ")
    assert await is_ended(reader), "the node does not wait for the rest of the body"
    writer.close()


@pytest.mark.parametrize(
    "request_head",
    [b"GET /healthz?" + b"a" * 9_000 + b" HTTP/1.1\r\n", b"GET /healthz HTTP/1.1\r\n" + b"A: b\r\n" * 200],
)
async def test_headers_have_a_limit(make_fleet: MakeFleet, request_head: bytes) -> None:
    fleet = await started(make_fleet(1))
    reader, writer = await opened(fleet, request_head + b"Host: here\r\n\r\n")
    assert (await reader.readline()).startswith(b"HTTP/1.0 400 ")
    assert await is_ended(reader)
    writer.close()


async def test_a_client_that_reads_no_response_is_closed(
    make_fleet: MakeFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client sends one request after another, and the limit of connections shows that the node closes its
    connection."""
    monkeypatch.setattr("cluster.node.http.http_port.RESPONSE_S", 0.3)
    fleet = await started(make_fleet(1, max_http_connections=4, max_http_connections_per_host=2))
    connections = [await opened(fleet, b"GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n" * 2_000) for _ in range(2)]
    await eventually(lambda: is_healthy(fleet), "the connections of clients that do not read are closed")
    for _, writer in connections:
        writer.close()
