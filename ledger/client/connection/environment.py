"""The environment of a client: connections to nodes, clocks, and an identity.

A simulation passes its own environment instead of gRPC, clock and randomness. Users never see this object.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass

from ledger.client.connection.channels import Channel, GrpcChannel


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def new_producer_id() -> int:
    """64 random bits: no two producers may have the same."""
    return int.from_bytes(os.urandom(8), "little")


@dataclass(frozen=True, slots=True)
class Environment:
    """By default that of a process of its own."""

    # To the node at an address, for the client of that name.
    channel: Callable[[str, str | None], Channel] = GrpcChannel
    # Since 1970: what messages are stamped with that bring no time of their own.
    now_ms: Callable[[], int] = now_ms
    new_producer_id: Callable[[], int] = new_producer_id
    # Seconds since an arbitrary moment. Threads may read this clock. It also advances while a callback runs, which the
    # time of some event loops does not.
    monotonic_s: Callable[[], float] = time.monotonic


PROCESS = Environment()
