"""Checks and splits addresses of the form HOST:PORT; an IPv6 host is written in brackets."""

from __future__ import annotations

import ipaddress


def check_address(address: str) -> str:
    """Return `address` if it has the form host:port (port 1 to 65535). Raise ValueError if `address` has another
    form."""
    split_address(address)
    return address


def split_address(address: str) -> tuple[str, int]:
    """Return the host (without brackets) and the port of `address`. Raises ValueError."""
    host, _, port = address.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    host = host[1:-1] if bracketed else host
    well_formed = host and (bracketed or ":" not in host) and not any(character.isspace() for character in host)
    if not well_formed or not port.isascii() or not port.isdecimal():
        raise ValueError(f"{address!r} is not an address of the form host:port")
    if len(port) > 5 or not 1 <= int(port) <= 65_535:
        raise ValueError(f"{address!r} is not an address, because a port is a number from 1 to 65535")
    return host, int(port)


def is_loopback(address: str) -> bool:
    """Return True if only programs of this machine reach "host:port"."""
    host = address.rpartition(":")[0].strip("[]")
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
