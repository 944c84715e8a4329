"""What a seed draws: the cluster, the network's temper, the load, and which faults exist at all.

The one idea (swarm testing): a run in which everything goes wrong finds little, because some faults hide others. So
each seed leaves out about half of them, and draws how often the others come. Nothing else is random about a run but
what follows from its seed; each concern has a source of chance of its own.

Must not know: worlds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from chaos.sim.engine.faults import KINDS, RATES, STACK, FaultKind, kinds_of
from chaos.sim.engine.links import Conditions

# How many a run has, as often as each stands here.
CONSUMER_GROUPS = (0, 0, 1, 1, 2)


@dataclass(frozen=True, slots=True)
class Options:
    """One run."""

    seed: int
    world: str
    nodes: int
    # Acknowledged means fsynced by a majority; otherwise written to its page caches.
    sync: bool
    minutes: float
    conditions: Conditions
    # The faults that exist, in the order of `faults.KINDS`: how many times as often as usual they come.
    strengths: tuple[tuple[str, float], ...]
    # Faults that were asked for by name: a run in which one of them did not happen proves nothing.
    requested: tuple[str, ...]
    tick_ms: int
    heartbeat_ticks: int
    election_ticks: int
    # How long a flush takes, on average.
    flush_ms: float
    flush_interval_ms: int
    vote_ms: float
    # The largest range that one Append carries.
    append_bytes: int
    max_uncommitted_bytes: int
    producers: int
    queues: int
    sends_per_second: float
    largest_batch: int
    in_flight: int
    reads_per_second: float
    consumer_groups: int = 0
    # shards that there will be; the nodes are set up with `first_shards` of them, an operator adds the others.
    shards: int = 1
    first_shards: int = 1
    # Nodes write by way of memory of their own, so that the end of a process takes what it had not flushed.
    staged: bool = False
    # A majority may lose power under `async`, and what was acknowledged last may be gone: counted, not a violation.
    accepted_loss: bool = False

    @property
    def has_faults(self) -> bool:
        """Of any kind, the network's rates among them."""
        calm = (self.conditions.loss, self.conditions.duplicate, self.conditions.reorder, self.conditions.replay)
        return bool(self.strengths) or any(calm)

    @property
    def duration_ms(self) -> int:
        return round(self.minutes * 60_000)

    def chance(self, concern: str) -> Random:
        """The source of chance of one concern."""
        return Random(f"{self.seed}/{concern}")


@dataclass(frozen=True, slots=True)
class Wishes:
    """What whoever runs seeds has settled; the seed draws the rest."""

    world: str = "protocol"
    minutes: float = 5.0
    nodes: int | None = None
    shards: int | None = None
    # None: the seed draws; (): none at all.
    faults: tuple[str, ...] | None = None
    accepted_loss: bool = False


