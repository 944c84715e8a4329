"""Ends gRPC connections beyond the limit of their host, connections whose callers do not prove who they are, and
connections that fill the memory with requests that are not complete or with responses that they do not read.

gRPC limits the number of connections of a server (`server_options`). It tells neither which connections are open nor
how many bytes of incomplete requests it holds. Without a limit for each host, one host could take all connections, and
a hundred streams with a large request each could take all memory. Therefore `ConnectionLimits` looks at the sockets of
this process several times a second (`connection_watch.py`), and shuts a socket down. gRPC then ends the connection as
if the caller had ended it.

    sockets of this process ─> of the gRPC port ─> within all limits? ─> otherwise shut down

What was proven on a connection ends with it. Otherwise a later connection with the same host and port could use the
tokens of the earlier one.

The connections of proven nodes do not count, so that callers on the host of a node do not cut the node off.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import time
from collections import Counter
from collections.abc import Callable, Container, Iterator, Mapping, Set
from dataclasses import dataclass
from itertools import chain

from cluster.node.delivered import Delivered
from cluster.node.process.sockets import Traffic, opened, shut_down, traffic_of
from ledger.broker.access.places import host_of
from raft.transport.rare_log import RareLog

log = logging.getLogger("ledgermq.node.connections")

# A connection on which nobody has proven who it is after this time is ended, if the node asks for proofs.
UNPROVEN_S = 30.0

# What a correct caller sends beside the bytes of its requests, at most: a part of what it sends and receives (headers
# of frames, TLS, acknowledgements), for each request, and for the connection.
_BESIDE_SHARE = 0.01
_BESIDE_A_REQUEST_BYTES = 1024
_BESIDE_A_CONNECTION_BYTES = 256 << 10


@dataclass(slots=True)
class Connection:
    """A connection that was open at the last look. `peer` names it as gRPC does: "ipv4:127.0.0.1:40000"."""

    peer: str
    host: str
    since_s: float
    traffic: Traffic
    # What has proven itself on the connection. It counts until the connection ends, also after the proof has expired.
    is_client: bool = False
    is_node: bool = False


@dataclass(frozen=True, slots=True)
class Limits:
    """`of_a_host` is the number of connections of one host, and `unread_bytes` the bytes of incomplete requests of all
    connections. With `ends_unproven`, a connection without proof is ended after `UNPROVEN_S`."""

    of_a_host: int
    unread_bytes: int
    ends_unproven: bool = False


class ConnectionLimits:
    """The limits of one gRPC port of this process."""

    def __init__(
        self,
        port: int,
        limits: Limits,
        delivered: Delivered,
        *,
        clients: Callable[[str], bool] = lambda peer: False,
        nodes: Callable[[], Container[str]] = frozenset,
        proven: Callable[[], Set[str]] = frozenset,
        end_proofs: Callable[[Set[str]], None] = lambda peers: None,
        stalled: Callable[[], Container[str]] = frozenset,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """`clients(peer)` says whether a client has proven itself on a connection, and `nodes()` names the connections
        of proven nodes. `proven()` names all connections with proofs, and `end_proofs(peers)` ends the proofs of
        connections that have ended. `stalled()` names the connections that hold up others, because they do not read
        their responses."""
        self._port = port
        self._limits = limits
        self._delivered = delivered
        self._clients = clients
        self._nodes = nodes
        self._proven = proven
        self._end_proofs = end_proofs
        self._stalled = stalled
        self._monotonic_s = monotonic_s
        self._log = RareLog(log)
        # A file descriptor of each socket of this process, by the inode of the socket.
        self._sockets: Mapping[int, int] = {}
        # The connections of the port by the inode of their sockets, the oldest first.
        self._connections: dict[int, Connection] = {}
        # The inode of the connection of each peer, and the peers with proofs, as `judge` last saw them.
        self._judged: Mapping[str, int] = {}
        self._had_proof: Set[str] = frozenset()
        # The inodes of the other sockets of this process.
        self._others: set[int] = set()

    def look(self, sockets: Mapping[int, int]) -> None:
        """Find the connections, and what each has brought. `sockets` has a file descriptor of each socket of this
        process, by the inode of the socket. A thread may call `look`, but not while another thread calls `judge`."""
        self._sockets = sockets
        self._connections = {inode: each for inode, each in self._connections.items() if inode in sockets}
        self._others &= sockets.keys()
        for inode, descriptor in sockets.items():
            if inode not in self._others:
                with contextlib.suppress(OSError), opened(descriptor, inode) as found:
                    self._look_at(inode, found)

    def _look_at(self, inode: int, found: socket.socket) -> None:
        """Raises OSError for a listening socket, and for a socket that is no connection any more."""
        if (known := self._connections.get(inode)) is not None:
            known.traffic = traffic_of(found)
            return
        here = found.getsockname()
        if not isinstance(here, tuple) or here[1] != self._port:
            self._others.add(inode)
            return
        address, port = found.getpeername()[:2]
        connection = Connection(_peer(address, port), host_of(address), self._monotonic_s(), traffic_of(found))
        self._connections[inode] = connection

    def judge(self) -> None:
        """End the connections beyond a limit."""
        self._end_old_proofs()
        nodes = self._nodes()
        for connection in self._connections.values():
            connection.is_node = connection.is_node or connection.peer in nodes
            connection.is_client = connection.is_client or self._clients(connection.peer)
        self._delivered.keep({connection.peer for connection in self._connections.values()})
        callers = {inode: each for inode, each in self._connections.items() if not each.is_node}
        ended = dict(
            chain(
                self._too_many(callers),
                self._unproven(callers),
                self._too_large(callers),
                self._not_reading(callers),
            )
        )
        for inode, reason in ended.items():
            self._log.warning("ended a connection of %s: %s", self._connections[inode].host, reason)
            shut_down(self._sockets[inode], inode)

    def _end_old_proofs(self) -> None:
        """End what was proven on connections that are gone, also if another connection has the same host and port."""
        now = {each.peer: inode for inode, each in self._connections.items()}  # of two with one peer, the newer one
        ended = {peer for peer, inode in self._judged.items() if now.get(peer) != inode}
        # A short connection can be gone before the first look. A proof that is younger than the last look waits.
        ended |= {peer for peer in self._had_proof - now.keys() if _is_comparable(peer)}
        if ended:
            self._end_proofs(ended)
        self._judged, self._had_proof = now, self._proven()

    def _too_many(self, callers: Mapping[int, Connection]) -> Iterator[tuple[int, str]]:
        """Return the newest connections of each host that has too many, with the reason."""
        of_host = Counter[str]()
        for inode, connection in callers.items():
            of_host[connection.host] += 1
            if of_host[connection.host] > self._limits.of_a_host:
                yield inode, f"the host has more than {self._limits.of_a_host}"

    def _unproven(self, callers: Mapping[int, Connection]) -> Iterator[tuple[int, str]]:
        since_s = self._monotonic_s() - UNPROVEN_S
        for inode, connection in callers.items():
            if self._limits.ends_unproven and not connection.is_client and connection.since_s <= since_s:
                yield inode, f"nobody has proven who it is for {UNPROVEN_S:.0f} s"

    def _too_large(self, callers: Mapping[int, Connection]) -> Iterator[tuple[int, str]]:
        """Return the connections with the most bytes of incomplete requests, until the others have less than half of
        the limit."""
        unread = {inode: size for inode, each in callers.items() if (size := self._unread(each)) > 0}
        total = sum(unread.values())
        if total <= self._limits.unread_bytes:
            return
        reason = f"all callers together sent {total >> 20} MiB of requests that are not complete"
        for inode, size in sorted(unread.items(), key=lambda each: each[1], reverse=True):
            if total <= self._limits.unread_bytes // 2:
                return
            total -= size
            yield inode, f"{reason}, and this connection {size >> 20} MiB"

    def _not_reading(self, callers: Mapping[int, Connection]) -> Iterator[tuple[int, str]]:
        stalled = self._stalled()
        for inode, connection in callers.items():
            if connection.peer in stalled:
                yield inode, "it does not read its responses, and there is no room for those of others"

    def _unread(self, connection: Connection) -> int:
        """Return how many bytes of incomplete requests gRPC holds at least."""
        delivered, traffic = self._delivered.of(connection.peer), connection.traffic
        beside = _BESIDE_SHARE * (delivered.bytes + traffic.sent)
        beside += _BESIDE_A_REQUEST_BYTES * delivered.requests + _BESIDE_A_CONNECTION_BYTES
        return traffic.read - delivered.bytes - int(beside)


def _peer(address: str, port: int) -> str:
    address = address.removeprefix("::ffff:")
    return f"ipv6:%5B{address}%5D:{port}" if ":" in address else f"ipv4:{address}:{port}"


def _is_comparable(peer: str) -> bool:
    """Return True if `_peer` writes this name as gRPC does. gRPC writes the scope of a link-local address in its own
    way, and a Unix socket has no port."""
    return peer.startswith(("ipv4:", "ipv6:")) and "%25" not in peer
