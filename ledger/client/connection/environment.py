"""The environment of a client: connections to nodes, clocks and random ids.

In the simulator, clients get another environment, which has no gRPC, and which simulates the clocks and the random
ids. A program that uses a client does not need an environment of its own.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ledger.client.connection.channels import Channel, GrpcChannel, SecuredChannels, local_channel, parse_addresses
from ledger.client.connection.cluster_link import ClusterLinks
from ledger.client.connection.fetch_shares import FetchShares
from ledger.client.connection.security import NONE, SecurityOptions, check_names, security_of, servers_of
from ledger.local_socket import is_socket


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def new_producer_id() -> int:
    """Return a new producer id: 64 random bits as an integer. Two producers must never have the same id."""
    return int.from_bytes(os.urandom(8), "little")


@dataclass(frozen=True, slots=True)
class Environment:
    """The functions with which a client opens connections, reads clocks and makes producer ids. By default, the
    functions use gRPC, the clocks of the operating system and its random numbers."""

    # Opens the connection to a node: (address, client id) -> channel.
    channel: Callable[[str, str | None], Channel] = GrpcChannel
    # The present time in ms since 1970. Messages that the program sends without a timestamp get this time.
    now_ms: Callable[[], int] = now_ms
    new_producer_id: Callable[[], int] = new_producer_id
    # Seconds since an arbitrary moment. Threads may read this clock. It also advances while a callback runs, which the
    # time of some event loops does not.
    monotonic_s: Callable[[], float] = time.monotonic
    # Secrets: the salts of passwords and the random numbers of proofs.
    random_bytes: Callable[[int], bytes] = os.urandom
    # Calls a function that takes some 10 ms outside of the event loop, and returns its result.
    in_thread: Callable[[Callable[[], Any]], Awaitable[Any]] = asyncio.to_thread
    # What clients with this environment share.
    links: ClusterLinks = field(default_factory=ClusterLinks)
    fetch_shares: FetchShares = field(default_factory=FetchShares)


PROCESS = Environment()


def cluster_of(
    environment: Environment, servers: str | Sequence[str] | None, options: SecurityOptions
) -> tuple[tuple[str, ...], Environment]:
    """Return the addresses of the cluster, and the environment of a client of this cluster.

    If `servers` is None, the addresses come from the variable LEDGERMQ_BOOTSTRAP, or from the profile. The channels of
    the returned environment use TLS and prove who the client is, as `options`, the variables of the process and the
    profile say. An environment other than `PROCESS` has its own channels, and is returned as it is.

    Raises InvalidArgumentError, or TypeError for an unknown option."""
    if environment is not PROCESS:
        check_names(options)
        return parse_addresses(servers or ()), environment
    addresses = parse_addresses(servers_of(options) if servers is None else servers)
    security = security_of(options, addresses)
    if security == NONE:
        only_local = all(map(is_socket, addresses))
        return addresses, replace(environment, channel=local_channel) if only_local else environment
    return addresses, replace(environment, channel=SecuredChannels(security))
