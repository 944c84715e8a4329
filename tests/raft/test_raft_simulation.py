"""Seeded random faults on the in-memory network.

Messages are dropped, repeated and reordered. Flushes and saves are slow. Nodes are killed, lose power, are held up, and
restart. Members are added and removed, and leadership is handed over. invariants.py is checked after every event. At
the end the network heals, and all nodes must agree and commit new entries.

LEDGERMQ_RAFT_SEEDS=500 runs more seeds than the few of a usual test run.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from random import Random

import pytest

from raft.core import Configuration, RaftTiming, Refusal
from tests.raft.network import Disk, Entry, Network

SEEDS = int(os.environ.get("LEDGERMQ_RAFT_SEEDS", "24"))
EVENTS = 6000


class Chaos:
    """One seeded run."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.network = Network(
            self.random.choice((1, 2, 3, 3, 3, 3, 5, 5)),
            async_flush=self.random.random() < 0.5,
            preferred_leader=self.random.choice((0, 0, 1)),
            jitter=lambda node: self.random.randrange(5),
            timing=RaftTiming(heartbeat_ticks=1, election_ticks=5),
            append_bytes=self.random.choice((100, 300, 10_000)),
            max_uncommitted_bytes=2000,
        )
        self.happened: Counter[str] = Counter()
        self.proposals = 0
        # Nodes that ever lost power under asynchronous flush.
        self.suspects: set[int] = set()
        for node in self.network.nodes.values():
            node.held = True
        self.events: dict[Callable[[], None], int] = {
            self.tick: 150,
            self.deliver: 600,
            self.repeat: 15,
            self.drop: 8,
            self.propose: 60,
            self.read: 20,
            self.save: 250,
            self.begin_flush: 120,
            self.end_flush: 120,
            self.break_stream: 5,
            self.crash: 2,
            self.restart: 8,
            self.blackout: 1,
            self.isolate: 3,
            self.heal: 4,
            self.change: 12,
            self.transfer: 8,
            self.held_up: 2,
        }

    def run(self) -> None:
        events, weights = list(self.events), list(self.events.values())
        # Each seed draws its own frequency for each kind of fault.
        weights = [weight * self.random.choice((1, 2, 4)) for weight in weights]
        for event in self.random.choices(events, weights, k=EVENTS):
            event()

    def recover(self) -> None:
        """Stop all faults. Check that all nodes agree and commit a new entry."""
        network = self.network
        network.heal()
        network.wire.clear()
        for number in list(network.disks):
            self.start(number)
        for number, node in network.nodes.items():
            node.held = False
            network.flush(number)
        for peer in network.nodes:
            for number in network.nodes:
                network.unreachable(number, peer)
        self.settle(100)
        (leader,) = self.network.leaders
        network.propose(leader, "the last one")
        self.settle(10)
        members = [network.nodes[number] for number in network.raft(leader).configuration.members]
        logs = [node.disk.written for node in members]
        assert all(log == logs[0] for log in logs)
        assert logs[0][-1].value == "the last one"
        assert {node.raft.commit for node in members} == {len(logs[0])}
        assert not any(node.raft.is_suspect for node in members)

    def settle(self, ticks: int) -> None:
        for _ in range(ticks):
            for number in self.network.nodes:
                self.network.tick(number)
            self.network.deliver_all()

    # -- events

    def tick(self) -> None:
        self.network.tick(self.any_node())

    def deliver(self) -> None:
        """Deliver a message, mostly in order."""
        wire = self.network.wire
        if wire:
            self.network.deliver(wire.pop(0 if self.random.random() < 0.8 else self.random.randrange(len(wire))))

    def repeat(self) -> None:
        if self.network.wire:
            self.network.send(self.random.choice(self.network.wire))

    def drop(self) -> None:
        if self.network.wire:
            self.network.wire.pop(self.random.randrange(len(self.network.wire)))

    def propose(self) -> None:
        values = [f"value {self.proposals + i}" for i in range(self.random.randint(1, 5))]
        try:
            self.network.propose(self.someone(), *values)
        except Refusal as refusal:
            self.happened[type(refusal).__name__] += 1
        else:
            self.proposals += len(values)

    def read(self) -> None:
        try:
            self.network.read(self.someone(), self.random.getrandbits(60))
        except Refusal:
            return

    def change(self) -> None:
        """Add a learner, make it a voter, make a voter a learner, or remove a member. Node ids are used again."""
        leader = self.someone()
        now = self.network.raft(leader).configuration
        node = self.random.randint(1, 6)
        wanted = {
            "learner": Configuration(without(now.voters, node), merged(now.learners, node)),
            "voter": Configuration(merged(now.voters, node), without(now.learners, node)),
            "stranger": Configuration(without(now.voters, node), without(now.learners, node)),
        }[self.random.choice(("learner", "voter", "voter", "stranger"))]
        if node not in self.network.nodes and node not in self.network.disks:
            self.network.join(node)
            self.network.nodes[node].held = True
        try:
            self.network.change(leader, wanted.voters, wanted.learners)
        except Refusal as refusal:
            self.happened[type(refusal).__name__] += 1
        else:
            self.happened["changes"] += 1

    def transfer(self) -> None:
        leader = self.someone()
        try:
            self.network.transfer(leader, self.any_node())
        except Refusal as refusal:
            self.happened[type(refusal).__name__] += 1
        else:
            self.happened["transfers"] += 1

    def held_up(self) -> None:
        self.network.held_up(self.someone())

    def save(self) -> None:
        number = self.any_node()
        if number in self.network.nodes and self.network.nodes[number].saves:
            self.network.nodes[number].save()
            self.network.nodes[number].settle()

    def begin_flush(self) -> None:
        node = self.network.nodes.get(self.any_node())
        if node and node.unflushed and not node.flushing:
            node.begin_flush()

    def end_flush(self) -> None:
        node = self.network.nodes.get(self.any_node())
        if node and node.flushing:
            self.happened["flush of what was cut"] += node.flushing.was_cut
            node.end_flush()
            node.settle()

    def break_stream(self) -> None:
        self.network.unreachable(self.someone(), self.any_node())

    def crash(self) -> None:
        if len(self.network.nodes) > 1 or self.random.random() < 0.2:
            number = self.any_node()
            if number in self.network.nodes:
                self.happened["crash"] += 1
                if self.random.random() < 0.3:
                    self.network.crash(number)
                else:
                    self.cut_power(number)
                if not self.network.nodes:
                    self.restart()

    def cut_power(self, number: int) -> None:
        """Under asynchronous flush a node that lost power restarts as a suspect, until it is trusted again."""
        if self.network.async_flush:
            self.suspects.add(number)
        self.network.crash(number, self.after_power_cut)

    def restart(self) -> None:
        for number in list(self.network.disks)[:1]:
            self.start(number)

    def start(self, number: int) -> None:
        self.network.restart(number, suspect=number in self.suspects)
        self.network.nodes[number].held = True

    def blackout(self) -> None:
        """All nodes lose power at once. Acknowledged entries must be on the disks, or a leader must report the loss."""
        self.happened["blackout"] += 1
        for number in list(self.network.nodes):
            self.cut_power(number)
        for number in list(self.network.disks):
            self.start(number)

    def isolate(self) -> None:
        """Isolate mostly a leader, which then takes proposals that are cut later. Only one side is isolated at a
        time."""
        self.network.heal()
        self.network.isolate(self.someone())

    def heal(self) -> None:
        self.network.heal()

    # -- choices

    def any_node(self) -> int:
        return self.random.choice(sorted({*self.network.nodes, *self.network.disks}))

    def someone(self) -> int:
        """Choose a node, mostly the leader if there is a leader."""
        alive = self.network.leaders or list(self.network.nodes)
        return self.random.choice(alive if self.random.random() < 0.9 else list(self.network.nodes))

    def after_power_cut(self, disk: Disk) -> list[Entry]:
        """Return the log after a power cut: all flushed entries and some of the others. If a cut was not flushed, the
        cut entries may return instead."""
        if disk.stale is not None and self.random.random() < 0.5:
            self.happened["cut entries came back"] += 1
            return disk.stale
        least, most = len(disk.flushed), len(disk.written)
        return disk.written[: self.random.choice((least, self.random.randint(least, most)))]


