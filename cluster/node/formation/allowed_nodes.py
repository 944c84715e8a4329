"""Decides to which addresses a node connects when a caller names an address, such as that of a new node.

The setting `allowed_nodes` lists host names (`queue-1`, `*.example.com`), and ranges of IP addresses (`10.0.0.0/8`).
The pattern `*` stands for every name, and for no IP address. So by default a caller cannot make a node connect to any
machine of the internet by its IP address. A name is not resolved here: list names only of zones that you trust.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from fnmatch import fnmatchcase

# Loopback and private addresses, and all names.
DEFAULT = (
    "127.0.0.0/8",
    "10.0.0.0/8",
    "172.16.0.0/12",
    "192.168.0.0/16",
    "169.254.0.0/16",
    "::1/128",
    "fc00::/7",
    "fe80::/10",
    "*",
)


def is_allowed(address: str, patterns: Iterable[str]) -> bool:
    """Return True if one of the patterns matches the host of "host:port"."""
    host = address.rpartition(":")[0].strip("[]").lower()
    try:
        ip = ipaddress.ip_address(host)
    except ValueError:
        return any("/" not in pattern and fnmatchcase(host, pattern.lower()) for pattern in patterns)
    return any(ip in network for network in map(_network, patterns) if network is not None)


def check_pattern(pattern: str) -> str:
    """Return the pattern. Raises ValueError if it is neither a name nor a range of IP addresses."""
    if "/" in pattern:
        ipaddress.ip_network(pattern)
    elif not pattern or any(character.isspace() or character in ":,[]" for character in pattern):
        raise ValueError(f"{pattern!r} is neither a host name with * nor a range such as 10.0.0.0/8")
    return pattern


def _network(pattern: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    try:
        return ipaddress.ip_network(pattern)
    except ValueError:
        return None
