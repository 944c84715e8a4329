"""The faults that move replicas between nodes under load: a node is drained, and the number of replicas is changed. In
the middle of the moves, the leader of shard 0, which carries them out, is killed.

These faults need a node more than a shard has replicas. If there is none, they add one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from chaos.errors import ChaosError
from chaos.live.faults.fault import Fault, FaultSite, NoEvidenceError
from chaos.live.looks import pause_after
from ledger.client.placement_records import Placement
from ledger.words import counted

# The moves begin within this time.
_BEGIN_S = 30.0
# The leader of shard 0 is killed at most so long after the first move was seen, and started again so long after that.
_KILL_WITHIN_S, _DOWN_S = 0.7, 2.5
# All moves end within this time after the last kill, and within so much more for each replica.
_MOVES_S, _MOVE_S = 120.0, 10.0


class ReplicasMove(Fault):
    """Moves that continue after their leader was killed. Subclasses say what the operator asks for."""

    def strike(self, site: FaultSite, targets: Sequence[int]) -> str:
        raise NotImplementedError

    def heal(self, site: FaultSite) -> str:
        """Start the nodes that are still down."""
        down = [node for node in site.environment.nodes if not site.is_up(node)]
        return "; ".join(site.environment.start(node) for node in down)

    def _with_spare_node(self, site: FaultSite) -> Placement:
        """Return the placement of a cluster that has a node more than a shard has replicas."""
        placement = site.members.placement()
        if len(placement.nodes) <= max(_sizes(placement), default=0):
            node = site.environment.add()
            site.members.add(node, site.environment.address(node), shard=0)
            placement = site.members.placement()
        return placement

    def _ends(self, site: FaultSite, what: str, replicas: int, is_done: Callable[[Placement], bool]) -> str:
        """Kill the leader of shard 0 in the middle of the moves of so many replicas, start it again, and wait for the
        end of the moves. Return evidence. Raise ChaosError if the moves do not end."""
        begun = time.monotonic()
        _until(site, f"the moves have not begun: {what}", _BEGIN_S, lambda now: bool(now.moves) or is_done(now))
        site.wait(site.random.uniform(0, _KILL_WITHIN_S))
        placement, leader = site.members.placement(), site.members.leader()
        if is_done(placement) or not leader:
            raise NoEvidenceError(f"{what}: the moves ended before the leader of shard 0 could be killed")
        under_way = counted(len(placement.moves), "move")
        killed = site.environment.kill(leader)
        site.wait(_DOWN_S)
        site.environment.start(leader)
        _until(site, f"not in time: {what}", _time_of(replicas), is_done)
        return (
            f"{what} in {time.monotonic() - begun:.1f} s; {killed}, as the leader of shard 0, with {under_way} under "
            "way"
        )


class Drain(ReplicasMove):
    """The target is drained. When it has no replicas except that of shard 0, the drain ends, and the replicas are
    balanced over the nodes again."""

    def __init__(self) -> None:
        self._drained: list[int] = []

    def strike(self, site: FaultSite, targets: Sequence[int]) -> str:
        (node,) = targets
        placement = self._with_spare_node(site)
        if not (shards := placement.shards_on(node)):
            raise NoEvidenceError(f"node {node} has no replicas except that of shard 0")
        self._drained.append(node)
        site.members.drain(node)
        what = f"node {node} was drained of {counted(len(shards), 'replica')}"
        return self._ends(site, what, len(shards), lambda now: _is_whole(site, now) and not now.shards_on(node))

    def heal(self, site: FaultSite) -> str:
        said = super().heal(site)
        for node in self._drained:
            site.members.stop_draining(node)
        site.members.rebalance()
        within_s = _time_of(sum(_sizes(site.members.placement())))
        _until(site, "the replicas are not balanced", within_s, lambda now: not now.balancing and not now.moves)
        return "; ".join(filter(None, (said, "the drain ended, and the replicas were balanced")))


class MoreReplicas(ReplicasMove):
    """Each shard gets one more replica, and then loses it again."""

    def __init__(self) -> None:
        # The number of replicas before; 0: it was not changed.
        self._before = 0

    def strike(self, site: FaultSite, targets: Sequence[int]) -> str:
        placement = self._with_spare_node(site)
        self._before = placement.replicas
        wanted, shards = self._before + 1, len(_sizes(placement))
        site.members.set_replicas(wanted)
        return self._ends(site, f"each shard got {wanted} replicas", shards, lambda now: _all_have(site, now, wanted))

    def heal(self, site: FaultSite) -> str:
        said = super().heal(site)
        if not self._before:
            return said
        site.members.set_replicas(self._before)
        what = f"each shard has {self._before} replicas again"
        within_s = _time_of(len(_sizes(site.members.placement())))
        _until(site, f"not in time: {what}", within_s, lambda now: _all_have(site, now, self._before))
        return "; ".join(filter(None, (said, what)))


def _time_of(replicas: int) -> float:
    """Return the seconds in which so many replicas are moved."""
    return _MOVES_S + _MOVE_S * replicas


def _sizes(placement: Placement) -> list[int]:
    return [len(shard.replicas) for shard in placement.shards if shard.shard]


def _is_whole(site: FaultSite, placement: Placement) -> bool:
    """Return True if no move is under way and the leaders of all shards answered."""
    return not placement.moves and len(placement.shards) == site.environment.setup.settings["shards"]


def _all_have(site: FaultSite, placement: Placement, replicas: int) -> bool:
    return _is_whole(site, placement) and all(size == replicas for size in _sizes(placement))


def _until(site: FaultSite, otherwise: str, within_s: float, is_done: Callable[[Placement], bool]) -> None:
    """Wait until the placement `is_done`. While leaders are elected, a busy cluster may not tell its placement. Raises
    ChaosError after `within_s` seconds."""
    begun = time.monotonic()
    while True:
        asked = time.monotonic()
        try:
            if is_done(placement := site.members.placement()):
                return
            left = _left(placement)
        except ChaosError as error:
            left = str(error)
        answered = time.monotonic()
        if answered > begun + within_s:
            raise ChaosError(f"{otherwise}. {left}")
        site.wait(pause_after(answered - asked))


def _left(placement: Placement) -> str:
    """Return a text about what is still to be done."""
    moves = "; ".join(
        f"shard {move.shard} from node {move.source} to node {move.to} ({move.trouble or 'no trouble'})"
        for move in placement.moves
    )
    return f"Moves: {moves or 'none'}. Obstacles: {placement.obstacles or 'none'}"
