"""Opens connections to nodes and holds them, until its standard input ends.

    .venv/bin/python -m bench.growing.hold --bootstrap HOST:PORT,... --connections 1000

Each connection is a gRPC channel of its own. It has made one call, and then it is silent, as a client that waits for
work. The command prints the seconds that it took to open all connections, and the number of those that answered.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time

from cluster.grpc_engine import prefer_older_engine

prefer_older_engine()  # before anything imports grpc

import uvloop  # noqa: E402
from grpc import aio  # noqa: E402

from ledger.v1 import broker_pb2  # noqa: E402
from ledger.v1.broker_pb2_grpc import BrokerStub  # noqa: E402

# Connections that are opened at the same time.
AT_ONCE = 50
TIMEOUT_S = 30.0
OPTIONS = (("grpc.use_local_subchannel_pool", 1),)


async def hold(addresses: list[str], connections: int) -> None:
    """Open the connections to the nodes in turn, and return when the input ends."""
    began, turns, channels = time.perf_counter(), asyncio.Semaphore(AT_ONCE), []

    async def opens(address: str) -> bool:
        async with turns:
            channel = aio.insecure_channel(address, options=OPTIONS)
            channels.append(channel)
            try:
                await BrokerStub(channel).GetStatus(broker_pb2.GetStatusRequest(), timeout=TIMEOUT_S)
            except aio.AioRpcError:
                return False
            return True

    answered = await asyncio.gather(*(opens(addresses[number % len(addresses)]) for number in range(connections)))
    print(f"{time.perf_counter() - began:.3f} {sum(answered)}", flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await asyncio.gather(*(channel.close() for channel in channels))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bootstrap", required=True, help="addresses of the nodes")
    parser.add_argument("--connections", type=int, required=True, help="how many connections to open")
    given = parser.parse_args()
    uvloop.run(hold(given.bootstrap.split(","), given.connections))


if __name__ == "__main__":
    main()
