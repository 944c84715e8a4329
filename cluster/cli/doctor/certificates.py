"""Asks a node for its certificate, as a client does, and says when the certificate ends."""

from __future__ import annotations

import socket
import ssl
from dataclasses import dataclass
from datetime import UTC, datetime

from ledger.client.connection.security import Security

_TIMEOUT_S = 5.0


@dataclass(frozen=True, slots=True)
class CertificateState:
    """When the certificate of a node ends, or why no client accepts the certificate."""

    ends: datetime | None = None
    refusal: str = ""


def certificate_of(address: str, security: Security) -> CertificateState | None:
    """Return the state of the certificate of the node at `address` ("host:port"). Return None if it cannot be asked."""
    host, _, port = address.rpartition(":")
    try:
        context = ssl.create_default_context(cafile=None if security.ca is None else str(security.ca))
        context.set_alpn_protocols(["h2"])
        if security.client_certificate is not None:
            context.load_cert_chain(security.client_certificate, security.client_key)
        with (
            socket.create_connection((host.strip("[]"), int(port)), timeout=_TIMEOUT_S) as connection,
            context.wrap_socket(connection, server_hostname=host.strip("[]")) as secured,
        ):
            ends = (secured.getpeercert() or {}).get("notAfter")
    except ssl.SSLCertVerificationError as error:
        return CertificateState(refusal=error.verify_message)
    except (OSError, ValueError):
        return None
    if not isinstance(ends, str):
        return None
    return CertificateState(datetime.fromtimestamp(ssl.cert_time_to_seconds(ends), UTC))
