"""Runs the demo: it sends a corpus, kills the leader half-way, continues to send, and checks every replica.

One tally counts the acknowledged lines, and another tally counts the lines that a replica returns. For every file, the
tally of acknowledged lines must equal the tally of each replica. The verdict of the demo does not depend on what
brokers report about themselves.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from cluster.demo import replicas
from cluster.demo.corpus import Chunk, Corpus, read_chunks
from cluster.demo.failure import DemoError, NothingToSendError
from cluster.demo.outage import Outage
from cluster.load.failure import LoadError
from cluster.load.line_sender import Labels, LineOrigin, LineSender
from cluster.load.reading import read_to_the_ends
from cluster.load.tally import Tally
from cluster.local.launcher import Launcher
from ledger.client.admin.admin import AsyncAdmin
from ledger.client.consumer.consumer import AsyncConsumer
from ledger.client.producer.producer import AsyncProducer
from ledger.client.records import NodeStatus

NODES = 3
QUEUES = 4
_CATCH_UP_SECONDS = 60.0
_SILENCE_SECONDS = 30.0
_SMALLEST_CHUNK_BYTES, _LARGEST_CHUNK_BYTES = 1 << 10, 1 << 20


class Display(Protocol):
    """The interface of an object that shows the progress of the demo."""

    def stage(self, sentence: str) -> None:
        """Show that the next stage of the demo begins."""

    def sending(self, done_bytes: int, of_bytes: int) -> None:
        """Show how much of the corpus has been sent."""

    def reading(self, node: int, done: int, of: int) -> None:
        """Show how many messages have been read back from the node."""


@dataclass(frozen=True, slots=True)
class DemoOutcome:
    """What the demo has measured, and its verdict. All sizes count only the bytes of the lines. `faults` is empty
    if the verdict is positive."""

    corpus: str
    files: int
    messages: int
    size: int
    seconds: float
    refused: tuple[str, ...]
    leader_before: int
    leader_after: int
    outage_ms: int | None
    nodes_read: int
    log_bytes: int
    replicas_identical: bool
    faults: tuple[str, ...]

    @property
    def holds(self) -> bool:
        return not self.faults

    @property
    def per_second(self) -> float:
        return self.messages / self.seconds if self.seconds else 0.0


class Demo:
    """One run of the demo with `corpus` on the running cluster `cluster`."""

    def __init__(self, corpus: Corpus, cluster: Launcher, display: Display) -> None:
        self._corpus = corpus
        self._cluster = cluster
        self._security = cluster.client_options
        self._display = display
        self._topic = f"demo-{datetime.now(UTC):%Y%m%d-%H%M%S}"
        self._sent = Tally()
        self._outage = Outage()
        self._leader_before = 0

    async def run(self) -> DemoOutcome:
        """Run all stages of the demo, from the creation of the topic to the verdict. Raises DemoError,
        NothingToSendError, LedgerError or DevError.
        """
        async with AsyncAdmin(self._cluster.bootstrap, **self._security) as admin:
            await admin.create_topic(self._topic, queues=QUEUES)
            sender, seconds = await self._produce()
            self._display.stage(f"starting node {self._leader_before} again")
            await asyncio.to_thread(self._cluster.restart, self._leader_before)
            nodes = await self._caught_up(admin)
            faults = [fault for node in nodes for fault in await self._check_replica(node.node)]
        end = min(node.shards[0].end_position for node in nodes)
        self._display.stage(f"comparing the logs of {len(nodes)} nodes, {end:,} bytes each")
        differ = await asyncio.to_thread(self._difference, [node.node for node in nodes], end)
        return DemoOutcome(
            corpus=self._corpus.name,
            files=len(self._corpus.files),
            messages=sender.acknowledged,
            size=sender.acknowledged_bytes,
            seconds=seconds,
            refused=tuple(sender.left_out),
            leader_before=self._leader_before,
            leader_after=next(node.shards[0].leader for node in nodes),
            outage_ms=self._outage.longest_ms,
            nodes_read=len(nodes),
            log_bytes=end,
            replicas_identical=differ is None,
            faults=tuple(faults) if differ is None else (*faults, differ),
        )

    async def _produce(self) -> tuple[LineSender, float]:
        self._display.stage(f"sending {self._corpus.name}")
        async with AsyncProducer(self._cluster.bootstrap, **self._security) as producer:
            began = time.monotonic()
            sender = LineSender(
                producer, self._topic, on_acknowledged=lambda: self._outage.acknowledged(time.monotonic())
            )
            await sender.open()
            await self._send_all(sender)
            await sender.drain()
            seconds = time.monotonic() - began
        if not sender.acknowledged:
            raise NothingToSendError(f"there was nothing to send: {sender.left_out[0]}")
        return sender, seconds

    async def _send_all(self, sender: LineSender) -> None:
        total, done = self._corpus.size, 0
        chunk_bytes = min(max(total // 16, _SMALLEST_CHUNK_BYTES), _LARGEST_CHUNK_BYTES)
        for file in self._corpus.files:
            for chunk in read_chunks(file, chunk_bytes):
                done += chunk.size
                if not self._leader_before and done * 2 > total:
                    await self._kill_leader()
                await self._send(sender, chunk)
                self._display.sending(min(done, total), total)
        if not self._leader_before:  # the files have become shorter since their sizes were read
            await self._kill_leader()

    async def _send(self, sender: LineSender, chunk: Chunk) -> None:
        file = chunk.file
        labels = Labels(key=file.key, tag=file.tag)
        taken = await sender.send(chunk.lines, labels, LineOrigin(str(file.path), chunk.first_line))
        self._sent.add(file.key, taken)

    async def _kill_leader(self) -> None:
        self._leader_before = await asyncio.to_thread(self._cluster.leader)
        self._outage.fault(time.monotonic())
        await asyncio.to_thread(self._cluster.kill, self._leader_before)
        self._display.stage(f"killed node {self._leader_before}, the leader, and going on")

    async def _caught_up(self, admin: AsyncAdmin) -> list[NodeStatus]:
        """Wait until all nodes have applied the same log to its end, and return the status of all nodes."""
        deadline = time.monotonic() + _CATCH_UP_SECONDS
        while time.monotonic() < deadline:
            nodes = sorted(await admin.cluster(), key=lambda node: node.node)
            if len(nodes) == NODES and _equal(nodes):
                return nodes
            await asyncio.sleep(0.1)
        raise DemoError(
            f"node {self._leader_before} had not caught up {_CATCH_UP_SECONDS:g} s after it was started again"
        )

    def _difference(self, nodes: list[int], end: int) -> str | None:
        with tempfile.TemporaryDirectory(prefix="ledgermq-demo-") as scratch:
            logs = [self._cluster.log_directory(node, Path(scratch)) for node in nodes]
            return replicas.difference(logs, end)

    async def _check_replica(self, node: int) -> list[str]:
        """Read all lines from node `node`. Return a sentence for each file whose lines differ from the acknowledged
        lines."""
        self._display.stage(f"reading everything back from node {node}")
        found = await self._read(node)
        return [f"node {node}: {difference}" for difference in self._sent.differences(found)]

    async def _read(self, node: int) -> Tally:
        found = Tally()
        async with AsyncConsumer(
            self._topic, bootstrap_servers=self._cluster.bootstrap, start="earliest", node=node, **self._security
        ) as consumer:
            ends = await consumer.end_offsets()
            nexts = {queue: 0 for _, queue in ends}

            async def poll() -> int:
                batches = await consumer.getbatches(timeout_ms=1000)
                for queue, base_offset, batch in batches:
                    if base_offset != nexts[queue]:
                        raise DemoError(
                            f"node {node} returned offset {base_offset} of queue {queue} after {nexts[queue] - 1}"
                        )
                    nexts[queue] += len(batch)
                    found.add_messages(batch.keys(), batch.values())
                self._display.reading(node, sum(nexts.values()), sum(ends.values()))
                return len(batches)

            try:
                await read_to_the_ends(consumer, ends, poll, silence_s=_SILENCE_SECONDS)
            except LoadError as error:
                raise DemoError(f"node {node}: {error}") from error
        return found


def _equal(nodes: list[NodeStatus]) -> bool:
    if not all(node.reachable and node.shards for node in nodes):
        return False
    shards = [node.shards[0] for node in nodes]
    states = {(shard.last_index, shard.applied, shard.end_position, shard.chain, shard.leader) for shard in shards}
    return len(states) == 1 and shards[0].applied == shards[0].last_index and shards[0].leader != 0
