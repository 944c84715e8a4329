"""The nodes of the scale world: Raft's clock, who lives, and what the control plane sends.

All nodes wake once in WAKE_S, one after another in an order that the seed chooses, and tick all their shards. The
control messages that a node sends to one other node in one wake travel as one bundle, as in
`raft/transport/control_streams.py`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from random import Random

from chaos.sim.scale.options import ScaleOptions
from chaos.sim.scale.shard import ScaleShard
from chaos.sim.scale.timing import CATCH_UP_BYTES_PER_S, STRIDE, TICK_MS, WAKE_S
from raft.core.catch_up import CatchUpLimit

Pair = tuple[int, int]
# What a shard sends in one wake: requests and answers, by sender and receiver.
Sent = tuple[dict[Pair, int], dict[Pair, int]]


class Traffic:
    """What each node sent since the last `clear`, by node."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        # Raft's votes, heartbeats and their answers.
        self.raft: Counter[int] = Counter()
        # Those that one node sends to another node in one wake are one bundle.
        self.bundles: Counter[int] = Counter()
        # Requests of the placement keeper, and the answers to them.
        self.calls: Counter[int] = Counter()
        # Requests of consumers, by the node that answers them.
        self.heartbeats: defaultdict[int, float] = defaultdict(float)
        self.fetches: defaultdict[int, float] = defaultdict(float)
        # The most bytes of entries that a node sent in a second.
        self.most_sent = 0


class ScaleNodes:
    """The nodes and their shards. `rooms` has the machine room of each node."""

    def __init__(self, options: ScaleOptions, seed: str) -> None:
        self.options = options
        self.rooms = {node: f"room {1 + (node - 1) % options.rooms}" for node in range(1, self.most(options) + 1)}
        self.alive: dict[int, None] = {}
        per_tick = -(-CATCH_UP_BYTES_PER_S * TICK_MS // 1000)
        self.catch_up = {node: CatchUpLimit(per_tick) for node in self.rooms}
        self.traffic = Traffic()
        self.shards: dict[int, ScaleShard] = {}
        self.elections = 0
        self.bytes_moved = 0
        # Shards that woke in the last wake.
        self.awake = 0
        self.rank = {node: place for place, node in enumerate(_shuffled([*self.rooms], seed))}
        # The sum of what the sleeping shards send in each wake.
        self._asleep: dict[int, Sent] = {}
        self._asked: Counter[Pair] = Counter()
        self._answered: Counter[Pair] = Counter()
        self._raft: Counter[int] = Counter()
        self._bundles: Counter[int] = Counter()
        # By node: bytes of entries in the present second.
        self._sent_bytes: Counter[int] = Counter()
        self._wakes_of_second = 0

    @staticmethod
    def most(options: ScaleOptions) -> int:
        """Return the largest node number of a run."""
        return options.nodes + options.change

    def moved(self, sender: int, size: int) -> None:
        """Count bytes that a leader sent to a learner or follower."""
        self.bytes_moved += size
        self._sent_bytes[sender] += size

    def wake(self) -> list[ScaleShard]:
        """Let all nodes wake once. Return the shards in which something may have happened."""
        for limit in self.catch_up.values():
            for _ in range(STRIDE):
                limit.tick()
        woken = [shard for shard in self.shards.values() if not shard.asleep or self.options.exact]
        self.awake = len(woken)
        asked: set[Pair] = set()
        answered: set[Pair] = set()
        for shard in woken:
            if shard.number in self._asleep:
                self._wakes(shard)
            self._take(shard, asked, answered)  # what was sent since the last wake
            shard.wake()
            sent = (dict(shard.asked), dict(shard.answered))
            self._take(shard, asked, answered)
            if shard.asleep and not self.options.exact:
                self._sleeps(shard, sent)
        self.traffic.raft.update(self._raft)
        self.traffic.bundles.update(self._bundles)
        for sender, _ in (*asked, *answered):
            self.traffic.bundles[sender] += 1
        self._note_peak()
        return woken

    def _note_peak(self) -> None:
        """Once a second, note the most bytes that a node has sent in this second."""
        self._wakes_of_second += 1
        if self._wakes_of_second >= round(1 / WAKE_S):
            self.traffic.most_sent = max(self.traffic.most_sent, *self._sent_bytes.values(), 0)
            self._sent_bytes.clear()
            self._wakes_of_second = 0

    def _take(self, shard: ScaleShard, asked: set[Pair], answered: set[Pair]) -> None:
        """Count what the shard has sent."""
        for sent, pairs, asleep in ((shard.asked, asked, self._asked), (shard.answered, answered, self._answered)):
            for pair, count in sent.items():
                self.traffic.raft[pair[0]] += count
                if pair not in asleep:
                    pairs.add(pair)
            sent.clear()

    def _sleeps(self, shard: ScaleShard, sent: Sent) -> None:
        """Count from now on in each wake what the shard sent in its last wake."""
        self._asleep[shard.number] = sent
        self._add(sent, 1)

    def _wakes(self, shard: ScaleShard) -> None:
        self._add(self._asleep.pop(shard.number), -1)

    def _add(self, sent: Sent, sign: int) -> None:
        for pairs, known in zip(sent, (self._asked, self._answered), strict=True):
            for pair, count in pairs.items():
                self._raft[pair[0]] += sign * count
                before = known[pair]
                known[pair] = before + sign
                if not before:
                    self._bundles[pair[0]] += 1
                elif not known[pair]:
                    del known[pair]
                    self._bundles[pair[0]] -= 1

    # -- life and death

    def kill(self, nodes: Iterable[int]) -> None:
        """End the processes of these nodes at the same moment."""
        gone = dict.fromkeys(nodes)
        for node in gone:
            self.alive.pop(node, None)
        for shard in self.shards.values():
            if not gone.keys().isdisjoint(shard.servers):
                shard.stop(gone)

    def start(self, node: int) -> None:
        self.alive[node] = None
        for shard in self.shards.values():
            if node in shard.stored:
                shard.start(node)

    def replicas(self, node: int) -> list[ScaleShard]:
        """Return the shards with a replica on a node that lives."""
        return [shard for shard in self.shards.values() if node in shard.servers]


def _shuffled(nodes: list[int], seed: str) -> list[int]:
    Random(f"{seed}/wakes").shuffle(nodes)
    return nodes
