"""Strangers that call the gRPC methods and the HTTP paths of the nodes with hostile values.

An attacker may change what does not belong to the load: the values name no topic of the load, and methods that remove
nodes or entries get only values that name no node and no shard of the cluster. Messages in the name of a real node are
not sent: until the nodes prove who they are, such a message can be right.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter, deque
from collections.abc import Sequence
from random import Random
from typing import Any, cast

import aiohttp
import grpc
from google.protobuf.descriptor import MethodDescriptor
from grpc import aio

from tests.fuzz.hostile_values import HostileMessages, Plausible
from tests.fuzz.methods import methods, path_of

CALL_S = 1.0
_DEFECTS = {grpc.StatusCode.UNKNOWN.name, grpc.StatusCode.INTERNAL.name}
# The caller's own gRPC library says this if the node closes a stream while the caller writes. No node sends it.
_BROKEN_STREAM = "Internal error from Core"
# Methods that remove nodes or entries of the load if they are called with the right numbers.
_REMOVING = {"RemoveNode", "TrimLog", "DropTopic", "DeleteTopic", "RecoverNode"}
_HTTP_PATHS = ("/metrics", "/healthz", "/readyz", "/shards", "/shards/{}", "/shards/{}/segments")
_HTTP_DEEPER = ("/shards/{}/segments/{}", "/shards/{}/snapshot", "/shards/{}/segments/{}/{}", "/{}", "/{}/../{}")
_HTTP_VALUES = ("0", "1", "-1", "99999999999999999999", "..", "%2e%2e", "%00", "a" * 5000, "0x1", "1e9", "\u00fc")


class Attack:
    """Attackers of one cluster. `run` attacks until it is cancelled."""

    def __init__(self, seed: int, addresses: Sequence[str], http: Sequence[str], plausible: Plausible) -> None:
        self._seed = seed
        self._addresses = addresses
        self._http = http
        self._plausible = plausible
        self._harmless = Plausible([0, 7, 4_000_000], ["nothing", ""], plausible.blobs)
        # How often each method ended with each status.
        self.ended: Counter[tuple[str, str]] = Counter()
        # (path, request in hex, text) of calls that ended with UNKNOWN or INTERNAL: defects of the product.
        self.defects: deque[tuple[str, str, str]] = deque(maxlen=20)

    async def run(self, attackers: int = 12) -> None:
        async with asyncio.TaskGroup() as group:
            for number in range(attackers):
                group.create_task(self._call_methods(Random(f"{self._seed}/{number}")))
            group.create_task(self._get_paths(Random(f"{self._seed}/http")))

    async def _call_methods(self, random: Random) -> None:
        targets = methods()
        async with contextlib.AsyncExitStack() as stack:
            channels = [await stack.enter_async_context(aio.insecure_channel(each)) for each in self._addresses]
            while True:
                method = random.choice(targets)
                plausible = self._harmless if method.name in _REMOVING else self._plausible
                await self._call(random.choice(channels), method, HostileMessages(random, plausible), random)

    async def _call(self, channel: Any, method: MethodDescriptor, messages: HostileMessages, random: Random) -> None:
        path, message = path_of(method), cast(Any, messages.message(method.input_type))
        if method.name == "AddShard":
            message.nodes.append(4_000_000)  # a shard on real nodes would keep memory, as it should
        request = messages.encoded(message)
        status, text = "OK", ""
        try:
            if method.client_streaming:
                following = [messages.encoded(messages.message(method.input_type)) for _ in range(random.randrange(4))]
                await self._stream(channel.stream_stream(path), [request, *following], random)
            else:
                await channel.unary_unary(path)(request, timeout=CALL_S)
        except aio.AioRpcError as error:
            status, text = error.code().name, error.details() or ""
        self.ended[path, status] += 1
        if status in _DEFECTS and text != _BROKEN_STREAM:
            self.defects.append((path, request[:2000].hex(), text))

    async def _stream(self, method: Any, requests: list[bytes], random: Random) -> None:
        metadata = None
        if random.random() < 0.5:
            metadata = (("ledgermq-cluster", "dev"), ("ledgermq-sender", "77"), ("ledgermq-receiver", "1"))
        call = method(timeout=CALL_S, metadata=metadata)
        with contextlib.suppress(asyncio.InvalidStateError):
            for request in requests:
                await call.write(request)
            if random.random() < 0.5:
                await call.done_writing()
        while await call.read() is not aio.EOF:
            pass

    async def _get_paths(self, random: Random) -> None:
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=CALL_S)) as session:
            while True:
                path = random.choice(_HTTP_PATHS + _HTTP_DEEPER)
                path = path.format(*(random.choice(_HTTP_VALUES) for _ in range(path.count("{}"))))
                ranges = {"Range": random.choice(("bytes=0-", "bytes=-1", "bytes=5-2", "bytes=a-b", "x" * 3000))}
                headers = ranges if random.random() < 0.5 else {}
                status = "no answer"
                with contextlib.suppress(aiohttp.ClientError, TimeoutError, ValueError):
                    url = f"http://{random.choice(self._http)}{path}"
                    async with session.request(random.choice(("GET", "HEAD", "POST")), url, headers=headers) as answer:
                        status = str(answer.status)
                        if answer.status >= 500 and "readyz" not in path:
                            self.defects.append((path, str(headers), await answer.text()))
                self.ended["http", status] += 1
                await asyncio.sleep(0.02)
