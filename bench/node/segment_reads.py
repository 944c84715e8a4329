"""Measures how fast a server sends segment files over HTTP, once with sendfile and once with reading and writing, in
turns.

    python -m bench.node.segment_reads [--mib 256] [--rounds 5]

The server runs on uvloop, as a node does. The server serves one file, which is in the page cache, in two ways. The
first way is `FileSender`, with which a node serves its segments. The second way is aiohttp's FileResponse, which under
uvloop reads and writes pieces of the file. The client reads every response into the same buffer. The figures are the
median speed of the rounds in MB/s, and the CPU seconds of the server per GB.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import os
import socket
import statistics
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path

import uvloop
from aiohttp import web

from cluster.node.http.downloads import DownloadPace
from cluster.node.http.file_sender import FileSender

WAYS = {"sendfile": "sendfile, as a node does", "copied": "read and write (aiohttp FileResponse)"}


async def serve(path: Path, size: int, ready: Connection) -> None:
    threads = ThreadPoolExecutor(2)

    async def sendfile(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        response.content_length = size
        writer = await response.prepare(request)
        assert writer is not None
        sender = FileSender(threads, os.open(path, os.O_RDONLY), DownloadPace(1))
        try:
            await sender.send(request, writer, 0, size)
        finally:
            sender.close()
        return response

    async def copied(_: web.Request) -> web.StreamResponse:
        return web.FileResponse(path)

    async def cpu(_: web.Request) -> web.Response:
        return web.Response(text=str(time.process_time()))

    app = web.Application()
    app.add_routes([web.get("/sendfile", sendfile), web.get("/copied", copied), web.get("/cpu", cpu)])
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    ready.send(runner.addresses[0][1])
    await asyncio.Event().wait()


def run_server(path: Path, size: int, ready: Connection) -> None:
    uvloop.run(serve(path, size, ready))


@contextmanager
def server(path: Path, size: int) -> Iterator[int]:
    """Run the server while the body of the `with` block runs. The context manager yields the port of the server."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=run_server, args=(path, size, theirs), daemon=True)
    process.start()
    try:
        yield ours.recv()
    finally:
        process.terminate()
        process.join()


def get(port: int, way: str, buffer: bytearray) -> bytes:
    """Read the whole response from the server, and return the last bytes of the response."""
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(f"GET /{way} HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n".encode())
        last = 0
        while count := connection.recv_into(buffer):
            last = count
    return bytes(buffer[:last])


def cpu_seconds(port: int, buffer: bytearray) -> float:
    return float(get(port, "cpu", buffer).rsplit(b"\r\n", 1)[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mib", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    size = options.mib << 20
    speeds: dict[str, list[float]] = {way: [] for way in WAYS}
    costs: dict[str, list[float]] = {way: [] for way in WAYS}
    buffer = bytearray(1 << 20)
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "segment"
        path.write_bytes(os.urandom(size))
        with server(path, size) as port:
            for _ in range(options.rounds):
                for way in WAYS:
                    before, started = cpu_seconds(port, buffer), time.perf_counter()
                    get(port, way, buffer)
                    speeds[way].append(size / (time.perf_counter() - started) / 1e6)
                    costs[way].append((cpu_seconds(port, buffer) - before) / size * 1e9)
    for way, name in WAYS.items():
        speed, cost = statistics.median(speeds[way]), statistics.median(costs[way])
        print(f"{name:<40} {speed:6,.0f} MB/s   {cost:.2f} s of CPU per GB")
    speed, cost = (statistics.median(each["sendfile"]) / statistics.median(each["copied"]) for each in (speeds, costs))
    print(f"{'ratio':<40} {speed:6.2f}        {cost:.2f}")


if __name__ == "__main__":
    main()
