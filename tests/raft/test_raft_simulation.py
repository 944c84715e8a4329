"""Seeded chaos over the in-memory network: messages are dropped, repeated and reordered; flushes and saves are slow;
nodes are killed, lose power, and come back. The invariants of invariants.py are asserted after every event; when it is
over and the network heals, everyone must agree and go on.

LEDGERMQ_RAFT_SEEDS=500 runs more seeds than the few of a usual test run.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from random import Random

import pytest
from network import Disk, Entry, Network

from raft.core import Busy, NotLeader, Timing

SEEDS = int(os.environ.get("LEDGERMQ_RAFT_SEEDS", "24"))
EVENTS = 6000


class Chaos:
    """One seeded run."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.network = Network(
            self.random.choice((1, 2, 3, 3, 3, 3, 5, 5)),
            jitter=lambda node: self.random.randrange(5),
            timing=Timing(heartbeat_ticks=1, election_ticks=5),
            append_bytes=self.random.choice((100, 300, 10_000)),
            max_uncommitted_bytes=2000,
        )
        self.happened: Counter[str] = Counter()
        self.proposals = 0
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
            self.blackout: 2,
            self.isolate: 3,
            self.heal: 4,
        }

    def run(self) -> None:
        events, weights = list(self.events), list(self.events.values())
        # Each seed has its own mixture: some faults are rare or frequent in one run and not in another.
        weights = [weight * self.random.choice((1, 2, 4)) for weight in weights]
        for event in self.random.choices(events, weights, k=EVENTS):
            event()

    def recover(self) -> None:
        """No more faults: everyone agrees, and something new is committed by all."""
        network = self.network
        network.heal()
        network.wire.clear()
        for number in list(network.disks):
            network.restart(number)
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
        logs = [node.disk.written for node in network.nodes.values()]
        assert all(log == logs[0] for log in logs)
        assert logs[0][-1].value == "the last one"
        assert {node.raft.commit for node in network.nodes.values()} == {len(logs[0])}

    def settle(self, ticks: int) -> None:
        for _ in range(ticks):
            for number in self.network.nodes:
                self.network.tick(number)
            self.network.deliver_all()

    # -- events

    def tick(self) -> None:
        self.network.tick(self.any_node())

    def deliver(self) -> None:
        """Mostly in order, sometimes not."""
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
        except (NotLeader, Busy) as refusal:
            self.happened[type(refusal).__name__] += 1
        else:
            self.proposals += len(values)

    def read(self) -> None:
        try:
            self.network.read(self.someone(), self.random.getrandbits(60))
        except NotLeader:
            return

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
                self.network.crash(number, self.kill if self.random.random() < 0.3 else self.power_cut)
                if not self.network.nodes:
                    self.restart()

    def restart(self) -> None:
        for number in list(self.network.disks)[:1]:
            self.network.restart(number)
            self.network.nodes[number].held = True

    def blackout(self) -> None:
        """Everyone loses power at once: what was acknowledged must be on disks."""
        self.happened["blackout"] += 1
        for number in list(self.network.nodes):
            self.network.crash(number, self.power_cut)
        for number in list(self.network.disks):
            self.network.restart(number)
            self.network.nodes[number].held = True

    def isolate(self) -> None:
        """Mostly a leader, which goes on taking proposals that are cut away later. One side at a time."""
        self.network.heal()
        self.network.isolate(self.someone())

    def heal(self) -> None:
        self.network.heal()

    # -- choices

    def any_node(self) -> int:
        return self.random.choice(self.network.configuration.voters)

    def someone(self) -> int:
        """Mostly a leader, where there is one."""
        alive = self.network.leaders or list(self.network.nodes)
        return self.random.choice(alive if self.random.random() < 0.9 else list(self.network.nodes))

    def kill(self, disk: Disk) -> list[Entry]:
        return disk.written

    def power_cut(self, disk: Disk) -> list[Entry]:
        """All that was flushed and some of the rest; or what was cut comes back, when the cut was not flushed."""
        if disk.stale is not None and self.random.random() < 0.5:
            self.happened["cut entries came back"] += 1
            return disk.stale
        least, most = len(disk.flushed), len(disk.written)
        return disk.written[: self.random.choice((least, self.random.randint(least, most)))]


@pytest.mark.parametrize("seed", range(SEEDS))
def test_chaos_breaks_no_invariant_and_passes(seed: int) -> None:
    chaos = Chaos(seed)
    chaos.run()
    chaos.recover()


def test_chaos_is_not_vacuous() -> None:
    """A run that proved nothing never passes: together the seeds elect, commit, read, crash and cut."""
    total: Counter[str] = Counter()
    for seed in range(6):
        chaos = Chaos(seed)
        chaos.run()
        history = chaos.network.history
        total += chaos.happened
        total["terms with a leader"] += len(history.leaders)
        total["committed"] += len(history.entries)
        total["reads"] += history.reads_answered
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
    }
    assert {what: total[what] for what in least if total[what] < least[what]} == {}


def test_the_same_seed_is_the_same_run() -> None:
    first, second = Chaos(7), Chaos(7)
    first.run()
    second.run()
    assert first.network.trace == second.network.trace
