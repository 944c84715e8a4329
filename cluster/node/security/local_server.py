"""Serves the client services of a node on the Unix socket in its data directory (ledger/local_socket.py)."""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Callable
from pathlib import Path

from grpc import aio

from ledger.local_socket import SocketTarget, socket_address

log = logging.getLogger("ledgermq.node.local")

# Only the user of the node may open the socket.
_MASK = 0o177


class NotASocketError(Exception):
    """Something else has the place of the socket. The message says what, and what to do."""


class LocalServer:
    """`make` returns a gRPC server with the services. `start` may raise NotASocketError, OSError or RuntimeError."""

    def __init__(self, data: Path, make: Callable[[], aio.Server]) -> None:
        self._address = socket_address(data)
        self._make = make
        self._target: SocketTarget | None = None
        self._server: aio.Server | None = None

    async def start(self) -> None:
        _check_place(Path(self._address.removeprefix("unix:")))
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


def _check_place(path: Path) -> None:
    """Raise NotASocketError if something is at the place of the socket that is no socket. gRPC replaces a socket that a
    killed node has left there, and nothing else. A symbolic link is not followed."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        what = "a symbolic link" if stat.S_ISLNK(mode) else "a directory" if stat.S_ISDIR(mode) else "a file"
        raise NotASocketError(
            f"{path} is {what}, and the node puts its local socket there: find out who made it, and remove it"
        )
