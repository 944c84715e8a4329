"""Attacks a cluster beside an acknowledged load, and checks what must hold afterwards."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Collection, Coroutine, Sequence
from pathlib import Path
from typing import Any

from cluster.local.processes import DevCluster
from ledger.batch import encode
from ledger.client.connection.security import SecurityOptions
from ledger.errors import LedgerError
from ledgermq import AsyncProducer
from tests.fuzz.attack import Attack
from tests.fuzz.defects import Defect, write_defects
from tests.fuzz.http_attack import HttpAttack
from tests.fuzz.telemetry_attack import TelemetryAttack

# The length of all attacks together.
SECONDS = float(os.environ.get("FUZZ_SECONDS", "60"))
SEED = os.environ.get("FUZZ_SEED", "1")
# Defects are appended to this file.
DEFECTS = Path(os.environ.get("FUZZ_DEFECTS", "fuzz-defects.jsonl"))
NODES = 3
# What a process may keep besides a fifth of its memory before the attack.
SLACK_BYTES = 24 << 20


def memory_of(pid: int | None) -> int:
    """Return the bytes of memory that a process keeps, without mapped files."""
    assert pid, "a process ended"
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("RssAnon:")[1].split()[0]) << 10


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ledgermq", *map(str, arguments)], capture_output=True, text=True, check=False
    )


def batch_for(topic_id: int) -> bytes:
    return encode(
        [b"one", b"two"],
        topic_id=topic_id,
        queue=0,
        producer_id=7,
        epoch=0,
        first_sequence=0,
        base_timestamp_ms=1_700_000_000_000,
    )


class Load:
    """Sends messages beside an attack, one batch after another. The history has each acknowledgement."""

    def __init__(self, cluster: DevCluster, history: Path) -> None:
        self.acknowledged = 0
        self._bootstrap = cluster.bootstrap
        self._options: SecurityOptions = cluster.client_options
        self._history = history
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Load:
        self._task = asyncio.create_task(self._send())
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._task is not None
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task

    async def _send(self) -> None:
        async with AsyncProducer(self._bootstrap, history=str(self._history), **self._options) as producer:
            while True:
                with contextlib.suppress(LedgerError):
                    await producer.send_many("load", [b"%d" % number for number in range(200)])
                    self.acknowledged += 200
                await asyncio.sleep(0.02)


async def flood(attacks: Sequence[Coroutine[Any, Any, None]], seconds: float) -> None:
    """Attack for so long, and look at nothing."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await asyncio.gather(*attacks)


async def attack(
    pids: Sequence[int | None], attacks: Sequence[Coroutine[Any, Any, None]], seconds: float, more_bytes: int = 0
) -> None:
    """Attack for so long. Afterwards the processes have as much memory as before, and at most `more_bytes` more."""
    await asyncio.sleep(5)
    before = [memory_of(pid) for pid in pids]
    await flood(attacks, seconds)
    await asyncio.sleep(5)
    after = [memory_of(pid) for pid in pids]
    for was, now in zip(before, after, strict=True):
        assert now <= 1.2 * was + SLACK_BYTES + more_bytes, f"memory of the processes before {before}, after {after}"


def judge(attacks: Sequence[Attack | HttpAttack | TelemetryAttack], called: Collection[tuple[str, str]]) -> None:
    """Write the defects to a file, and fail if there are any, or if a caller never called one of the methods."""
    defects: list[Defect] = [defect for each in attacks for defect in each.defects]
    if defects:
        write_defects(DEFECTS, defects)
    calls = Counter[str]()
    seen = set[tuple[str, str]]()
    for each in attacks:
        if isinstance(each, Attack):
            for (caller, path, status), count in each.ended.items():
                calls[f"{caller}: {status}"] += count
                seen.add((caller, path))
        else:
            calls.update(each.ended)
    print(f"\n{calls.total():,} hostile calls: {dict(sorted(calls.items()))}")
    assert not defects, f"{len(defects)} defects, in {DEFECTS.absolute()}: the first is {str(defects[0])[:2000]}"
    assert not set(called) - seen, "a method was never called"


def assert_unharmed(cluster: DevCluster, history: Path, acknowledged: int) -> None:
    """Check the logs of the stopped nodes, and the acknowledged messages in them."""
    for number in range(1, NODES + 1):
        lines = cluster.node(number).log.read_text().splitlines()
        assert not [line for line in lines if "Traceback" in line]
    assert acknowledged > 1000
    directories = [cluster.node(number).data for number in range(1, NODES + 1)]
    for command in (["log", "verify"], ["log", "diff"], ["validate", "--acked", history]):
        done = run(*command, *directories)
        assert done.returncode == 0, f"{command}: {done.stdout[-3000:]}{done.stderr[-3000:]}"
