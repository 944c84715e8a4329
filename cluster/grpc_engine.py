"""Chooses the older of gRPC's two I/O engines for our processes, because it is faster for them.

A round trip of 128 B over three hops, with nothing parsed or stored, takes 0.65 ms with the newer engine and its own
threads, and 0.40 ms with the older engine (2 cores, grpcio 1.85.1). docs/PERFORMANCE.md has the commands.
"""

from __future__ import annotations

import os

OLDER_ENGINE = "-event_engine_client,-event_engine_listener"


def prefer_older_engine() -> None:
    """Set GRPC_EXPERIMENTS, unless the user has set it. Call this before the first import of grpc. Child processes
    inherit the variable."""
    os.environ.setdefault("GRPC_EXPERIMENTS", OLDER_ENGINE)
