"""Faults of processes: nodes that are killed, stopped or paused, nodes that lose power, and clients that are killed."""

from __future__ import annotations

from collections.abc import Sequence

from chaos.live.faults.fault import Fault, FaultSite, NoEvidenceError


class Kill(Fault):
    """The targets are killed with SIGKILL, and started again later."""

    def __init__(self) -> None:
        self._down: list[int] = []

    def strike(self, site: FaultSite, targets: Sequence[int]) -> str:
        return "; ".join(self._end(site, node) for node in targets)

    def heal(self, site: FaultSite) -> str:
        return "; ".join(site.environment.start(node) for node in self._down if not site.is_up(node))

    def _end(self, site: FaultSite, node: int) -> str:
        self._down.append(node)
        return site.environment.kill(node)


class Stop(Kill):
    """The targets are stopped with SIGTERM; a leader transfers leadership first."""

    def _end(self, site: FaultSite, node: int) -> str:
        self._down.append(node)
        return site.environment.stop(node)


class Upgrade(Kill):
    """The targets are killed or stopped, and started again later with this program. Before, they ran an older program,
    or this one if an earlier occurrence hit them."""

    def _end(self, site: FaultSite, node: int) -> str:
        self._down.append(node)
        end = site.random.choice((site.environment.kill, site.environment.stop))
        return f"{end(node)}, {site.environment.upgrade(node)}"


class PowerCut(Kill):
    """The power of the targets is cut: they lose all data that they had not synced."""

    def _end(self, site: FaultSite, node: int) -> str:
        self._down.append(node)
        return _cut(site, node)


class PowerCutOfAll(Fault):
    """The power of all nodes is cut at the same moment. The nodes start again together."""

    def strike(self, site: FaultSite, targets: Sequence[int]) -> str:
        for node in targets:
            site.environment.pause(node)
        return "; ".join(_cut(site, node) for node in targets)

    def heal(self, site: FaultSite) -> str:
        return "; ".join(site.environment.start(node) for node in site.environment.nodes if not site.is_up(node))


class Rolling(Fault):
    """The nodes are stopped and started one after another. Each node must catch up before the next one stops."""

    def strike(self, site: FaultSite, targets: Sequence[int]) -> str:
        evidence = []
        for node in targets:
            evidence.append(site.environment.stop(node))
            site.environment.start(node)
            site.members.caught_up(30.0)
        return "; ".join(evidence)

    def heal(self, site: FaultSite) -> str:
        down = [node for node in site.environment.nodes if not site.is_up(node)]
        return "; ".join(site.environment.start(node) for node in down)


class Pause(Fault):
    """The targets are paused with SIGSTOP and continue later (SIGCONT). The nodes do not know that they were paused."""

    def __init__(self) -> None:
        self._paused: list[int] = []

    def strike(self, site: FaultSite, targets: Sequence[int]) -> str:
        self._paused = list(targets)
        return "; ".join(site.environment.pause(node) for node in targets)

    def heal(self, site: FaultSite) -> str:
        return "; ".join(site.environment.resume(node) for node in self._paused if site.is_up(node))


class ClientKill(Fault):
    """A client is killed in the middle of its work, and a new client starts."""

    def strike(self, site: FaultSite, targets: Sequence[int]) -> str:
        return site.clients.kill_one(site.random)

    def heal(self, site: FaultSite) -> str:
        return ""


def _cut(site: FaultSite, node: int) -> str:
    lost = site.environment.cut_power(node)
    if not lost:
        raise NoEvidenceError(f"the power cut of node {node} lost nothing")
    return f"node {node}: {lost}"
