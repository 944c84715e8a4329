"""Callers that call the gRPC methods of a cluster with hostile values.

An attacker may change what does not belong to the load: the values name no topic of the load, and methods that remove
nodes or entries get only values that name no node and no shard of the cluster.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter, deque
from collections.abc import Sequence
from itertools import chain, count, product
from random import Random
from typing import Any, cast

import grpc
from google.protobuf.descriptor import MethodDescriptor
from grpc import aio

from cluster.node.security.rights_guard import FOR_NODES
from raft.transport.streams import heed_cancellation
from tests.cluster.scram_client import Metadata
from tests.fuzz.answers import FRONT_DEFECTS, FRONT_UNPROVEN, ended_with
from tests.fuzz.callers import Caller
from tests.fuzz.defects import Defect
from tests.fuzz.hostile_values import HostileMessages, Plausible
from tests.fuzz.methods import path_of

CALL_S = 1.0
_DEFECTS = {grpc.StatusCode.UNKNOWN.name, grpc.StatusCode.INTERNAL.name, *FRONT_DEFECTS}
_UNPROVEN = {grpc.StatusCode.UNAUTHENTICATED.name, FRONT_UNPROVEN}
# The caller's own gRPC library says this if the node closes a stream while the caller writes. No node sends it.
BROKEN_STREAM = "Internal error from Core"
# Methods that remove nodes or entries of the load if they are called with the right numbers.
_REMOVING = {"RemoveNode", "DrainNode", "TrimLog", "DropTopic", "DeleteTopic", "RecoverNode"}


class Attack:
    """The calls of some callers to some methods of one cluster. `run` attacks until it is cancelled."""

    def __init__(
        self,
        seed: str,
        cluster: str,
        callers: Sequence[Caller],
        targets: Sequence[MethodDescriptor],
        plausible: Plausible,
    ) -> None:
        self._seed = seed
        self._cluster = cluster
        self._callers = callers
        self._targets = targets
        self._plausible = plausible
        self._harmless = Plausible([0, 7, 4_000_000], ["nothing", ""], plausible.blobs, {})
        # How often each method ended for each caller with each status.
        self.ended: Counter[tuple[str, str, str]] = Counter()
        self.defects: deque[Defect] = deque(maxlen=20)

    async def run(self, attackers: int = 12) -> None:
        """Call each method in the name of each caller once, and then random methods, until the task is cancelled."""
        pairs = list(product(self._callers, self._targets))
        Random(self._seed).shuffle(pairs)
        async with asyncio.TaskGroup() as group:
            for number in range(attackers):
                group.create_task(self._call_methods(pairs[number::attackers], Random(f"{self._seed}/{number}")))

    async def replay(self, defects: Sequence[Defect]) -> None:
        """Send the calls again that ended with these defects."""
        by_path = {path_of(method): method for method in self._targets}
        by_name = {caller.name: caller for caller in self._callers}
        for defect in defects:
            if defect.path in by_path and defect.caller in by_name:
                requests = [bytes.fromhex(request) for request in defect.requests]
                for number in range(len(by_name[defect.caller])):
                    await self._call(by_name[defect.caller], number, by_path[defect.path], requests, (), Random(1))

    async def _call_methods(self, first: Sequence[tuple[Caller, MethodDescriptor]], random: Random) -> None:
        more = ((random.choice(self._callers), random.choice(self._targets)) for _ in count())
        for caller, method in chain(first, more):
            plausible = self._harmless if method.name in _REMOVING else self._plausible
            messages = HostileMessages(random, plausible)
            requests = [self._request(method, messages)]
            if method.client_streaming:
                requests += [self._request(method, messages) for _ in range(random.randrange(4))]
                opening = self._plausible.openings.get(path_of(method))
                if opening is not None and random.random() < 0.7:
                    requests[0] = opening
            number = random.randrange(len(caller))
            await self._call(caller, number, method, requests, _pretended(random), random)
            heed_cancellation()

    def _request(self, method: MethodDescriptor, messages: HostileMessages) -> bytes:
        message = cast(Any, messages.message(method.input_type))
        if method.name == "AddShard":
            message.nodes.append(4_000_000)  # a shard on real nodes would keep memory, as it should
        return messages.encoded(message)

    async def _call(
        self,
        caller: Caller,
        number: int,
        method: MethodDescriptor,
        requests: Sequence[bytes],
        more: Metadata,
        random: Random,
    ) -> None:
        path, answers = path_of(method), list[bytes]()
        channel, metadata = caller.channel(number), (*caller.metadata(number), *more)
        try:
            if method.server_streaming and not method.client_streaming:
                call = cast(Any, channel.unary_stream(path))(requests[0], timeout=CALL_S, metadata=metadata)
                while (answer := await call.read()) is not aio.EOF:
                    answers.append(answer)
            elif method.client_streaming:
                await _stream(channel.stream_stream(path), requests, metadata, random)
            else:
                answers.append(
                    await cast(Any, channel.unary_unary(path))(requests[0], timeout=CALL_S, metadata=metadata)
                )
            status, text = ended_with(caller, method, answers)
        except aio.AioRpcError as error:
            status, text = error.code().name, error.details() or ""
        self.ended[caller.name, path, status] += 1
        if status in _UNPROVEN:
            await caller.prove_again(number)
        if _is_defect(caller, path, status, text):
            sent = tuple(request.hex() for request in requests)
            self.defects.append(Defect(self._cluster, caller.name, path, sent, status, text))


def _is_defect(caller: Caller, path: str, status: str, text: str) -> bool:
    if status == "OK":
        is_allowed = caller.may is None or path in caller.may
        return bool(text) or not is_allowed or path.startswith(FOR_NODES)
    return status in _DEFECTS and text != BROKEN_STREAM


def _pretended(random: Random) -> Metadata:
    """Return the metadata of a stream of some node, or of none. No caller can prove that it is this node."""
    if random.random() < 0.5:
        return ()
    sender, receiver = random.choice(("1", "2", "3", "77")), random.choice(("1", "2", "3"))
    shard = ("ledgermq-shard", random.choice(("0", "1", "9")))
    who = (("ledgermq-cluster", "dev"), ("ledgermq-sender", sender), ("ledgermq-receiver", receiver), shard)
    return (*who, ("ledgermq-proof", "guessed")) if random.random() < 0.5 else who


async def _stream(method: Any, requests: Sequence[bytes], metadata: Metadata, random: Random) -> None:
    call = method(timeout=CALL_S, metadata=metadata)
    # If the stream has ended meanwhile, gRPC's client says so in one of these ways.
    with contextlib.suppress(asyncio.InvalidStateError, aio.InternalError):
        for request in requests:
            await call.write(request)
        if random.random() < 0.5:
            await call.done_writing()
    while await call.read() is not aio.EOF:
        pass
