"""A name server process beside the attacked cluster."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ledger.client.connection.channels import Connections, GrpcChannel
from ledger.v1 import broker_pb2


@contextmanager
def name_server(address: str, secret: Path, output: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a name server that knows the cluster secret, for the `with` block."""
    command = [sys.executable, "-m", "ledgermq", "nameserver", "run", "--listen", address]
    with output.open("wb") as file:
        process = subprocess.Popen([*command, "--cluster-secret-file", str(secret)], stdout=file, stderr=file)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(10)


async def routes_of(address: str) -> dict[int, str]:
    """Return the nodes that the name server names, with their addresses."""
    connections = Connections(GrpcChannel)
    try:
        answer = await connections.stub(address).GetRoute(broker_pb2.GetRouteRequest(), timeout=5, wait_for_ready=True)
        return {node.node: node.address for node in answer.nodes}
    finally:
        await connections.close()
