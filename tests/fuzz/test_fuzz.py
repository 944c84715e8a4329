"""Attacks a real cluster with hostile calls beside an acknowledged load. After the attack, all nodes run, no memory is
kept, the logs are whole and equal, and every acknowledged message is there once.

FUZZ_SECONDS is the length of the attack, and FUZZ_SEED its seed. The calls of one seed are the same in every run; their
order is not.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from cluster.local.processes import DevCluster
from ledger.batch import encode
from ledger.errors import LedgerError
from ledgermq import AsyncAdmin, AsyncProducer
from tests.cluster.ports import free_base_port
from tests.fuzz.attack import Attack
from tests.fuzz.hostile_values import Plausible
from tests.fuzz.methods import methods, path_of

SECONDS = float(os.environ.get("FUZZ_SECONDS", "120"))
SEED = int(os.environ.get("FUZZ_SEED", "1"))
NODES = 3
# What a node may keep besides a fifth of its memory before the attack.
SLACK_BYTES = 24 << 20


def memory_of(pid: int) -> int:
    """Return the bytes of memory that a process keeps, without mapped files."""
    assert pid, "a node ended"
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("RssAnon:")[1].split()[0]) << 10


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ledgermq", *map(str, arguments)], capture_output=True, text=True, check=False
    )


async def send_beside(bootstrap: str, history: Path, stop: asyncio.Event) -> int:
    """Send messages, one batch after another, until `stop` is set. Return how many were acknowledged. The history has
    each acknowledgement."""
    acknowledged = 0
    async with AsyncProducer(bootstrap, history=str(history)) as producer:
        while not stop.is_set():
            with contextlib.suppress(LedgerError):
                await producer.send_many("load", [b"%d" % number for number in range(200)])
                acknowledged += 200
            await asyncio.sleep(0.02)
    return acknowledged


async def attack(cluster: DevCluster, history: Path) -> tuple[Attack, int]:
    async with AsyncAdmin(cluster.bootstrap) as admin:
        load = await admin.create_topic("load", 4)
        prey = await admin.create_topic("prey", 4)
    nodes = [cluster.node(number) for number in range(1, NODES + 1)]
    batch = encode(
        [b"one", b"two"],
        topic_id=prey.topic_id,
        queue=0,
        producer_id=7,
        epoch=0,
        first_sequence=0,
        base_timestamp_ms=1_700_000_000_000,
    )
    numbers = [0, 1, 3, 4, prey.topic_id, 1000, 5000]
    assert load.topic_id not in (0, prey.topic_id)
    plausible = Plausible(
        [number for number in numbers if number != load.topic_id], ["prey", "billing", "dev", "member"], [b"", batch]
    )
    hostile = Attack(SEED, cluster.bootstrap.split(","), [node.http for node in nodes], plausible)
    stop = asyncio.Event()
    sending = asyncio.create_task(send_beside(cluster.bootstrap, history, stop))
    await asyncio.sleep(5)
    before = [memory_of(node.pid or 0) for node in nodes]
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(hostile.run(), SECONDS)
    await asyncio.sleep(5)
    stop.set()
    acknowledged = await sending
    after = [memory_of(node.pid or 0) for node in nodes]
    for was, now in zip(before, after, strict=True):
        assert now <= 1.2 * was + SLACK_BYTES, f"memory of the nodes before {before}, after {after}"
    return hostile, acknowledged


@pytest.mark.real
@pytest.mark.timeout(SECONDS + 240)
def test_hostile_calls_harm_nothing(tmp_path: Path) -> None:
    cluster, history = DevCluster(tmp_path / "cluster"), tmp_path / "history.jsonl"
    states = cluster.start(NODES, base_port=free_base_port(NODES), shards=2)
    pids = [state.pid for state in states]
    try:
        hostile, acknowledged = asyncio.run(attack(cluster, history))
        assert [state.pid for state in cluster.status()] == pids, "a node ended"
        logs = [cluster.node(number).log.read_text() for number in range(1, NODES + 1)]
    finally:
        cluster.stop()
    calls = Counter[str]()
    for (path, _), count in hostile.ended.items():
        calls[path] += count
    print(f"\n{sum(calls.values()):,} hostile calls, {acknowledged:,} acknowledged messages beside them")
    assert not hostile.defects
    assert not [line for log in logs for line in log.splitlines() if "Traceback" in line]
    assert {path_of(method) for method in methods()} <= set(calls), "a method was never called"
    assert acknowledged > 1000

    directories = [cluster.node(number).data for number in range(1, NODES + 1)]
    for command in (["log", "verify"], ["log", "diff"], ["validate", "--acked", history]):
        done = run(*command, *directories)
        assert done.returncode == 0, f"{command}: {done.stdout[-3000:]}{done.stderr[-3000:]}"
