"""Counts the places that hosts or users hold, so that none of them can take all: connections, calls, bytes.

Programs on the network can use any number of IPv6 addresses of one network, so the /64 network counts as one host.
"""

from __future__ import annotations

import functools
import ipaddress
from collections import Counter

from ledger.broker.access.callers import Caller

_HOST_BITS_OF_IPV6 = 64


class Places:
    """`Places` counts places. It is used by one event loop."""

    def __init__(self, most: int, most_of_a_holder: int) -> None:
        self.most = most
        self.most_of_a_holder = most_of_a_holder
        # By holder. The sum is at most `most`, and each value is from 1 to `most_of_a_holder`.
        self._taken: Counter[str] = Counter()
        self._total = 0

    @property
    def taken(self) -> int:
        return self._total

    def take(self, holder: str, amount: int = 1) -> str:
        """Take places, and return "". If there are not so many, return the reason."""
        if self._taken[holder] + amount > self.most_of_a_holder:
            return f"{holder} has {self._taken[holder]}, which is the most that one caller may have"
        if self._total + amount > self.most:
            self._forget(holder)
            return f"all callers together have {self._total}, which is the limit of this node"
        self._taken[holder] += amount
        self._total += amount
        return ""

    def give_back(self, holder: str, amount: int = 1) -> None:
        """Give back places that were taken."""
        self._taken[holder] -= amount
        self._total -= amount
        self._forget(holder)

    def _forget(self, holder: str) -> None:
        if not self._taken[holder]:
            del self._taken[holder]


def holder_of(caller: Caller, peer: str) -> str:
    """Return who holds the places of a call: the user that the caller has proven to be, or its host."""
    return host_of_peer(peer) if caller.has_every_right else caller.user


def host_of(address: str) -> str:
    """Return the host to which an IP address counts: the address itself, or the /64 network of an IPv6 address. A text
    that is no IP address is returned as it is."""
    try:
        ip = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(ip, ipaddress.IPv4Address):
        return str(ip)
    if ip.ipv4_mapped is not None:
        return str(ip.ipv4_mapped)
    return str(ipaddress.ip_network((ip, _HOST_BITS_OF_IPV6), strict=False))


@functools.lru_cache(maxsize=4096)
def host_of_peer(peer: str) -> str:
    """Return the host of a peer, which gRPC writes as "ipv4:127.0.0.1:40000" or "ipv6:%5B::1%5D:40000"."""
    return host_of(address_of_peer(peer)[0])


def address_of_peer(peer: str) -> tuple[str, str]:
    """Return the IP address and the port of a peer."""
    host, _, port = peer.partition(":")[2].rpartition(":")
    return host.removeprefix("%5B").removesuffix("%5D").strip("[]"), port
