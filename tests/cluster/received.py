"""Counts the bytes that this process receives through its TCP connections, as Linux counts them."""

from __future__ import annotations

import os
import socket
import struct

# Where `struct tcp_info` (linux/tcp.h) has tcpi_bytes_received.
_RECEIVED = struct.Struct("<Q")
_RECEIVED_AT = 128


class ReceivedBytes:
    """Counts the bytes that arrive through connections to one port, from now on. Connections that were closed
    meanwhile do not count."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._before = received_bytes(port)

    def count(self) -> int:
        now = received_bytes(self._port)
        return sum(size - self._before.get(connection, 0) for connection, size in now.items())


def received_bytes(port: int) -> dict[int, int]:
    """Return the bytes that this process has received through each of its open connections to this port. The keys are
    the connections' own ports."""
    received = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            if os.readlink(f"/proc/self/fd/{name}").startswith("socket:"):
                with socket.socket(fileno=os.dup(int(name))) as connection:
                    if connection.type == socket.SOCK_STREAM and connection.getpeername()[1] == port:
                        received[connection.getsockname()[1]] = _received(connection)
        except (OSError, IndexError):  # the file was closed meanwhile, or is no connection over TCP
            continue
    return received


def _received(connection: socket.socket) -> int:
    info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _RECEIVED_AT + _RECEIVED.size)
    return int(_RECEIVED.unpack_from(info, _RECEIVED_AT)[0])
