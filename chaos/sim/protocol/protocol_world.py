"""Defines the protocol world: the real Raft core, driver and replicated state on simulated logs. The protocol world is
fast enough to run many seeds.

The protocol world builds nodes and clients, carries out the scheduled faults, and checks the invariants after each
event. Files, encoded batches and the real clients exist only in the stack world.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import xxhash

from chaos.sim.campaign.swarm import Options
from chaos.sim.engine.ambush import CriticalMoment
from chaos.sim.engine.faults import PROTOCOL, RATES, FaultEvent, classes_of
from chaos.sim.engine.loop import SimLoop
from chaos.sim.engine.network import Network
from chaos.sim.engine.network_faults import NetworkFaults
from chaos.sim.engine.targets import chance_of, leader_of
from chaos.sim.invariants import Invariants
from chaos.sim.protocol.append_times import AppendTimes
from chaos.sim.protocol.disk_threads import SavedVote
from chaos.sim.protocol.faults.promised_fault import FaultTools, PromisedFault
from chaos.sim.protocol.log import SimLog
from chaos.sim.protocol.machine import span_of
from chaos.sim.protocol.node import ProtocolNode
from chaos.sim.protocol.node_faults import NodeFaults
from chaos.sim.protocol.protocol_clients import ProtocolClients
from chaos.sim.protocol.suspicions import Suspicions
from chaos.sim.stack.deliveries import MessageSpan
from chaos.sim.stack.promises import Promises
from chaos.sim.world import InvariantViolation, SimNodeLog
from raft.core import Append, Divergences, RaftMessage
from store import EntryKind, Readable, StoreError

READS_AFTER_ELECTION_S = (0.05, 0.2, 0.5, 1.0)

_EVENT = struct.Struct("<dIQQQI")

# This long after the last fault, no message that was sent before arrives any more: a clog lasts 8 s, and a copy comes
# 30 s late. A message of an ended process never arrives on the streams of the next one, as it can here. So the streams
# break once more, and a leader that took such a message for the answer to its question asks again.
LATEST_S = 40.0


class ProtocolWorld:
    """A simulated cluster of nodes of the class `ProtocolNode`. `ProtocolWorld` implements `World`, and the
    interface `Watch` for its nodes."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.happened: Counter[str] = Counter()
        self.loop = SimLoop()
        self.network = Network(self.loop, options.chance("network"), options.conditions)
        self.invariants = Invariants(self._now_ms)
        self.invariants.on_commit = self._committed
        self.promises = Promises(self.invariants, options)
        self._history = xxhash.xxh3_64()
        self._nodes = [
            ProtocolNode(node, self.loop, self.network, options, self, self._node) for node in self._numbers()
        ]
        self._network_faults = NetworkFaults(self.loop, self.network)
        self._node_faults = NodeFaults(self.loop, options, self._nodes, self._count)
        self._clients = ProtocolClients(
            self.loop, self.network, options, self._nodes, self.invariants, self._node_faults.ambush
        )
        self._append_times = AppendTimes(self.invariants)
        self._suspicions = Suspicions(self.invariants, options, self._node)
        self._promised = self._make_promised_faults()
        # Committed spans, each with the index of its entry.
        self._spans: list[tuple[int, MessageSpan]] = []
        for node in self._nodes:
            node.start()

    def _make_promised_faults(self) -> list[PromisedFault]:
        """Return the fault kinds with promises of their own that this run has."""
        drawn = dict(self.options.strengths)
        faults = self._node_faults
        tools = FaultTools(
            self.loop,
            self.network,
            self.options,
            self._nodes,
            self.invariants,
            faults.kill,
            faults.start_later,
            faults.may_lose,
            self._count,
            self._clients.read_everywhere,
        )
        return [make(tools) for make in classes_of(PROTOCOL, drawn)]

    def nodes(self) -> Sequence[ProtocolNode]:
        return self._nodes

    def violations(self) -> Sequence[InvariantViolation]:
        return self.invariants.violations

    def history(self) -> int:
        """Return a hash of all changes of all nodes with their times, and of the numbers of events and messages."""
        self._history.update(f"{self.loop.events} {sorted(self.network.counts.items())}".encode())
        return self._history.intdigest()

    def figures(self) -> Mapping[str, int]:
        return {
            **self._clients.figures(),
            "entries": self.invariants.newest_commit,
            "leaders": len(self.invariants.leaders),
            "events": self.loop.events,
        }

    def close(self) -> None:
        self.loop.close()

    # -- faults

    def fire(self, event: FaultEvent) -> None:
        network, nodes = self._network_faults, self._node_faults
        promised = next((each for each in self._promised if each.kind == event.kind), None)
        if promised is not None:
            done = promised.fire(event)
        else:
            done = self._isolate_leader(event) or network.fire(event, self._nodes) or nodes.fire(event)
        if done:
            self.happened[event.kind] += 1
        self._history.update(str(event).encode())

    def _isolate_leader(self, event: FaultEvent) -> bool:
        """Cut the leader off from the other nodes, while clients still reach the old leader. A leader with a slow
        clock notices later that it has lost contact with the other nodes."""
        leader = leader_of(self._nodes)
        if event.kind != "isolate_with_client" or leader is None:
            return False
        self._network_faults.isolate(leader.node, self._nodes, event)
        return self._node_faults.skew(leader, chance_of(event).choice((1.0, 0.9, 0.7)), event)

    def _count(self, kind: str) -> None:
        self.happened[kind] += 1

    def stop_faults(self) -> None:
        for name in RATES:
            self.happened[name] += self.network.counts[name]
        self.network.calm()
        self._network_faults.heal()
        for promised in self._promised:
            promised.heal()
        self._node_faults.heal()
        for seconds in (0.05, LATEST_S):
            self.loop.call_later(seconds, self._all_unreachable)

    def _all_unreachable(self) -> None:
        """Notify every node that all its streams to other nodes have broken."""
        for node in self._nodes:
            for other in self._nodes:
                if other is not node:
                    node.unreachable(other.node)

    def start_workload(self) -> None:
        self._clients.start()

    # -- called by nodes

    def sends(self, node: ProtocolNode, message: RaftMessage) -> None:
        self.promises.sends(node, message)
        self._append_times.sends(node, message)
        for promised in self._promised:
            promised.sends(node, message)

    def receives(self, node: ProtocolNode, message: RaftMessage) -> None:
        self.promises.receives(node, message)
        self._append_times.receives(node, message)
        self._suspicions.receives(node, message)
        for promised in self._promised:
            promised.receives(node, message)

    def keeps_back(self, node: ProtocolNode, message: RaftMessage, deliver: Callable[[], None]) -> bool:
        return any(promised.keeps_back(node, message, deliver) for promised in self._promised)

    def loses_power(self, node: ProtocolNode) -> None:
        if node.suspect:
            self._suspicions.loses_power(node)

    def received_range(self, node: ProtocolNode, append: Append, entries: Readable) -> None:
        for promised in self._promised:
            promised.received_range(node, append, entries)

    def reopened(self, node: ProtocolNode, peer: int) -> None:
        for promised in self._promised:
            promised.reopened(node, peer)

    def excuses(self, node: ProtocolNode, error: Exception) -> bool:
        return any(promised.excuses(node, error) for promised in self._promised)

    def ticked(self, node: ProtocolNode) -> None:
        self.promises.ticks(node)
        for promised in self._promised:
            promised.ticked(node)

    def touched(self, node: ProtocolNode) -> None:
        self.promises.touched(node)
        self._append_times.touched(node)
        self._suspicions.touched(node)
        for promised in self._promised:
            promised.touched(node)
        leaders = len(self.invariants.leaders)
        if self.invariants.check(node):
            if len(self.invariants.leaders) != leaders:
                self._elected(node)
            raft, log = node.driver.raft, node.log
            last, chain = log.last_index, log.entries[-1].header.chain if log.entries else 0
            self._history.update(_EVENT.pack(self.loop.time(), node.node, raft.term, raft.commit, last, chain))

    def _elected(self, node: ProtocolNode) -> None:
        self._node_faults.ambush.comes(CriticalMoment.ELECTED, node)
        for delay_s in READS_AFTER_ELECTION_S:
            self.loop.call_later(delay_s, self._clients.read_everywhere)

    def broken(self, node: ProtocolNode, error: Exception) -> None:
        self.invariants.fail("no exception", f"node {node.node}: {type(error).__name__}: {error}")
        self.loop.errors.append(error)

    def applied(self, node: ProtocolNode, index: int, digest: Callable[[], int]) -> None:
        self.invariants.applied(node.node, index, node.driver.raft.commit, digest)

    def vote_saved(self, node: ProtocolNode, vote: SavedVote) -> None:
        self.invariants.vote_saved(node.node, *vote)
        if vote.voted_for not in (0, node.node):
            self._node_faults.ambush.comes(CriticalMoment.VOTED, node)

    def started(self, node: ProtocolNode) -> None:
        self.invariants.restarted(node.node)
        self.invariants.vote_found(node.node, *node.votes.saved)

    def wiped(self, node: ProtocolNode) -> None:
        self.invariants.wiped(node.node)
        self._suspicions.wiped(node)

    def disk_failed(self, node: ProtocolNode, failure: StoreError) -> None:
        if node.log.failure is not None:
            self._node_faults.disk_failed(node)

    def diverged(self, node: ProtocolNode, divergences: Divergences) -> None:
        """If a loss was accepted, the follower's log is given up. Without an accepted loss, logs never diverge."""
        if not divergences:
            return
        if not self.options.accepted_loss:
            told = "; ".join(str(each) for each in divergences.values())
            self.invariants.fail("no divergence", f"node {node.node}: {told}")
        elif not node.leads:
            self.loop.call_later(1.0, self._give_up, node, node.incarnation)

    def _give_up(self, node: ProtocolNode, incarnation: int) -> None:
        """Wipe the disk of a node after its log has diverged from its leader's log, and let the operator remove the
        node."""
        if node.incarnation == incarnation:
            node.wipe()
            node.start()
            self._remove(node)

    def _remove(self, node: ProtocolNode) -> None:
        """Ask the leader to remove a wiped node, until it is no member any more."""
        leader = leader_of(self._nodes)
        if leader is not None and leader.raft is not None and node.node not in leader.raft.configuration.members:
            return
        if node.stranger:
            self._node_faults.remove(node)
            self.loop.call_later(1.0, self._remove, node)

    def loss_accepted(self, node: ProtocolNode) -> None:
        """The state machine of a node calls this method when the node begins to lead after all voters have accepted
        a loss. If losses are allowed in this run, remove from the record all committed entries that the leader
        lacks."""
        kept = self.invariants.kept_by(node.log)
        if kept == self.invariants.newest_commit or not self.options.accepted_loss:
            return
        self.invariants.forgive(kept)
        del self._spans[bisect_right(self._spans, kept, key=lambda each: each[0]) :]
        left = {span for _, span in self._spans}
        self._clients.forgive(left.__contains__)

    def _committed(self, log: SimNodeLog, index: int) -> None:
        assert isinstance(log, SimLog)
        header, body = log.entries[index - 1]
        if header.kind is EntryKind.BATCH:
            span = span_of(header, body)
            self._spans.append((index, span))
            self._clients.deliveries.commit(span)

    # -- the end

    def settle(self, within_ms: int) -> list[str]:
        self._clients.end()
        deadline = self.loop.time() + within_ms / 1000
        while self.loop.time() < deadline and self._unsettled() and not self.violations():
            self.loop.run_until(self.loop.time() + 0.5)
        if not self.violations():
            self._compare_all()
        return self._unsettled()

    def _unsettled(self) -> list[str]:
        """Return a phrase for each condition of a settled cluster that is not met yet. The report of the run prints
        these phrases."""
        for promised in self._promised:
            if (unmet := promised.unsettled()) is not None:
                return unmet
        leader = leader_of(self._nodes)
        missing = self._clients.unsettled()
        if leader is None:
            return [*missing, "no node leads"]
        last, entry = leader.log.last_index, leader.log.entries[-1]
        assert leader.raft is not None
        members = [self._node(member) for member in leader.raft.configuration.members]
        for node in members:
            if node.stranger:
                continue  # its disk was wiped, and no operator has removed it
            if not node.alive:
                missing.append(f"node {node.node} is down")
            elif node.log.last_index != last or node.log.entries[-1] != entry:
                missing.append(f"the log of node {node.node} differs from the leader's")
            elif node.driver.applied != last:
                missing.append(f"node {node.node} has applied {node.driver.applied} of {last} entries")
        return missing

    def _compare_all(self) -> None:
        """Check that the states of all nodes are equal, and that every acknowledged message is committed."""
        self._clients.deliveries.finish()
        for node in self._nodes:
            if node.alive:
                self.invariants.check(node)
                self.invariants.same_state(node.node, node.driver.applied, node.machine.state.digest())

    # -- lookups

    def _node(self, node: int) -> ProtocolNode:
        return self._nodes[node - 1]

    def _numbers(self) -> range:
        return range(1, self.options.nodes + 1)

    def _now_ms(self) -> int:
        return round(self.loop.time() * 1000)
