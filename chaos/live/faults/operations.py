"""Operations on a cluster under load: leadership is transferred, nodes are added, removed and replaced, and clocks are
set.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from chaos.live.faults.fault import Fault, FaultSite, NoEvidenceError
from chaos.words import node_names
from ledger.words import counted

_TRANSFERS = 8
_TRANSFER_GAP_S = 0.5
_STROBES = 4
_SEEN_WITHIN_S = 5.0
# The allowed difference between the wanted and the observed clock: a node reports whole seconds, and its answer takes
# time.
_CLOCK_STEP_S = 2.0


class TransferStorm(Fault):
    """Leadership is transferred to one node after another."""

    def strike(self, site: FaultSite, targets: Sequence[int]) -> str:
        done = 0
        for _ in range(_TRANSFERS):
            others = [node for node in site.environment.nodes if site.is_up(node) and node != site.members.leader()]
            done += site.members.transfer(site.random.choice(others))
            site.wait(_TRANSFER_GAP_S)
        if not done:
            raise NoEvidenceError("no transfer of leadership succeeded")
        return f"{done} of {_TRANSFERS} transfers of leadership succeeded"

    def heal(self, site: FaultSite) -> str:
        return ""


class AddAndRemove(Fault):
    """A node is added. When the new node is a voter, a target is removed permanently."""

    def strike(self, site: FaultSite, targets: Sequence[int]) -> str:
        added = site.environment.add()
        site.members.add(added, site.environment.address(added))
        for node in targets:
            site.members.remove(node)
            site.environment.put_away(node)
        return f"node {added} was added, and {node_names(targets)} removed"

    def heal(self, site: FaultSite) -> str:
        return ""


class Wipe(Fault):
    """A node loses its disk. The node is then removed from the cluster, started with an empty disk, and added again."""

    def __init__(self) -> None:
        self._down: list[int] = []

    def strike(self, site: FaultSite, targets: Sequence[int]) -> str:
        for node in targets:
            self._down.append(node)
            site.environment.kill(node)
            site.environment.wipe(node)
        return f"{node_names(targets)} lost the disk"

    def heal(self, site: FaultSite) -> str:
        for node in self._down:
            site.members.remove(node)
            site.environment.start_to_join(node)
            site.members.add(node, site.environment.address(node))
        return f"{node_names(self._down)}: removed from the cluster, and added again with an empty disk"


class ClockJump(Fault):
    """The wall clock of the targets is wrong by seconds, minutes or days."""

    def __init__(self) -> None:
        self._wrong: list[int] = []

    def strike(self, site: FaultSite, targets: Sequence[int]) -> str:
        offset_s = site.random.choice((-1, 1)) * site.random.choice((3.0, 60.0, 3_600.0, 200_000.0))
        self._wrong = list(targets)
        for node in targets:
            site.environment.set_clock(node, offset_s)
        return "; ".join(_seen(site, node, offset_s) for node in targets)

    def heal(self, site: FaultSite) -> str:
        for node in self._wrong:
            site.environment.set_clock(node, 0)
        return ""


class ClockStrobe(Fault):
    """The wall clock of the targets jumps forward and back."""

    def __init__(self) -> None:
        self._wrong: list[int] = []

    def strike(self, site: FaultSite, targets: Sequence[int]) -> str:
        self._wrong = list(targets)
        evidence = []
        for _ in range(_STROBES):
            offset_s = site.random.uniform(-300, 300)
            for node in targets:
                site.environment.set_clock(node, offset_s)
                evidence.append(_seen(site, node, offset_s))
        return f"{counted(len(evidence), 'jump')} of the clock; {evidence[-1]}"

    def heal(self, site: FaultSite) -> str:
        for node in self._wrong:
            site.environment.set_clock(node, 0)
        return ""


def _seen(site: FaultSite, node: int, offset_s: float) -> str:
    """Wait until the node's own clock shows the clock offset, and return this as evidence."""
    until = time.monotonic() + _SEEN_WITHIN_S
    while True:
        now_ms = site.members.wall_clock_ms(node)
        seen_s = None if now_ms is None else now_ms / 1000 - time.time()
        if seen_s is not None and abs(seen_s - offset_s) <= _CLOCK_STEP_S:
            return f"the clock of node {node} was wrong by {seen_s:+.1f} s"
        if time.monotonic() > until:
            raise NoEvidenceError(
                f"the clock of node {node} should be wrong by {offset_s:+.1f} s, and is wrong by {seen_s} s"
            )
        site.wait(0.2)
