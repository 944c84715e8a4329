"""Kills node processes with SIGKILL at random instants, under load, in each flush mode and each write mode.

    python -m tests.cluster.kill_loop [--kills 210] [--seed 1]        or: make kills

In each round the producers get more acknowledgements, nodes are killed, and the loop checks the files of the killed
nodes. The nodes start again, catch up, and must return every message that was acknowledged before. Segments are small,
checkpoints are taken every 0.3 s, messages have keys, and retention is short. Therefore the kills hit appends, segment
rolls, index writes, checkpoints, snapshots, cuts of a killed leader's tail, and removals of segments.

    who is killed       one node, or all three at once; under async a staged node alone, for what waits in its memory
                        is promised by the others
    judged              nothing acknowledged is missing on the node that was killed, and each message that it gives was
                        acknowledged there or still is; after an orderly stop nothing that verify could tell is wrong,
                        indexes and positions compared with what the log gives; in the end all logs are the same bytes
"""

from __future__ import annotations

import asyncio
import json
import random
import shutil
import signal
import tempfile
import time
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import get_args

import click

from ledger.errors import UnavailableError
from ledger.v1 import broker_pb2
from ledger.validation.replica_check import Checked, check_replica
from ledger.validation.sources.place import places_of
from ledgermq import AsyncAdmin, AsyncConsumer, Message
from store import FlawKind
from store.log.writing import WriteMode
from tests.cluster.acknowledged_load import Load
from tests.cluster.fleet import Fleet
from tests.cluster.node_process import NodeProcess
from tests.cluster.scrape import is_ready
from tests.cluster.waiter import eventually

NODES = (1, 2, 3)
QUEUES = 2
FLUSHES = ("async", "sync")
SEGMENT_BYTES = 5 << 18
KEPT_BYTES = 16 * SEGMENT_BYTES
LONGEST_S = 0.5
ALL_AT_ONCE = 0.25
"""How likely it is that all are killed, where that loses nothing."""
REBUILT = 0.15
"""How likely it is that a node finds no checkpoint when it starts again."""
STOP_EVERY = 5
"""Rounds between two orderly stops."""
START_S = 60.0
MAIN = """
import cluster.node.replica.upkeep
cluster.node.replica.upkeep.INTERVAL_S = 0.3
from cluster.cli import main
main()
"""


@dataclass(slots=True)
class Figures:
    """The figures of one pair of flush mode and write mode."""

    flush: str
    write: str
    kills: int = 0
    restarts_verified: int = 0
    segments_rolled: int = 0
    acknowledged: int = 0
    read_back: int = 0
    seconds: float = 0.0
    rebuilt: int = 0
    """Starts that found no checkpoint, since it was taken away, and built all indexes anew."""
    suspects: int = 0
    """Starts after which something may have been missing."""