def without(nodes: tuple[int, ...], node: int) -> tuple[int, ...]:
    return tuple(each for each in nodes if each != node)


def merged(nodes: tuple[int, ...], node: int) -> tuple[int, ...]:
    return tuple(sorted({*nodes, node}))


@pytest.mark.parametrize("seed", range(SEEDS))
def test_chaos_breaks_no_invariant_and_passes(seed: int) -> None:
    chaos = Chaos(seed)
    chaos.run()
    chaos.recover()


def test_chaos_is_not_vacuous() -> None:
    """All seeds together must elect, commit, read, crash and cut. A run without these events would prove nothing."""
    total: Counter[str] = Counter()
    for seed in range(12):
        chaos = Chaos(seed)
        chaos.run()
        history = chaos.network.history
        total += chaos.happened
        total["terms with a leader"] += len(history.leaders)
        total["committed"] += history.newest_commit
        total["reads"] += history.reads_answered
        total["losses accepted"] += history.losses_accepted
        total["trusted again"] += sum(" is trusted again" in line for line in chaos.network.trace)
        total["cuts"] += sum(" cuts to " in line for line in chaos.network.trace)
        total["refusals"] += sum(" not at " in line for line in chaos.network.trace)
    print(dict(total))
    least = {
        "terms with a leader": 20,
        "committed": 200,
        "reads": 50,
        "crash": 20,
        "cuts": 3,
        "refusals": 20,
        "Busy": 1,
        "changes": 10,
        "transfers": 10,
        "trusted again": 5,
        "losses accepted": 1,
    }
    assert {what: total[what] for what in least if total[what] < least[what]} == {}


def test_the_same_seed_is_the_same_run() -> None:
    first, second = Chaos(7), Chaos(7)
    first.run()
    second.run()
    assert first.network.trace == second.network.trace
