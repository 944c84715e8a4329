"""What must hold for pinned leaders, computed from the entries of each shard's log.

After each entry, a replica has the pin that the entries up to it say. The pin of a voter ends when a configuration does
not have this voter, with this incarnation, any more. At the end of a run, when every node is well, the pinned voter
leads its shard; nothing is demanded of a voter that has lost its disk.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable

from chaos.sim.stack.roster import Rosters
from ledger.broker.broker_replica import BrokerReplica
from ledger.v1 import command_pb2
from raft.configuration_entry import decode_configuration
from store import EntryKind, Header

# A node, and its incarnation.
Pin = tuple[int, bytes]


class _PinsOfShard:
    """The pins of one shard, by the index of the entry that changed them."""

    def __init__(self) -> None:
        self._pin: Pin | None = None
        self._voters: dict[int, bytes] = {}
        # The indexes of entries that could change the pin, and the pinned voter after each of them; 0: none.
        self._indexes: list[int] = [0]
        self._pinned: list[int] = [0]

    def follow(self, header: Header, body: bytes) -> None:
        """Note an entry, unless another node has applied it before."""
        if header.index <= self._indexes[-1]:
            return
        if header.kind is EntryKind.CONFIGURATION:
            self._voters = {node: each.incarnation for node, each in decode_configuration(body).voters.items()}
        elif header.kind is EntryKind.COMMAND:
            command = command_pb2.Command.FromString(body)
            match command.WhichOneof("command"):
                case "pin_leader" if command.pin_leader.balances:
                    return  # the cluster pins no leader, it only prefers one
                case "pin_leader":
                    self._pin = (command.pin_leader.node, command.pin_leader.incarnation)
                case "unpin_leader":
                    self._pin = None
                case _:
                    return
        else:
            return
        node, incarnation = self._pin or (0, b"")
        self._indexes.append(header.index)
        self._pinned.append(node if self._voters.get(node) == incarnation else 0)

    def after(self, index: int) -> int:
        """Return the voter that is pinned after the entry `index`; 0: none."""
        return self._pinned[bisect_right(self._indexes, index) - 1]

    @property
    def newest(self) -> int:
        return self._pinned[-1]


class PinTruth:
    """Checks the pins of all shards. `fail(invariant, what)` records a violation."""

    def __init__(self, rosters: Rosters, fail: Callable[[str, str], None]) -> None:
        self._rosters = rosters
        self._fail = fail
        self._shards: dict[int, _PinsOfShard] = {}

    def applied(self, replica: BrokerReplica, header: Header, body: bytes) -> None:
        """Judge the pin of a replica that has applied this entry."""
        pins = self._shards.setdefault(replica.shard, _PinsOfShard())
        pins.follow(header, body)
        expected, found = pins.after(header.index), replica.pinned_leader
        if found != expected:
            self._fail(
                "a pin is what the log says",
                f"after entry {header.index} of shard {replica.shard}, node {replica.node} has the pin {found}, and "
                f"the log says {expected}",
            )

    def unsettled(self) -> list[str]:
        """Return a phrase for each shard that its pinned voter does not lead."""
        missing = []
        for shard, pins in sorted(self._shards.items()):
            roster = self._rosters.of(shard)
            leader = roster.leader
            if leader is not None and leader.node != pins.newest and roster.is_member(pins.newest):
                missing.append(f"node {leader.node} leads shard {shard}, and node {pins.newest} is pinned")
        return missing