@dataclass(slots=True)
class KillLoop:
    fleet: Fleet
    figures: Figures
    chance: random.Random
    load: RememberingLoad
    processes: dict[int, ExitStack] = field(default_factory=dict)
    pids: dict[int, NodeProcess] = field(default_factory=dict)

    async def run(self, kills: int) -> None:
        for node in NODES:
            self._start(node)
        await self._create_topic()
        try:
            async with self.load:
                rounds = 0
                while self.figures.kills < kills:
                    rounds += 1
                    await self._round()
                    if rounds % STOP_EVERY == 0:
                        await self._stop_and_verify(self.chance.choice(NODES))
            await self._judge_the_end()
        finally:
            for node in list(self.processes):
                self._stop(node)

    async def _round(self) -> None:
        await self.load.more(self.chance.randrange(20, 400))
        await asyncio.sleep(self.chance.uniform(0, LONGEST_S))
        victims = NODES if self._may_all_die and self.chance.random() < ALL_AT_ONCE else (self.chance.choice(NODES),)
        promised = dict(self.load.acknowledged)
        for node in victims:
            self._kill(node)
        for node in victims:
            if self.figures.write != "staged":  # units may be ahead of a log that waited in memory
                self._verify(node, orderly=False)
            if self.chance.random() < REBUILT:
                (self.fleet.data(node) / "shard-0" / "checkpoint").unlink(missing_ok=True)
                self.figures.rebuilt += 1
            self._start(node)
        for node in victims:
            await self._serves(node)
        await self._gives_what_was_promised(self.chance.choice(victims), promised)

    @property
    def _may_all_die(self) -> bool:
        return (self.figures.flush, self.figures.write) != ("async", "staged")

    # -- processes

    def _start(self, node: int) -> None:
        stack = self.processes[node] = ExitStack()
        self.pids[node] = stack.enter_context(NodeProcess(self.fleet.write_toml(node), main=MAIN))

    def _kill(self, node: int) -> None:
        self.pids[node].send_signal(signal.SIGKILL)
        self._stop(node)
        self.figures.kills += 1

    def _stop(self, node: int) -> None:
        self.processes.pop(node).close()

    async def _serves(self, node: int) -> None:
        """Wait until the node has caught up and is not a suspect."""
        suspect = self.fleet.data(node) / "shard-0" / "suspect"

        async def serves() -> bool:
            assert self.pids[node].runs, f"node {node} has ended:\n{self.pids[node].log[-4000:]}"
            return await is_ready(self.fleet.http(node)) and not suspect.exists()

        await eventually(serves, f"node {node} is back", deadline_s=START_S)

    async def _create_topic(self) -> None:
        for node in NODES:
            await self._serves(node)
        async with AsyncAdmin(self.fleet.bootstrap) as admin:
            await admin.create_topic("topic", QUEUES)

    # -- judging

    def _verify(self, node: int, *, orderly: bool) -> None:
        (place,) = places_of(self.fleet.data(node))
        flaws = list(check_replica(place, Checked()))
        wrong = [flaw for flaw in flaws if orderly or flaw.kind is not FlawKind.TORN]
        assert not wrong, f"node {node}: {wrong}"
        self.figures.restarts_verified += 1

    async def _stop_and_verify(self, node: int) -> None:
        self._stop(node)
        self._verify(node, orderly=True)
        self._start(node)
        await self._serves(node)

    async def _gives_what_was_promised(self, node: int, promised: dict[tuple[int, int], bytes]) -> None:
        """Read each queue up to the last offset of `promised`. Messages that retention has removed meanwhile are
        skipped."""
        ends = {queue: 1 + max((o for q, o in promised if q == queue), default=-1) for queue in range(QUEUES)}
        await self._read(node, ends)

    async def _read(self, node: int, ends: dict[int, int]) -> None:
        """Read each queue from this node up to the offset in `ends`, and check the values."""
        expected: dict[int, int] = {}
        left = {queue for queue, end in ends.items() if end}
        consumer = await self._consumer(node)
        try:
            while left:
                messages = await consumer.getmany(5000, timeout_ms=START_S * 1000)
                assert messages, f"node {node} gives nothing before offsets {ends}: it is at {expected}"
                for message in messages:
                    queue, offset = message.queue, message.offset
                    jumped = offset - expected.get(queue, offset)
                    assert jumped == 0 or (jumped > 0 and consumer.skipped), f"queue {queue} goes on at {offset}"
                    expected[queue] = offset + 1
                    self._compare(node, message)
                    if offset + 1 >= ends[queue]:
                        left.discard(queue)
                self.figures.read_back += len(messages)
        finally:
            await consumer.stop()

    def _compare(self, node: int, message: Message) -> None:
        known = self.load.acknowledged.get((message.queue, message.offset))
        if known is None:
            self.load.seen.append((message.queue, message.offset, message.value))
        else:
            assert message.value == known, f"node {node}: another message at {message.queue}:{message.offset}"

    async def _consumer(self, node: int) -> AsyncConsumer:
        """Return a started consumer. Right after a restart, gRPC may not have reconnected to the nodes, so the
        start is tried again."""

        async def started() -> AsyncConsumer | None:
            consumer = AsyncConsumer("topic", bootstrap_servers=self.fleet.bootstrap, node=node, on_dropped="skip")
            try:
                await consumer.start()
            except UnavailableError:
                return None
            return consumer

        return await eventually(started, f"a consumer of node {node} starts", deadline_s=START_S)

    async def _judge_the_end(self) -> None:
        figures, acknowledged = self.figures, self.load.acknowledged
        for queue, offset, value in self.load.seen:
            assert acknowledged.get((queue, offset)) == value, f"{queue}:{offset} was given and taken back"
        ends = {queue: 1 + max((o for q, o in acknowledged if q == queue), default=-1) for queue in range(QUEUES)}
        assert len(acknowledged) == sum(ends.values()), "offsets are dense"
        await self._level()
        for node in NODES:
            await self._read(node, ends)
        figures.acknowledged = len(acknowledged)
        logs = [self.pids[node].log for node in NODES]
        figures.suspects = sum(log.count("may be lost on this node") for log in logs)
        for node in NODES:
            self._stop(node)
            self._verify(node, orderly=True)
        figures.segments_rolled = self._logs_are_the_same_bytes()

    async def _level(self) -> None:
        async def same() -> bool:
            found = set()
            for node in NODES:
                answer = await self.fleet.broker(node).GetStatus(broker_pb2.GetStatusRequest(), timeout=5)
                status = answer.shards[0]
                found.add((status.last_index, status.applied, status.chain))
            return len(found) == 1 and all(last == applied for last, applied, _ in found)

        await eventually(same, "all replicas are level", deadline_s=START_S)

    def _logs_are_the_same_bytes(self) -> int:
        """Compare the segments that all nodes have, up to the shortest log: a node that stopped earlier may lack
        the last entries. Return the number of segments since the first start."""
        names = [{path.name: path for path in sorted((self.fleet.data(n) / "shard-0/log").iterdir())} for n in NODES]
        common = set.intersection(*map(set, names))
        assert common
        for name in common:
            contents = [node[name].read_bytes() for node in names]
            length = min(len(content.rstrip(b"\0")) for content in contents)
            assert len({content[:length] for content in contents}) == 1, f"segment {name} differs"
        return int(max(common)) // SEGMENT_BYTES + 1


