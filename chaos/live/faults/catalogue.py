"""All kinds of faults, by name: what `chaos run --faults` takes and `chaos list` shows."""

from __future__ import annotations

from functools import partial

from chaos.live.faults import damage, disks, network, operations, processes
from chaos.live.faults.fault import Kind, Needs, Target
from chaos.live.faults.stale_vote import StaleVote

ONE, LEADER, MINORITY, MAJORITY, ALL = Target.ONE, Target.LEADER, Target.MINORITY, Target.MAJORITY, Target.ALL
_SOME = (LEADER, ONE, MINORITY)
_ANY = (LEADER, ONE, MINORITY, MAJORITY, ALL)
_DISKS, _CLOCKS, _STRACE, _SYNC = Needs.DISKS, Needs.CLOCKS, Needs.STRACE, Needs.SYNC_FLUSH


def _partition(name: str, summary: str, targets: tuple[Target, ...], sides: network.Sides, least: int = 3) -> Kind:
    return Kind(name, summary, targets, partial(network.Partition, sides), least_nodes=least)


def _damage(name: str, summary: str, targets: tuple[Target, ...], hurt: damage.Hurt) -> Kind:
    return Kind(name, summary, targets, partial(damage.Damaged, hurt), takes_data=True)


_ALL = (
    Kind("kill", "kill -9, and a start some seconds later", _ANY, processes.Kill),
    Kind("stop", "SIGTERM, and a start some seconds later", _SOME, processes.Stop),
    Kind("rolling", "every node in turn is stopped, started, and waited for", (ALL,), processes.Rolling),
    Kind("pause", "SIGSTOP, and SIGCONT some seconds later", _ANY, processes.Pause),
    Kind(
        "power",
        "the power of nodes is cut: what was not synced is gone",
        _SOME,
        processes.Power,
        needs=_DISKS,
        takes_data=True,
    ),
    Kind("power-all", "the power of all nodes is cut at once", (ALL,), processes.PowerOfAll, needs=_DISKS | _SYNC),
    _partition("partition-halves", "a majority and the others do not reach one another", (ALL,), network.halves),
    _partition("partition-one", "one node reaches nobody", (ONE,), network.alone),
    _partition("partition-leader", "the leader reaches nobody", (LEADER,), network.alone),
    _partition("partition-ring", "each node sees a majority, no two the same one", (ALL,), network.ring),
    _partition("partition-bridge", "two halves see one another through one node only", (ALL,), network.bridge),
    Kind("one-way", "what one node sends does not arrive, or what is sent to it", (LEADER, ONE), network.OneWay),
    Kind("loss", "5 to 30 % of the packets between nodes are lost", (ALL,), network.Lossy),
    Kind("delay", "packets come 20 to 250 ms later", _SOME, partial(network.Shaped, network.late)),
    Kind(
        "reorder", "packets overtake each other, and come twice", _SOME, partial(network.Shaped, network.out_of_order)
    ),
    Kind("slow-link", "links carry 50 to 300 kB/s", _SOME, partial(network.Shaped, network.slow)),
    Kind("clock-jump", "wall clocks are wrong, by seconds to days", _ANY, operations.ClockJump, needs=_CLOCKS),
    Kind("clock-strobe", "wall clocks jump to and fro", _ANY, operations.ClockStrobe, needs=_CLOCKS),
    Kind("disk-full", "not one byte is free", _SOME, disks.DiskFull, needs=_DISKS),
    Kind("eio-sync", "a sync fails once with EIO", _SOME, disks.failing_sync, needs=_STRACE),
    Kind("eio-write", "writes fail with EIO", _SOME, disks.failing_writes, needs=_STRACE),
    Kind("slow-sync", "syncs take 200 ms longer", _SOME, disks.slow_sync, needs=_STRACE),
    _damage("bit-flip", "one bit of a killed node's log is another", (ONE, LEADER), damage.flip_bit),
    _damage("cut-file", "a log file of a killed node is cut", (ONE, LEADER), damage.cut_file),
    Kind("old-file", "a log file of a killed node is as it was before", (ONE, LEADER), damage.OldCopy, takes_data=True),
    _damage("lost-index", "an index of a killed node is gone", _SOME, damage.lose_indexes),
    Kind(
        "wipe",
        "a node loses its disk, and is added again",
        (ONE, LEADER),
        operations.Wipe,
        least_nodes=3,
        takes_data=True,
    ),
    Kind("membership", "a node is added, another removed", (ONE, LEADER), operations.AddAndRemove, least_nodes=3),
    Kind("transfer", "leadership is handed about", (LEADER,), operations.TransferStorm, least_nodes=2),
    Kind("client-kill", "a client is killed, another begins", (ONE,), processes.ClientKill),
    Kind(
        "stale-vote",
        "votes of killed nodes are as they were before (no cluster survives that; never among `all`)",
        (LEADER,),
        StaleVote,
        seconds=(2.0, 3.0),
        least_nodes=3,
        survived=False,
    ),
)
KINDS = {kind.name: kind for kind in _ALL}
# What a cluster must get over: `--faults all`.
SURVIVED = tuple(kind.name for kind in _ALL if kind.survived)
