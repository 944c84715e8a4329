"""Where the servers are that a mirror copies from, and how the mirror proves itself there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

import grpc
import grpc.aio

from ledger.access.rocketmq import DATE_HEADER, SCHEME, sign_date
from ledger.rocketmq.calls import AUTHORIZATION, CLIENT_ID, LANGUAGE
from ledger.rocketmq.endpoints import scheme_of
from ledger.rocketmq.v2 import definition_pb2 as pb
from ledger.version import VERSION

# The largest message that is received. Servers of RocketMQ allow 4 MiB by default.
MAX_RECEIVED_BYTES = 64 << 20
# The shortest that the servers accept is 10 s.
MIN_INVISIBLE_S, MAX_INVISIBLE_S = 10, 43_200


class MirrorError(Exception):
    """The servers that a mirror copies from refused a request or did not answer. `retriable`: a later request may
    succeed. `is_unreachable`: no answer came."""

    def __init__(self, message: str, *, retriable: bool = False, is_unreachable: bool = False) -> None:
        super().__init__(message)
        self.retriable = retriable
        self.is_unreachable = is_unreachable


class SourceAddress(NamedTuple):
    """The host and the port of a server."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> SourceAddress:
        """Return the address that is written as "host:port". Raises ValueError."""
        host, _, port = text.strip().rpartition(":")
        if not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
            raise ValueError(f"{text!r} is no address: write HOST:PORT, and several with a semicolon between")
        return cls(host.strip("[]"), int(port))

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class SourceSettings:
    """How a mirror reaches the servers. `group` is the consumer group in which it consumes there."""

    access_points: Sequence[SourceAddress]
    group: str
    # Names this consumer among those of the group.
    client_id: str
    tls: bool = False
    # Certificates of the authorities that the servers' certificates are checked by (PEM). None: those of the system.
    ca: bytes | None = None
    # The name in the certificates of the servers, if it is not their host.
    server_name: str = ""
    # With an empty access key, calls are not signed.
    access_key: str = ""
    secret: str = ""
    # For this time a message that was handed out is not handed out again. The mirror copies it in the meantime.
    invisible_s: int = 30

    @property
    def endpoints(self) -> pb.Endpoints:
        """The access points, as the protocol writes them."""
        return pb.Endpoints(
            scheme=scheme_of(each.host for each in self.access_points),
            addresses=[pb.Address(host=each.host, port=each.port) for each in self.access_points],
        )

    def headers(self, now: datetime) -> list[tuple[str, str]]:
        """Return the metadata of a call. `now` is in UTC."""
        date = now.strftime("%Y%m%dT%H%M%SZ")
        found = [
            (CLIENT_ID, self.client_id),
            (LANGUAGE, "PYTHON"),
            ("x-mq-protocol", "v2"),
            ("x-mq-client-version", VERSION),
            (DATE_HEADER, date),
        ]
        if self.access_key:
            signature = sign_date(self.secret, date).hex()
            signed = f"Credential={self.access_key}, SignedHeaders={DATE_HEADER}, Signature={signature}"
            found.append((AUTHORIZATION, f"{SCHEME} {signed}"))
        return found

    def channel(self, address: SourceAddress) -> grpc.aio.Channel:
        """Return a new channel to one server."""
        options: list[tuple[str, str | int]] = [
            ("grpc.max_receive_message_length", MAX_RECEIVED_BYTES),
            ("grpc.use_local_subchannel_pool", 1),
            ("grpc.enable_http_proxy", 0),
            ("grpc.max_reconnect_backoff_ms", 2_000),
        ]
        if not self.tls:
            return grpc.aio.insecure_channel(str(address), options=options)
        if self.server_name:
            options.append(("grpc.ssl_target_name_override", self.server_name))
        return grpc.aio.secure_channel(str(address), grpc.ssl_channel_credentials(self.ca), options=options)
