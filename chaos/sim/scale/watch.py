"""The invariants of the scale world. A broken invariant ends the run as a failure.

A replica is *intact* if its node lives and its log has all committed entries.
"""

from __future__ import annotations

from collections import Counter

from chaos.sim.scale.least import voters_of
from chaos.sim.scale.nodes import ScaleNodes
from chaos.sim.scale.shard import ScaleShard
from chaos.sim.scale.timing import WAKE_S
from ledger.broker.placement.plan import MOST_FIRST_VOTERS
from ledger.state.placement_table import DEFAULT_REPLICAS, PlacementTable
from ledger.topics import TOPICS_SHARD
from raft.core.quorum import majority

# After a drain or a replacement the nodes of a room may differ by so many replicas, or by this share of the replicas of
# a node. Each replica went to the node with the fewest replicas among those that took part in no other move. A
# rebalance makes them equal.
UNEVEN = 4
UNEVEN_SHARE = 0.25
# After a rebalance.
BALANCED = 1


class BrokenInvariant(Exception):  # noqa: N818 (it is a finding about the product)
    """An invariant does not hold. The message names it."""


class Watch:
    """Looks at the shards after each wake, and at the whole cluster at the end of a scenario."""

    def __init__(self, nodes: ScaleNodes) -> None:
        self._nodes = nodes
        # How many intact voters each shard except shard 0 must have now; 0: a majority.
        self.least_intact = 0
        self.most_leaderless = 0
        self.leaderless_s = 0.0
        # How many moves of replicas may still begin.
        self._moves_left = 0
        # The first invariant that did not hold, or "".
        self.broken = ""

    def begin(self, least_intact: int, least_moves: int = 0) -> None:
        """Begin a scenario that needs so many moves of replicas."""
        self.least_intact, self.most_leaderless, self.leaderless_s = least_intact, 0, 0.0
        # A move of a replica of shard 0 sends nothing. It is no part of the least moves.
        self._moves_left = least_moves + (MOST_FIRST_VOTERS if least_moves else 0)

    def move_begins(self) -> None:
        """Check that this move is needed."""
        self._moves_left -= 1
        if self._moves_left < 0:
            self._fail("no replica moves without need: more moves have begun than the scenario needs")

    def check(self) -> None:
        """Raise BrokenInvariant if an invariant did not hold."""
        if self.broken:
            raise BrokenInvariant(self.broken)

    def _fail(self, broken: str) -> None:
        self.broken = self.broken or broken

    def after_wake(self, woken: list[ScaleShard]) -> None:
        """Check the shards in which something may have happened."""
        leaderless = 0
        for shard in woken:
            leader = shard.leader
            if leader is None:
                leaderless += 1
                continue
            voters, commit = leader.raft.configuration.voters, leader.raft.commit
            intact = sum(node in shard.servers and shard.servers[node].raft.log.last_index >= commit for node in voters)
            least = majority(voters) if shard.number == TOPICS_SHARD else self.least_intact or majority(voters)
            if intact < least:
                self._fail(
                    f"enough intact replicas: shard {shard.number} has {intact} of its voters {list(voters)}, and must "
                    f"have {least}"
                )
        self.most_leaderless = max(self.most_leaderless, leaderless)
        self.leaderless_s += leaderless * WAKE_S

    def after_loss(self) -> None:
        """Check that each shard has a majority after a loss of nodes. Raises BrokenInvariant."""
        for shard in self._nodes.shards.values():
            voters = voters_of(shard)
            living = [node for node in voters if node in self._nodes.alive]
            if len(living) < majority(voters):
                raise BrokenInvariant(
                    f"a room takes no majority: of the voters {list(voters)} of shard {shard.number} only "
                    f"{living} are left"
                )

    def at_the_end(self, table: PlacementTable, uneven: int) -> int:
        """Check the whole cluster after a scenario. Among others, the nodes of each room may differ by at most `uneven`
        replicas, or, if that is not BALANCED, by UNEVEN_SHARE. Rooms with different numbers of nodes may have to
        differ. Return by how many replicas all nodes differ. Raises BrokenInvariant."""
        if table.moves or table.drains:
            raise BrokenInvariant(f"all moves end: {len(table.moves)} moves and {len(table.drains)} drains are left")
        alive, rooms = self._nodes.alive, {self._nodes.rooms[node] for node in self._nodes.alive}
        replicas = Counter(dict.fromkeys(alive, 0))
        for shard in self._nodes.shards.values():
            self._check_shard(shard, len(rooms))
            if shard.number != TOPICS_SHARD:
                replicas.update(voters_of(shard))
        for room in sorted(rooms):
            counts = [count for node, count in replicas.items() if self._nodes.rooms[node] == room]
            allowed = BALANCED if uneven == BALANCED else max(uneven, int(UNEVEN_SHARE * max(counts)))
            if max(counts) - min(counts) > allowed:
                raise BrokenInvariant(
                    f"replicas are spread evenly: in {room}, one node has {max(counts)} of them and one {min(counts)}, "
                    f"which is more than {allowed} apart"
                )
        return max(replicas.values()) - min(replicas.values())

    def _check_shard(self, shard: ScaleShard, rooms: int) -> None:
        leader = shard.leader
        if leader is None:
            raise BrokenInvariant(f"each shard has a leader: shard {shard.number} has none")
        members, voters = leader.raft.configuration.members, leader.raft.configuration.voters
        if missing := [node for node in members if node not in self._nodes.alive]:
            raise BrokenInvariant(f"no shard keeps a node that is gone: shard {shard.number} has the nodes {missing}")
        if shard.number == TOPICS_SHARD:
            if len(members) != len(self._nodes.alive) or len(voters) < DEFAULT_REPLICAS:
                raise BrokenInvariant(
                    f"shard 0 is on each node: it has {len(members)} members and {len(voters)} voters, and there are "
                    f"{len(self._nodes.alive)} nodes"
                )
            return
        if len(voters) != DEFAULT_REPLICAS or len(members) != len(voters):
            raise BrokenInvariant(
                f"each shard has its replicas: shard {shard.number} has the voters {list(voters)} and {len(members)} "
                "members"
            )
        used = {self._nodes.rooms[node] for node in voters}
        if len(used) < min(rooms, len(voters)):
            raise BrokenInvariant(
                f"replicas are in different rooms: those of shard {shard.number}, {list(voters)}, are in "
                f"{', '.join(sorted(used))}"
            )
