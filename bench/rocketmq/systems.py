"""The two measured systems, each with three replicas on this machine: Apache's servers and a ledgermq cluster."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Protocol

from bench.local_cluster import fresh_cluster
from bench.rocketmq.apache import ApacheCluster, apache_cluster
from cluster import process_use
from cluster.local.processes import DevCluster
from ledgermq import Admin

APACHE, OURS = "Apache", "ledgermq"
_QUEUES = 4
_NODES = 3


class System(Protocol):
    """Running servers with the RocketMQ protocol."""

    @property
    def name(self) -> str: ...
    @property
    def endpoints(self) -> str:
        """The address that clients start from."""
        ...

    @property
    def pids(self) -> Sequence[int]:
        """The processes of the servers."""
        ...

    def prepare(self, topic: str, group: str) -> None:
        """Create the topic and the consumer group."""
        ...


class ApacheSystem:
    name = APACHE

    def __init__(self, cluster: ApacheCluster) -> None:
        self._cluster = cluster
        self.endpoints, self.pids = cluster.endpoints, cluster.pids

    def prepare(self, topic: str, group: str) -> None:
        self._cluster.make_topic(topic, "NORMAL", _QUEUES)
        self._cluster.make_group(group)


class LedgermqSystem:
    name = OURS

    def __init__(self, cluster: DevCluster) -> None:
        states = cluster.status()
        self.bootstrap = cluster.bootstrap
        self.endpoints = states[0].rocketmq
        self.pids = [state.pid for state in states if state.pid]

    def prepare(self, topic: str, group: str) -> None:
        with Admin(self.bootstrap) as admin:
            admin.create_topic(topic, _QUEUES)
            admin.create_consumer_group(group, max_attempts=17)


@contextmanager
def running_systems(directory: Path, shards: int) -> Iterator[tuple[ApacheSystem, LedgermqSystem]]:
    """Run both systems. Both flush in the background, and a majority has a message before it is acknowledged. The
    ledgermq cluster has so many shards."""
    with ExitStack() as stack:
        apache = ApacheSystem(stack.enter_context(apache_cluster(directory)))
        ours = LedgermqSystem(stack.enter_context(fresh_cluster(directory / "ledgermq", _NODES, shards=shards)))
        try:
            yield apache, ours
        finally:
            for system in (apache, ours):
                _signal(system, signal.SIGCONT)  # a stopped process ends only when it runs again


@contextmanager
def alone(system: System, systems: Sequence[System]) -> Iterator[None]:
    """Stop the processes of the other systems during the block, because idle brokers need CPU time, too."""
    others = [each for each in systems if each is not system]
    for each in others:
        _signal(each, signal.SIGSTOP)
    try:
        yield
    finally:
        for each in others:
            _signal(each, signal.SIGCONT)


def cpu_s(system: System) -> float:
    """Return the CPU time of all processes of a system so far, in seconds."""
    return sum(map(process_use.cpu_s, system.pids))


def _signal(system: System, number: signal.Signals) -> None:
    for pid in system.pids:
        os.kill(pid, number)
