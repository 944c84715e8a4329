"""The Unix socket of a node with authentication: programs of the node's machine call the node as administrators.

Whoever may open the socket may do everything, so the permissions of the file protect it: it is in the data directory,
and only the user of the node can open it. The socket works without users and rules, for example when shard 0 has no
leader.

    DATA/local.sock      the address for clients is "unix:DATA/local.sock"

A path in a socket address has at most 107 bytes. For a longer path, `SocketTarget` opens the directory, and names the
socket by the number of the open directory.
"""

from __future__ import annotations

import os
from pathlib import Path

SOCKET = "local.sock"
_PREFIX = "unix:"
_LONGEST_BYTES = 107


def socket_address(data: Path) -> str:
    """Return the address of the socket of the node with this data directory."""
    return f"{_PREFIX}{data.absolute() / SOCKET}"


def is_socket(address: str) -> bool:
    """Return True if the address is a socket of this machine, and not "host:port"."""
    return address.startswith(_PREFIX)


class SocketTarget:
    """The name by which gRPC reaches a socket, until `close`."""

    def __init__(self, address: str) -> None:
        """Raises OSError if the directory of the socket cannot be opened."""
        path = Path(address.removeprefix(_PREFIX))
        self.name = address
        self._directory: int | None = None
        if len(os.fsencode(path)) > _LONGEST_BYTES:
            self._directory = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            self.name = f"{_PREFIX}/proc/self/fd/{self._directory}/{path.name}"

    def close(self) -> None:
        """Close the directory. gRPC must not use the name any more. `close` may be called more than once."""
        if self._directory is not None:
            os.close(self._directory)
            self._directory = None
