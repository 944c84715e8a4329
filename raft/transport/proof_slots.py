"""Bounds the proofs that are in progress on a node, so that callers that never finish one do not keep out the others.

A proof takes milliseconds. If there are too many, the oldest unfinished one ends: first of the same host, then of the
host with the most. So a stranger that begins proofs and leaves them loses its own.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from ipaddress import IPv6Address, ip_address, ip_network
from urllib.parse import unquote


class SlotsTakenError(Exception):
    """No proof can begin now, because all slots are held by wrong proofs."""


class ProofSlots:
    def __init__(self, total: int, of_a_host: int) -> None:
        self._total = total
        self._of_a_host = of_a_host
        # The proofs in progress, the oldest first: host, and the time limit.
        self._open: dict[object, tuple[str, asyncio.Timeout]] = {}
        # The slots in use, by host: proofs in progress, and slots that are held after wrong proofs.
        self._used: Counter[str] = Counter()

    def __len__(self) -> int:
        return self._used.total()

    @asynccontextmanager
    async def taken(self, peer: str, limit_s: float) -> AsyncIterator[None]:
        """Run one proof. `peer` is gRPC's name of the connection. Raises SlotsTakenError, and TimeoutError after
        `limit_s` seconds or if the proof must make room for another one."""
        host, proof = host_of(peer), object()
        self._make_room(host)
        async with asyncio.timeout(limit_s) as limit:
            self._open[proof] = host, limit
            self._used[host] += 1
            try:
                yield
            finally:
                if self._open.pop(proof, None) is not None:
                    self._free(host)

    def hold(self, peer: str, hold_s: float) -> None:
        """Hold a slot of the host for this time, whether or not the caller waits."""
        host = host_of(peer)
        self._used[host] += 1
        asyncio.get_running_loop().call_later(hold_s, self._free, host)

    def _free(self, host: str) -> None:
        self._used[host] -= 1
        if not self._used[host]:
            del self._used[host]

    def _make_room(self, host: str) -> None:
        if self._used[host] >= self._of_a_host:
            self._end_oldest(host)
        elif self._used.total() >= self._total:
            self._end_oldest(self._used.most_common(1)[0][0])

    def _end_oldest(self, host: str) -> None:
        """Raise SlotsTakenError if the host has no proof in progress."""
        for proof, (its_host, limit) in self._open.items():
            if its_host == host:
                del self._open[proof]
                self._free(host)
                if not limit.expired():
                    limit.reschedule(asyncio.get_running_loop().time())
                return
        raise SlotsTakenError


def host_of(peer: str) -> str:
    """Return the host in gRPC's name of a connection, such as "ipv4:127.0.0.1:40000". The addresses of one IPv6 network
    (/64) count as one host, because one caller can have them all."""
    host = peer.rpartition(":")[0]
    text = unquote(host.partition(":")[2]).strip("[]").partition("%")[0]
    try:
        address = ip_address(text)
    except ValueError:
        return host
    if not isinstance(address, IPv6Address) or address.ipv4_mapped:
        return host
    return str(ip_network(f"{address}/64", strict=False))
