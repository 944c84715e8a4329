"""Faults of disks: a full disk, a failing disk, a slow disk."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from chaos.live.faults.fault import Fault, FaultSite, NoEvidenceError
from chaos.live.hosts.injection import Injection, Injector
from chaos.words import node_names
from ledger.words import counted

SYNCS = ("fsync", "fdatasync")


class DiskFull(Fault):
    """The disk of the targets has no free byte."""

    def __init__(self) -> None:
        self._full: list[int] = []

    def strike(self, site: FaultSite, targets: Sequence[int]) -> str:
        self._full = list(targets)
        return "; ".join(f"node {node}: {site.environment.disk(node).fill()}" for node in targets)

    def heal(self, site: FaultSite) -> str:
        for node in self._full:
            site.environment.disk(node).empty()
        return "; ".join(_started(site, self._full))


class Injected(Fault):
    """System calls of the targets fail or take long, as `what` says in words. With `restart`, each node is killed and
    started again when the disk works again, because a node accepts no writes after a disk error until it is restarted.
    """

    def __init__(self, what: str, injection: Injection, *, restart: bool) -> None:
        self._what = what
        self._injection = injection
        self._restart = restart
        self._injectors: dict[int, Injector] = {}

    def strike(self, site: FaultSite, targets: Sequence[int]) -> str:
        attached = []
        for node in targets:
            pid = site.environment.pid(node)
            if pid is None:
                continue
            output = _output(site, node, pid)
            self._injectors[node] = Injector(pid, output)
            self._injectors[node].attach(self._injection)
            attached.append(node)
        return f"{self._what} on {node_names(attached)}"

    def heal(self, site: FaultSite) -> str:
        calls = {node: injector.detach() for node, injector in self._injectors.items()}
        if self._restart:
            for node in filter(site.is_up, calls):
                site.environment.kill(node)
        restarted = _started(site, list(calls))
        if not any(calls.values()):
            raise NoEvidenceError("strace changed no system call")
        hit = [f"node {node}: {counted(count, 'system call')} changed" for node, count in calls.items()]
        return "; ".join([*hit, *restarted])


def failing_sync() -> Injected:
    """Let one fsync of the targets fail. After the failed fsync, the kernel reports success for the next fsync,
    although pages may be lost."""
    return Injected("one sync fails with EIO", Injection(SYNCS, "error=EIO:when=1"), restart=True)


def failing_writes() -> Injected:
    calls = ("pwrite64", "pwritev", "pwritev2")
    return Injected("writes fail with EIO", Injection(calls, "error=EIO"), restart=True)


def slow_sync() -> Injected:
    """Let each fsync of the targets take 200 ms longer."""
    return Injected("syncs take 200 ms longer", Injection(SYNCS, "delay_enter=200000"), restart=False)


def _output(site: FaultSite, node: int, pid: int) -> Path:
    number = len(list(site.environment.setup.directory.glob("strace-*.out")))
    return site.environment.setup.directory / f"strace-{number}-node-{node}-{pid}.out"


def _started(site: FaultSite, nodes: Sequence[int]) -> list[str]:
    """Start the nodes that are down, and return the evidence."""
    return [site.environment.start(node) for node in nodes if not site.is_up(node)]
