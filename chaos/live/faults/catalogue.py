"""Lists all kinds of faults by their names. `chaos run --faults` accepts the names of these kinds, and `chaos list`
prints them."""

from __future__ import annotations

from functools import partial

from chaos.live.faults import damage, disks, due, ends, leases, moves, network, operations, processes
from chaos.live.faults.fault import FaultNeeds, FaultTarget, LiveFaultKind
from chaos.live.faults.stale_vote import StaleVote

ONE, LEADER, MINORITY, MAJORITY, ALL = FaultTarget
_Kind = LiveFaultKind
_SOME = (LEADER, ONE, MINORITY)
_ANY = (LEADER, ONE, MINORITY, MAJORITY, ALL)
# About how long moves of replicas with a killed leader take.
_MOVES_S = (9.0, 12.0)
_DISKS, _CLOCKS, _STRACE, _SYNC = FaultNeeds.DISKS, FaultNeeds.CLOCKS, FaultNeeds.STRACE, FaultNeeds.SYNC_FLUSH


def _partition(
    name: str, summary: str, targets: tuple[FaultTarget, ...], sides: network.Sides, least: int = 3
) -> LiveFaultKind:
    return _Kind(name, summary, targets, partial(network.Partition, sides), least_nodes=least)


def _damage(name: str, summary: str, targets: tuple[FaultTarget, ...], hurt: damage.Hurt) -> LiveFaultKind:
    return _Kind(name, summary, targets, partial(damage.Damaged, hurt), takes_data=True)


_ALL = (
    _Kind("kill", "nodes are killed (SIGKILL) and restarted some seconds later", _ANY, processes.Kill),
    _Kind(
        "kill-when-due",
        "nodes are killed when messages with delivery times are due, and restarted some seconds later",
        (LEADER,),
        due.KillWhenDue,
        needs=FaultNeeds.TIMED,
        seconds=(4.0, 7.0),
    ),
    _Kind(
        "kill-before-ends",
        "nodes are killed when many transactions are prepared and end, and restarted some seconds later",
        (LEADER, ONE),
        ends.KillBeforeEnds,
        needs=FaultNeeds.TRANSACTIONS,
        seconds=(4.0, 7.0),
    ),
    _Kind(
        "kill-under-leases",
        "nodes are killed while messages of shared groups are leased, and restarted some seconds later",
        (LEADER, ONE),
        leases.KillUnderLeases,
        needs=FaultNeeds.SHARED,
        seconds=(4.0, 7.0),
    ),
    _Kind("stop", "nodes are stopped (SIGTERM) and restarted some seconds later", _SOME, processes.Stop),
    _Kind("rolling", "the nodes are restarted in turn; each must catch up before the next", (ALL,), processes.Rolling),
    _Kind("pause", "nodes are paused (SIGSTOP) and continued some seconds later (SIGCONT)", _ANY, processes.Pause),
    _Kind(
        "power",
        "the power of nodes is cut: data that was not synced is lost",
        _SOME,
        processes.PowerCut,
        needs=_DISKS,
        takes_data=True,
    ),
    _Kind("power-all", "the power of all nodes is cut at once", (ALL,), processes.PowerCutOfAll, needs=_DISKS | _SYNC),
    _partition("partition-halves", "a majority and a minority cannot reach each other", (ALL,), network.halves),
    _partition("partition-one", "one node reaches no other node", (ONE,), network.alone),
    _partition("partition-leader", "the leader reaches no other node", (LEADER,), network.alone),
    _partition("partition-ring", "each node reaches a majority, and no two the same majority", (ALL,), network.ring),
    _partition("partition-bridge", "two halves are connected by one node only", (ALL,), network.bridge),
    _Kind("one-way", "all packets from one node are lost, or all packets to it", (LEADER, ONE), network.OneWay),
    _Kind("loss", "5 to 30 % of the packets between nodes are lost", (ALL,), network.Lossy),
    _Kind("delay", "packets arrive 20 to 250 ms late", _SOME, partial(network.Shaped, network.late)),
    _Kind(
        "reorder",
        "packets overtake each other, and some arrive twice",
        _SOME,
        partial(network.Shaped, network.out_of_order),
    ),
    _Kind("slow-link", "links carry 50 to 300 kB/s", _SOME, partial(network.Shaped, network.slow)),
    _Kind("clock-jump", "wall clocks are wrong, by seconds to days", _ANY, operations.ClockJump, needs=_CLOCKS),
    _Kind("clock-strobe", "wall clocks jump forward and back", _ANY, operations.ClockStrobe, needs=_CLOCKS),
    _Kind("disk-full", "the disk has no free byte", _SOME, disks.DiskFull, needs=_DISKS),
    _Kind("eio-sync", "a sync fails once with EIO", _SOME, disks.failing_sync, needs=_STRACE),
    _Kind("eio-write", "writes fail with EIO", _SOME, disks.failing_writes, needs=_STRACE),
    _Kind("slow-sync", "syncs take 200 ms longer", _SOME, disks.slow_sync, needs=_STRACE),
    _damage("bit-flip", "one bit in the log of a killed node is flipped", (ONE, LEADER), damage.flip_bit),
    _damage("cut-file", "a log file of a killed node is truncated", (ONE, LEADER), damage.cut_file),
    _Kind(
        "old-file",
        "a log file of a killed node is replaced by an older copy",
        (ONE, LEADER),
        damage.OldCopy,
        takes_data=True,
    ),
    _damage("lost-index", "an index of a killed node is deleted", _SOME, damage.lose_indexes),
    _Kind(
        "wipe",
        "a node loses its disk, and is added again",
        (ONE, LEADER),
        operations.Wipe,
        least_nodes=3,
        takes_data=True,
    ),
    _Kind(
        "membership",
        "a node is added, and another node is removed",
        (ONE, LEADER),
        operations.AddAndRemove,
        least_nodes=3,
    ),
    _Kind(
        "drain",
        "a node is drained and gets replicas again, and the leader of shard 0 is killed in the middle",
        (ONE, LEADER),
        moves.Drain,
        seconds=_MOVES_S,
        needs=FaultNeeds.SHARDS,
        least_nodes=3,
    ),
    _Kind(
        "set-replicas",
        "each shard gets one more replica and loses it again, and the leader of shard 0 is killed in the middle",
        (ALL,),
        moves.MoreReplicas,
        seconds=_MOVES_S,
        needs=FaultNeeds.SHARDS,
        least_nodes=3,
    ),
    _Kind("transfer", "leadership is transferred again and again", (LEADER,), operations.TransferStorm, least_nodes=2),
    _Kind(
        "upgrade",
        "nodes with an older program are killed or stopped, and restarted some seconds later with this program",
        _SOME,
        processes.Upgrade,
        needs=FaultNeeds.OLD_PROGRAM,
    ),
    _Kind("client-kill", "a client is killed, and a new client starts", (ONE,), processes.ClientKill),
    _Kind(
        "stale-vote",
        "killed nodes restart with older votes (no cluster survives this; not part of `all`)",
        (LEADER,),
        StaleVote,
        seconds=(2.0, 3.0),
        least_nodes=3,
        survived=False,
    ),
)
KINDS = {kind.name: kind for kind in _ALL}
# The faults that set wall clocks wrong.
CLOCK_KINDS = frozenset(kind.name for kind in _ALL if kind.needs & _CLOCKS)
# The faults that a cluster must survive: `--faults all`.
SURVIVED = tuple(kind.name for kind in _ALL if kind.survived)
