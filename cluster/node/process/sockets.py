"""Looks at the sockets of this process, also at those that a library opened and does not tell about."""

from __future__ import annotations

import array
import contextlib
import fcntl
import os
import socket
import stat
import struct
import termios
from collections.abc import Iterator
from dataclasses import dataclass

_DESCRIPTORS = "/proc/self/fd"
# Of struct tcp_info, in <linux/tcp.h>: tcpi_bytes_acked and tcpi_bytes_received.
_TCP_INFO_BYTES = 136
_COUNTS = struct.Struct("@QQ")
_COUNTS_AT = 120


@dataclass(frozen=True, slots=True)
class Traffic:
    """The bytes that this process has read from a TCP connection, and those that the other side has received."""

    read: int
    sent: int


def sockets_of_this_process() -> dict[int, int]:
    """Return a file descriptor of each socket, by the inode of the socket."""
    found = {}
    for name in os.listdir(_DESCRIPTORS):
        with contextlib.suppress(OSError):  # closed meanwhile
            status = os.fstat(int(name))
            if stat.S_ISSOCK(status.st_mode):
                found[status.st_ino] = int(name)
    return found


@contextlib.contextmanager
def opened(descriptor: int, inode: int) -> Iterator[socket.socket]:
    """Return a duplicate of the socket with this inode, for the `with` block. Raises OSError if the descriptor has
    another file by now."""
    duplicate = os.dup(descriptor)
    if os.fstat(duplicate).st_ino != inode:
        os.close(duplicate)
        raise OSError("the descriptor has another file by now")
    with socket.socket(socket.AF_INET6, socket.SOCK_STREAM, 0, duplicate) as found:
        yield found


def traffic_of(connection: socket.socket) -> Traffic:
    """Raises OSError if the connection is no TCP connection."""
    info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_BYTES)
    sent, received = _COUNTS.unpack_from(info, _COUNTS_AT)
    waiting = array.array("i", [0])
    fcntl.ioctl(connection, termios.FIONREAD, waiting)
    return Traffic(received - waiting[0], sent)


def shut_down(descriptor: int, inode: int) -> None:
    """End the connection of this socket in both directions. The owner of the socket notices it like an end by the other
    side."""
    with contextlib.suppress(OSError), opened(descriptor, inode) as found:
        found.shutdown(socket.SHUT_RDWR)
