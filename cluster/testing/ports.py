"""Ports that belong to a test cluster, also while its nodes are down.

The cluster binds a socket to each port and never listens on it. Linux lets a node listen on the same port, because
gRPC sets SO_REUSEADDR too, and gives the port to nobody else: neither to an outgoing connection, nor to a program that
asks for any free port. Several test runs can therefore start clusters at the same time.
"""

from __future__ import annotations

import socket

HOST = "127.0.0.1"


class ReservedPort:
    """A port of the loopback interface, from the creation of the object until `release`."""

    def __init__(self) -> None:
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind((HOST, 0))
        self.number: int = self._socket.getsockname()[1]

    @property
    def address(self) -> str:
        return f"{HOST}:{self.number}"

    def release(self) -> None:
        """Give the port back. The call may be repeated."""
        self._socket.close()


def listening_socket() -> socket.socket:
    """Return a socket that listens on a free port of the loopback interface."""
    return socket.create_server((HOST, 0), backlog=128)
