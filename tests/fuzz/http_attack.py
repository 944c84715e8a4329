"""Strangers that send hostile requests to the HTTP ports of the nodes, also bytes that are a part of a request."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections import Counter, deque
from collections.abc import Sequence
from random import Random

import aiohttp

from tests.fuzz.defects import Defect

REQUEST_S = 1.0
_PATHS = ("/metrics", "/healthz", "/readyz", "/readyz/writes", "/shards", "/shards/{}", "/shards/{}/segments")
_DEEPER = ("/shards/{}/segments/{}", "/shards/{}/snapshot", "/shards/{}/segments/{}/{}", "/{}", "/{}/../{}")
_CONSOLE = (
    "/", "/console/", "/console/login", "/console/{}", "/console/static/{}", "/console/shards/{}?last={}",
    "/console/topics/{}", "/console/topics/{}/messages?queue={}&offset={}", "/console/groups/{}", "/console/live/{}",
    "/console/live/shards/{}", "/console/operations/plan/{}?node={}", "/console/charts/{}",
)  # fmt: skip
_VALUES = ("0", "1", "-1", "99999999999999999999", "..", "%2e%2e", "%00", "a" * 5000, "0x1", "1e9", "\u00fc")
_RANGES = ("bytes=0-", "bytes=-1", "bytes=5-2", "bytes=a-b", "x" * 3000)
_PROOFS = ("Basic YWRtaW46YWRtaW4=", "Basic %", "Bearer guessed", "Bearer " + "x" * 3000, "Basic " + "A" * 7000)
# What every caller may ask a node with authentication.
_FOR_EVERYBODY = ("/healthz", "/readyz", "/readyz/writes", "/console/login")
_HEADERS = b"GET /metrics HTTP/1.1\r\nHost: here\r\n"
_RAW = (
    b"",
    _HEADERS,
    _HEADERS + b"X-" + b"a" * 100_000,
    _HEADERS + b"A: b\r\n" * 5_000 + b"\r\n",
    (_HEADERS + b"\r\n") * 200,
    b"POST /shards HTTP/1.1\r\nHost: here\r\nContent-Length: 99999999\r\n\r\n" + b"x" * 1000,
    b"POST /healthz HTTP/1.1\r\nHost: here\r\nTransfer-Encoding: chunked\r\n\r\nffffffff\r\nxx",
    b"GET / HTTP/1.1\r\nHost: here\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n" + bytes(1000),
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"\xff\x00" * 3_000,
)


class HttpAttack:
    """The strangers of one cluster. With `tls`, the nodes use TLS and ask for proofs."""

    def __init__(self, seed: str, cluster: str, addresses: Sequence[str], tls: ssl.SSLContext | None = None) -> None:
        self._seed = seed
        self._cluster = cluster
        self._addresses = addresses
        self._tls = tls
        self.ended: Counter[str] = Counter()
        self.defects: deque[Defect] = deque(maxlen=20)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._ask(Random(f"{self._seed}/http")))
            for number in range(4):
                group.create_task(self._send_raw(Random(f"{self._seed}/raw/{number}")))

    async def _ask(self, random: Random) -> None:
        scheme = "http" if self._tls is None else "https"
        connector = aiohttp.TCPConnector(ssl=self._tls or False)
        timeout = aiohttp.ClientTimeout(total=REQUEST_S)
        async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
            while True:
                path = random.choice(_PATHS + _DEEPER + _CONSOLE)
                path = path.format(*(random.choice(_VALUES) for _ in range(path.count("{}"))))
                headers = {"Range": random.choice(_RANGES)} if random.random() < 0.5 else {}
                if random.random() < 0.5:
                    headers["Authorization"] = random.choice(_PROOFS)
                method, status = random.choice(("GET", "HEAD", "POST")), 0
                with contextlib.suppress(aiohttp.ClientError, TimeoutError, ValueError):
                    url = f"{scheme}://{random.choice(self._addresses)}{path}"
                    async with session.request(method, url, headers=headers, allow_redirects=False) as answer:
                        status, path = answer.status, answer.url.path  # without dots
                self.ended[str(status)] += 1
                self._judge(f"{method} {path} {headers}", path, status)
                await asyncio.sleep(0.02)

    def _judge(self, request: str, path: str, status: int) -> None:
        is_broken = status >= 500 and status != 503
        # A page of the console leads strangers to the login.
        is_too_open = self._tls is not None and 200 <= status < 300 and path not in _FOR_EVERYBODY
        if is_broken or is_too_open:
            self.defects.append(Defect(self._cluster, "stranger", path, (request,), str(status)))

    async def _send_raw(self, random: Random) -> None:
        """Open connections, send a part of a request, and read nothing."""
        while True:
            host, _, port = random.choice(self._addresses).rpartition(":")
            tls = self._tls if random.random() < 0.7 else None
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(REQUEST_S):
                    _, writer = await asyncio.open_connection(host, int(port), ssl=tls, limit=1024)
                    writer.write(random.choice(_RAW))
                    await asyncio.sleep(random.random() * REQUEST_S)
                    writer.close()
            self.ended["raw"] += 1
