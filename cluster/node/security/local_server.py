"""Serves the client services of a node on the Unix socket in its data directory (ledger/local_socket.py)."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path

from grpc import aio

from ledger.local_socket import SocketTarget, socket_address

log = logging.getLogger("ledgermq.node.local")

# Only the user of the node may open the socket.
_MASK = 0o177


class LocalServer:
    """`make` returns a gRPC server with the services. `start` may raise OSError or RuntimeError."""

    def __init__(self, data: Path, make: Callable[[], aio.Server]) -> None:
        self._address = socket_address(data)
        self._make = make
        self._target: SocketTarget | None = None
        self._server: aio.Server | None = None

    async def start(self) -> None:
        self._target = SocketTarget(self._address)
        self._server = self._make()
        before = os.umask(_MASK)  # the socket must not be open to others for a moment
        try:
            self._server.add_insecure_port(self._target.name)
        finally:
            os.umask(before)
        await self._server.start()
        log.info("administrators on this machine reach this node at %s", self._address)

    async def stop(self, grace_s: float) -> None:
        if self._server is not None:
            await self._server.stop(grace_s)
        if self._target is not None:
            self._target.close()
