"""Sets gRPC up for ledgermq's processes, by variables of the environment.

`prefer_older_engine` chooses the older of gRPC's two I/O engines, because it is faster for ledgermq.
The measurement is a round trip of 128 B over three hops, with nothing parsed or stored, on 2 cores with grpcio 1.85.1.
The round trip takes 0.65 ms with the newer engine, which uses its own threads, and 0.40 ms with the older engine.
docs/performance-notes.md has the commands that measure the round trip with both engines.
"""

from __future__ import annotations

import os

OLDER_ENGINE = "-event_engine_client,-event_engine_listener"


def prefer_older_engine() -> None:
    """Set the variable GRPC_EXPERIMENTS, unless the user has already set it. Call this function before the first
    import of grpc. Child processes inherit the variable GRPC_EXPERIMENTS."""
    os.environ.setdefault("GRPC_EXPERIMENTS", OLDER_ENGINE)


def log_only_errors() -> None:
    """Let gRPC itself write only errors, unless the user has set the variable GRPC_VERBOSITY. Otherwise gRPC writes a
    line for each failed TLS handshake, so anybody who reaches a port could fill a node's log. Call this function before
    the first import of grpc."""
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