def draw(seed: int, wishes: Wishes) -> Options:
    """The options of a seed."""
    random = Random(f"{seed}/options")
    asked = [KINDS[name] for name in wishes.faults or () if name in KINDS]
    least = max((kind.least_nodes for kind in asked), default=1)
    nodes = wishes.nodes or max(least, random.choice((1, 2, 3, 3, 3, 3, 3, 4, 5, 5)))
    shards = _shards(seed, wishes, asked)
    sync = random.random() < 0.6 or any(kind.loses_unflushed for kind in asked)
    sync = sync and not wishes.accepted_loss
    kinds = kinds_of(wishes.world, nodes, shards)
    of_nodes = [kind.name for kind in kinds if not (kind.least_shards or kind.of_consumers)]
    strengths = _strengths(random, wishes, [*RATES, *of_nodes])
    # Of their own chance: what happens to nodes is the same in one shard and in several, and with consumers.
    of_shards = [kind.name for kind in kinds if kind.least_shards]
    strengths += _strengths(Random(f"{seed}/several groups"), wishes, of_shards)
    of_consumers = [kind.name for kind in kinds if kind.of_consumers]
    consumer_groups = _consumer_groups(seed, wishes)
    if consumer_groups:
        strengths += _strengths(Random(f"{seed}/consumers"), wishes, of_consumers)
    names = [name for name, _ in strengths]
    heartbeat_ticks = random.choice((1, 2))
    return Options(
        seed=seed,
        world=wishes.world,
        nodes=nodes,
        sync=sync,
        minutes=wishes.minutes,
        conditions=_conditions(random, names),
        strengths=tuple((name, strength) for name, strength in strengths if name not in RATES),
        requested=tuple(wishes.faults or ()),
        tick_ms=random.choice((200, 300, 400)) // heartbeat_ticks,
        heartbeat_ticks=heartbeat_ticks,
        election_ticks=random.choice((4, 5, 8)) * heartbeat_ticks,
        flush_ms=random.choice((1.0, 20.0, 150.0)),
        flush_interval_ms=500,
        vote_ms=random.choice((1.0, 20.0, 100.0)),
        append_bytes=random.choice((300, 2_000, 1 << 20)),
        max_uncommitted_bytes=random.choice((3_000, 20_000, 1 << 20)),
        producers=random.randint(1, 4),
        queues=max(random.randint(1, 4), shards),
        sends_per_second=random.choice((13.0, 16.0, 20.0)),
        largest_batch=random.choice((2, 10, 50)),
        in_flight=random.randint(1, 5),
        reads_per_second=random.choice((0.2, 0.5, 1.0)),
        consumer_groups=consumer_groups,
        shards=shards,
        first_shards=Random(f"{seed}/first groups").randint(1, shards - 1) if "add_group" in names else shards,
        # Under `async` every end of a process would lose what was acknowledged: few faults would be left to do.
        staged=wishes.world == STACK and sync and Random(f"{seed}/staged").random() < 0.4,
        accepted_loss=wishes.accepted_loss,
    )


def _consumer_groups(seed: int, wishes: Wishes) -> int:
    """How many there are: one at least where somebody wants to see its members disturbed."""
    if wishes.world != STACK:
        return 0
    wanted = any(name in KINDS and KINDS[name].of_consumers for name in wishes.faults or ())
    return max(int(wanted), Random(f"{seed}/consumer groups").choice(CONSUMER_GROUPS))


def _shards(seed: int, wishes: Wishes, asked: Sequence[FaultKind]) -> int:
    if wishes.world != STACK:
        return 1
    least = max((kind.least_shards for kind in asked), default=1)
    return wishes.shards or max(least, Random(f"{seed}/groups").choice((1, 1, 1, 2, 3, 4)))


def _strengths(random: Random, wishes: Wishes, names: Sequence[str]) -> list[tuple[str, float]]:
    """Those of these faults that exist in this run, and how often each comes."""
    share = random.choice((0.25, 0.5, 0.75))
    drawn: list[tuple[str, float]] = []
    for name in names:
        there, strength = random.random() < share, random.choice((0.3, 1.0, 3.0))
        if wishes.faults is not None:
            there = name in wishes.faults
            strength = max(strength, 1.0)
        if there:
            drawn.append((name, strength))
    return drawn


def _conditions(random: Random, names: Sequence[str]) -> Conditions:
    """The temper of the network: the rates that exist, each mild or wild."""
    slow = random.choice((5.0, 20.0, 60.0))
    loss, duplicate, reorder, replay = (random.choice((0.002, 0.02, 0.1)) for _ in range(4))
    return Conditions(
        delay_ms=random.choice((0.1, 0.5, 2.0)),
        spread_ms=slow if "delay" in names else random.choice((0.1, 1.0)),
        loss=loss if "loss" in names else 0.0,
        duplicate=duplicate if "duplicate" in names else 0.0,
        reorder=reorder if "reorder" in names else 0.0,
        replay=replay / 2 if "replay" in names else 0.0,
    )
