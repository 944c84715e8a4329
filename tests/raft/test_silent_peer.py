"""A peer that disappears without closing the connection, such as a host that lost its power."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
from grpc import aio

from raft.transport.streams import channel_options, server_options

pytestmark = [pytest.mark.real, pytest.mark.long]

# 10 s until a ping, 20 s until it counts as lost, and time for a busy machine. Without limits, gRPC waits for 70 s.
NOTICED_WITHIN_S = 45


class Cable:
    """Passes bytes on in both directions until it is cut. Then the connections stay open, and nothing arrives."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._is_cut = asyncio.Event()

    async def connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there = await asyncio.open_connection("127.0.0.1", self._port)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._pass_on(reader, there[1]))
            group.create_task(self._pass_on(there[0], writer))

    def cut(self) -> None:
        self._is_cut.set()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65_536):
            if self._is_cut.is_set():
                await asyncio.Event().wait()
            writer.write(data)


async def one_answer(request: Any, context: Any) -> AsyncIterator[bytes]:
    yield b"heard"
    await asyncio.Event().wait()


async def test_a_stream_ends_soon_after_its_peer_has_disappeared() -> None:
    server = aio.server(options=server_options(1 << 20))
    methods: dict[str, Any] = {"listen": grpc.unary_stream_rpc_method_handler(one_answer)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test", methods),))
    cable = Cable(server.add_insecure_port("127.0.0.1:0"))
    await server.start()
    listener = await asyncio.start_server(cable.connect, "127.0.0.1", 0)
    address = "{}:{}".format(*listener.sockets[0].getsockname())
    async with aio.insecure_channel(address, options=channel_options(1 << 20)) as channel:
        listen: Any = channel.unary_stream("/test/listen")
        call = listen(b"")
        assert await call.read() == b"heard"
        cable.cut()
        async with asyncio.timeout(NOTICED_WITHIN_S):
            with pytest.raises(aio.AioRpcError):
                await call.read()
    listener.close()
    await server.stop(None)
