"""Faults of processes: killed, stopped in order, paused."""

from __future__ import annotations

from collections.abc import Sequence

from chaos.live.faults.fault import Fault, NoEvidenceError, Site


class Kill(Fault):
    """kill -9; started again when it is over."""

    def __init__(self) -> None:
        self._down: list[int] = []

    def strike(self, site: Site, targets: Sequence[int]) -> str:
        return "; ".join(self._end(site, node) for node in targets)

    def heal(self, site: Site) -> str:
        return "; ".join(site.environment.start(node) for node in self._down if not site.is_up(node))

    def _end(self, site: Site, node: int) -> str:
        self._down.append(node)
        return site.environment.kill(node)


class Stop(Kill):
    """SIGTERM: a leader hands over before it goes."""

    def _end(self, site: Site, node: int) -> str:
        self._down.append(node)
        return site.environment.stop(node)


class Power(Kill):
    """The power of the node is cut: what it did not sync is gone, as far as a machine has it."""

    def _end(self, site: Site, node: int) -> str:
        self._down.append(node)
        return _cut(site, node)


class PowerOfAll(Fault):
    """The power of all nodes is cut at the same moment; they start again together."""

    def strike(self, site: Site, targets: Sequence[int]) -> str:
        for node in targets:
            site.environment.pause(node)
        return "; ".join(_cut(site, node) for node in targets)

    def heal(self, site: Site) -> str:
        return "; ".join(site.environment.start(node) for node in site.environment.nodes if not site.is_up(node))


class Rolling(Fault):
    """Every node, one after the other: stopped in order, and started; the next one when it has caught up."""

    def strike(self, site: Site, targets: Sequence[int]) -> str:
        evidence = []
        for node in targets:
            evidence.append(site.environment.stop(node))
            site.environment.start(node)
            site.members.caught_up(30.0)
        return "; ".join(evidence)

    def heal(self, site: Site) -> str:
        down = [node for node in site.environment.nodes if not site.is_up(node)]
        return "; ".join(site.environment.start(node) for node in down)


class Pause(Fault):
    """SIGSTOP, and SIGCONT when it is over: a node that does not know that it was away."""

    def __init__(self) -> None:
        self._paused: list[int] = []

    def strike(self, site: Site, targets: Sequence[int]) -> str:
        self._paused = list(targets)
        return "; ".join(site.environment.pause(node) for node in targets)

    def heal(self, site: Site) -> str:
        return "; ".join(site.environment.resume(node) for node in self._paused if site.is_up(node))


class ClientKill(Fault):
    """A client is killed in the middle of its work; another one begins in its place."""

    def strike(self, site: Site, targets: Sequence[int]) -> str:
        return site.clients.kill_one(site.random)

    def heal(self, site: Site) -> str:
        return ""


def _cut(site: Site, node: int) -> str:
    lost = site.environment.cut_power(node)
    if not lost:
        raise NoEvidenceError(f"the power cut of node {node} lost nothing")
    return f"node {node}: {lost}"
