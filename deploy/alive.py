"""The health check of a container: exit status 0 if the node of this container answers 200 to /healthz.

The check runs every 10 s, so it must start fast: it imports neither our packages nor an HTTP library. If the node's
HTTP port is off (LEDGERMQ_HTTP is empty), the check always succeeds.
"""

import os
import socket
import sys

_TIMEOUT_S = 4.0


def alive(address: str) -> bool:
    """Return whether the node with the HTTP port `address` (host:port) answers 200 to /healthz within 4 s."""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), _TIMEOUT_S) as connection:
            connection.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
            with connection.makefile("rb") as answer:
                status = answer.readline().split()
    except OSError as error:
        print(f"{address}: {error}")
        return False
    print(b" ".join(status).decode(errors="replace"))
    return status[1:2] == [b"200"]


if __name__ == "__main__":
    own = os.environ.get("LEDGERMQ_HTTP", "127.0.0.1:9872")
    sys.exit(0 if not own or alive(own) else 1)
