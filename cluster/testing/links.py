"""Carries the connections between the nodes of a test cluster, and cuts them for a partition, without root.

Each node reaches each other node at an address of this process, which connects to the other node and copies bytes both
ways. Clients connect to the nodes directly.

    node 1 ──> 127.0.0.1:p12 ──link of 1 and 2──> node 2
    node 2 ──> 127.0.0.1:p21 ──link of 2 and 1──> node 1

A cut link behaves like a network that drops packets, not like a peer that closes connections: bytes wait, an end of a
connection is not told, and a new connection gets no answer. After `heal`, the waiting bytes arrive, as TCP would send
them again.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field

from cluster.testing.ports import HOST

_CHUNK_BYTES = 1 << 18
_MESSAGE_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class ServedLink:
    """The connections that node `source` opens to node `target`, whose port is `port`. They come in at `listener`."""

    source: int
    target: int
    port: int
    listener: socket.socket
    whole: asyncio.Event = field(default_factory=asyncio.Event)

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry one connection to its end."""
        await self.whole.wait()
        try:
            far_reader, far_writer = await asyncio.open_connection(HOST, self.port, limit=_CHUNK_BYTES)
        except OSError:  # the other node is down: its port would have refused the connection
            writer.transport.abort()
            return
        copies = [asyncio.create_task(self._copy(*ends)) for ends in ((reader, far_writer), (far_reader, writer))]
        try:
            await asyncio.wait(copies, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for copy in copies:
                copy.cancel()
            await asyncio.gather(*copies, return_exceptions=True)
            writer.transport.abort()
            far_writer.transport.abort()

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(_CHUNK_BYTES):
                await self.whole.wait()
                writer.write(data)
                await writer.drain()
        await self.whole.wait()


def serve_links(control: socket.socket, links: Sequence[ServedLink]) -> None:
    """Carry connections until the other end of `control` is closed. Each message of `control` is a JSON list of the
    pairs of nodes that are cut from now on; it is answered when the cut is made."""
    asyncio.run(_serve(control, links))


async def _serve(control: socket.socket, links: Sequence[ServedLink]) -> None:
    async with AsyncExitStack() as servers:
        for link in links:
            link.whole.set()
            server = await asyncio.start_server(link.carry, sock=link.listener, limit=_CHUNK_BYTES)
            servers.push_async_callback(_close, server)
        control.setblocking(False)
        loop = asyncio.get_running_loop()
        while message := await loop.sock_recv(control, _MESSAGE_BYTES):
            cut = {frozenset(pair) for pair in json.loads(message)}
            for link in links:
                if {link.source, link.target} in cut:
                    link.whole.clear()
                else:
                    link.whole.set()
            await loop.sock_sendall(control, b"done")


async def _close(server: asyncio.Server) -> None:
    server.close()