class RememberingLoad(Load):
    """A load that also remembers messages which were read before they were acknowledged."""

    def __init__(self, bootstrap: list[str], rng: random.Random) -> None:
        super().__init__(",".join(bootstrap), "topic", rng, writers=1, delivery_timeout_ms=120_000)
        self.seen: list[tuple[int, int, bytes]] = []
        """Queue, offset and value."""


async def kill_often(directory: Path, flush: str, write: str, kills: int, seed: int) -> Figures:
    """Run the rounds of one pair of modes. Raises AssertionError or TimeoutError if a node breaks a promise."""
    chance = random.Random(f"{seed} {flush} {write}")
    figures = Figures(flush, write)
    fleet = Fleet(
        directory,
        flush=flush,
        write=write,
        segment_bytes=SEGMENT_BYTES,
        retention_bytes=KEPT_BYTES,
        tick_ms=50,
    )
    began = time.monotonic()
    try:
        await KillLoop(fleet, figures, chance, RememberingLoad(fleet.bootstrap, chance)).run(kills)
    finally:
        await fleet.close()
    figures.seconds = round(time.monotonic() - began, 1)
    return figures


@click.command()
@click.option("--kills", default=210, help="In all; each pair of modes has its share.")
@click.option("--seed", default=lambda: time.time_ns() & 0xFFFF, type=int)
@click.option("--flush", type=click.Choice(FLUSHES), multiple=True, default=FLUSHES)
@click.option("--write", type=click.Choice(get_args(WriteMode)), multiple=True, default=get_args(WriteMode))
def main(kills: int, seed: int, flush: tuple[str, ...], write: tuple[str, ...]) -> None:
    """Kill nodes until a check fails, or the number of kills is reached. Print one line of JSON for each pair of
    modes. The exit status is 0 if no check failed."""
    pairs = [(each, way) for each in flush for way in write]
    share = -(-kills // len(pairs))
    for each, way in pairs:
        directory = Path(tempfile.mkdtemp(prefix=f"kills-{each}-{way}-"))
        try:
            figures = asyncio.run(kill_often(directory, each, way, share, seed))
        except BaseException:
            click.echo(f"seed {seed}, {each}, {way}: what was found is kept in {directory}", err=True)
            raise
        click.echo(json.dumps(asdict(figures)))
        shutil.rmtree(directory)


if __name__ == "__main__":
    main()
