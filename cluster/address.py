"""What an address is: HOST:PORT. It must not know whether anybody listens there."""

from __future__ import annotations


def check_address(address: str) -> str:
    """`address` if it reads as host:port (port 1 to 65535), else ValueError."""
    host, _, port = address.rpartition(":")
    if not host or not port.isascii() or not port.isdecimal() or not 1 <= int(port) <= 65_535:
        raise ValueError(f"{address!r} is not an address of the form host:port")
    return address
