"""The health check of a container: exit status 0 if the node of this container answers 200 to /healthz, that is if its
process lives. With the argument `ready`, it asks /readyz: whether the node is ready to serve.

The check runs every 10 s, so it must start fast: it imports neither our packages nor an HTTP library. If the node's
HTTP port is off (LEDGERMQ_HTTP is empty), the check always succeeds. The check speaks TLS if the node does
(LEDGERMQ_TLS_CERTIFICATE), without a look at the certificate: it does not leave the container.
"""

import os
import socket
import sys

_TIMEOUT_S = 4.0


def answers(address: str, path: str, tls: bool) -> bool:
    """Return whether the node with the HTTP port `address` (host:port) answers 200 to `path` within 4 s."""
    host, _, port = address.rpartition(":")
    try:
        with connected(host.strip("[]"), int(port), tls) as connection:
            connection.sendall(f"GET {path} HTTP/1.0\r\n\r\n".encode())
            with connection.makefile("rb") as answer:
                status = answer.readline().split()
    except OSError as error:
        print(f"{address}: {error}")
        return False
    print(b" ".join(status).decode(errors="replace"))
    return status[1:2] == [b"200"]


def connected(host: str, port: int, tls: bool) -> socket.socket:
    plain = socket.create_connection((host, port), _TIMEOUT_S)
    if not tls:
        return plain
    import ssl  # only where it is needed, because it takes longer to import than the rest

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context.wrap_socket(plain)


if __name__ == "__main__":
    own = os.environ.get("LEDGERMQ_HTTP", "127.0.0.1:9872")
    asked = "/readyz" if sys.argv[1:] == ["ready"] else "/healthz"
    sys.exit(0 if not own or answers(own, asked, bool(os.environ.get("LEDGERMQ_TLS_CERTIFICATE"))) else 1)
