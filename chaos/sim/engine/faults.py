"""What can go wrong: every kind of fault by name, how long it lasts, and whom it may hit.

A fault is a value. It says when, what, and whom in words ("leader", "follower", a number); the world finds out who
that is when it happens. So a schedule can be made ahead of a run, printed, shortened and replayed.

`RATES` are the faults that have no moment: they are properties of the network for a whole run (`links.Conditions`).

Must not know: how any of it is done.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from random import Random

PROTOCOL, STACK = "protocol", "stack"
BOTH = (PROTOCOL, STACK)

# `delay` is there in every network; to draw it means to draw a slow one.
RATES = ("delay", "loss", "duplicate", "reorder", "replay")


@dataclass(frozen=True, slots=True)
class FaultEvent:
    """One fault. What its arguments mean: `FaultKind`."""

    at_ms: int
    kind: str
    arguments: tuple[tuple[str, int | str], ...] = ()

    def __getitem__(self, name: str) -> int | str:
        return dict(self.arguments)[name]

    def number(self, name: str, default: int = 0) -> int:
        value = dict(self.arguments).get(name, default)
        assert isinstance(value, int), f"{name} of {self} is not a number"
        return value

    @property
    def target(self) -> str:
        return str(dict(self.arguments).get("target", "any"))

    @property
    def for_ms(self) -> int:
        """How long it lasts."""
        return self.number("for_ms")

    def __str__(self) -> str:
        return " ".join([f"{self.at_ms:>7} ms  {self.kind}", *(f"{name}={value}" for name, value in self.arguments)])


@dataclass(frozen=True, slots=True)
class FaultKind:
    """`for_ms`: the shortest and longest time it lasts, if it does. `target`: it hits one node, which is drawn as
    "leader", "follower" or "any". `chance`: a number that settles all else about it (which half, what is lost).
    `every_ms`: how often, on average, where it is drawn with strength 1."""

    name: str
    help: str
    worlds: tuple[str, ...] = BOTH
    for_ms: tuple[int, int] | None = None
    target: bool = True
    every_ms: int = 30_000
    least_nodes: int = 1
    # Where there are fewer shards it has no place; 0: it is not about shards.
    least_shards: int = 0
    # It takes what was not flushed: where that was acknowledged (`async`) it is not done lightly.
    loses_unflushed: bool = False
    # It happens to a member of a consumer group, and only where there are some.
    of_consumers: bool = False

    def draw(self, random: Random, at_ms: int) -> FaultEvent:
        arguments: list[tuple[str, int | str]] = []
        if self.target:
            arguments.append(("target", random.choice(("leader", "leader", "follower", "any"))))
        if self.for_ms is not None:
            arguments.append(("for_ms", _spread(random, *self.for_ms)))
        arguments.append(("chance", random.randrange(1 << 16)))
        return FaultEvent(at_ms, self.name, tuple(arguments))


def _spread(random: Random, least: int, most: int) -> int:
    """As often a short time as a long one: what matters may happen within milliseconds, or take seconds."""
    return round(least + math.expm1(random.random() * math.log1p(most - least)))


_KINDS = (
    # the network
    FaultKind("cut_one_way", "one direction between two nodes is cut", for_ms=(200, 15_000), least_nodes=2),
    FaultKind("isolate", "a node hears nobody and is heard by nobody", for_ms=(200, 15_000), least_nodes=2),
    FaultKind("isolate_with_client", "leader and clients are cut off from all others; its clock may run slow",
              for_ms=(500, 10_000), target=False, every_ms=15_000, least_nodes=2),
    FaultKind("deaf", "a node hears nobody, and is heard", for_ms=(200, 15_000), least_nodes=2),
    FaultKind("mute", "a node hears everybody, and is not heard", for_ms=(200, 15_000), least_nodes=2),
    FaultKind("halves", "two parts that do not hear each other", for_ms=(200, 15_000), target=False, least_nodes=3),
    FaultKind("bridge", "two halves with one node that both hear", for_ms=(200, 15_000), target=False, least_nodes=3),
    FaultKind("ring", "each node hears a majority of its own", for_ms=(200, 15_000), target=False, least_nodes=4),
    FaultKind("chain", "each node hears its two neighbours", for_ms=(200, 15_000), target=False, least_nodes=3),
    FaultKind("clog", "what one node sends to another is kept back", for_ms=(100, 8_000), least_nodes=2),
    FaultKind("slow_link", "all that a node sends takes long", for_ms=(1_000, 10_000), least_nodes=2),
    # nodes
    FaultKind("kill", "the process is killed and started again", for_ms=(0, 10_000)),
    FaultKind("kill_all", "all processes are killed at once", for_ms=(0, 5_000), target=False, every_ms=90_000),
    FaultKind("power_cut", "a node loses power, and what was not flushed", for_ms=(0, 10_000), loses_unflushed=True),
    FaultKind("power_cut_minority", "a minority loses power at once", for_ms=(0, 10_000), target=False, least_nodes=3,
              loses_unflushed=True),
    FaultKind(
        "power_cut_all", "all nodes lose power at once", for_ms=(0, 5_000), target=False, every_ms=90_000,
        loses_unflushed=True,
    ),
    # these wait for the moment at which they hurt most
    FaultKind("kill_at_vote", "a node is killed, and whoever next votes for another, just after", (PROTOCOL,),
              for_ms=(0, 2_000), least_nodes=3),
    FaultKind("kill_at_election", "a node is killed, and whoever is next elected, soon after", (PROTOCOL,),
              for_ms=(0, 5_000), least_nodes=3),
    FaultKind("power_cut_at_ack", "all nodes lose power as soon as something is acknowledged", (PROTOCOL,),
              for_ms=(0, 2_000), target=False, every_ms=60_000, loses_unflushed=True),
    FaultKind("pause", "the process stands still, then takes up all at once", for_ms=(50, 8_000)),
    FaultKind("clock_jump", "a node's wall clock jumps by up to an hour, either way"),
    FaultKind("clock_skew", "a node's clocks run up to a third too fast or too slow", for_ms=(5_000, 60_000)),
    FaultKind("wipe", "a node loses its disk, and comes back under its old name", every_ms=150_000, least_nodes=3),
    FaultKind("rolling_restart", "one node after the other is restarted", for_ms=(500, 3_000), target=False,
              every_ms=90_000),
    FaultKind("transfer", "the leader is told to hand over to another node", least_nodes=2),
    FaultKind("reconfigure", "a node is removed, or added again, first as a learner", least_nodes=2),
    # disks
    FaultKind("slow_disk", "every write of a node takes long", for_ms=(1_000, 10_000)),
    FaultKind("full_disk", "a node's disk takes no entries", for_ms=(200, 10_000)),
    FaultKind("failed_flush", "a flush fails, and what it covered is dropped", every_ms=60_000, loses_unflushed=True),
    FaultKind("slow_vote", "saving a vote takes long", for_ms=(1_000, 10_000)),
    FaultKind("lost_rename", "a power cut takes back what the directory was not synced for", (STACK,)),
    FaultKind("torn_write", "a power cut tears writes at 512 bytes or 4 KiB", (STACK,)),
    FaultKind("out_of_order", "a power cut keeps later pages and loses earlier ones", (STACK,)),
    FaultKind("read_error", "a read fails with EIO", (STACK,), every_ms=90_000),
    FaultKind("flipped_bit", "a bit of a node's log is flipped", (STACK,), every_ms=120_000, least_nodes=3),
    FaultKind("spoiled_index", "an index or checkpoint is lost or damaged while its node is down", (STACK,)),
    FaultKind("old_file", "an old copy of a file is put back", (STACK,), every_ms=120_000, least_nodes=3),
    FaultKind("log_start", "the log's start is moved up", (STACK,), target=False),
    FaultKind("flipped_base", "a bit is flipped in a base that is kept, or on its way in", (STACK,)),
    FaultKind("corrupt_in_transit", "bits flip in what a node sends of its log and its base", (STACK,),
              for_ms=(2_000, 20_000), least_nodes=2),
    # what an operator does to shards, and to what lies in them
    FaultKind("add_group", "one more shard begins", (STACK,), target=False, every_ms=15_000, least_shards=2),
    FaultKind("alter_topic", "a topic is given more queues", (STACK,), target=False, least_shards=1),
    # consumer groups
    FaultKind("member_join", "a consumer group gets another member", (STACK,), target=False, every_ms=20_000,
              of_consumers=True),
    FaultKind("member_leave", "a member stops in order", (STACK,), target=False, of_consumers=True),
    FaultKind("member_crash", "a member's process ends; another takes its place", (STACK,), for_ms=(0, 10_000),
              target=False, every_ms=20_000, of_consumers=True),
    FaultKind("member_pause", "a member stands still, perhaps for longer than its session", (STACK,),
              for_ms=(500, 15_000), target=False, every_ms=20_000, of_consumers=True),
    FaultKind("member_cut", "a member reaches no node, and none reaches it", (STACK,), for_ms=(500, 15_000),
              target=False, every_ms=20_000, of_consumers=True),
    FaultKind("offsets_reset", "an operator sets a consumer group back or forward", (STACK,), target=False,
              of_consumers=True),
)  # fmt: skip

KINDS: dict[str, FaultKind] = {kind.name: kind for kind in _KINDS}


def kinds_of(world: str, nodes: int, shards: int = 1) -> list[FaultKind]:
    """Those that there are in a world, for a cluster of so many nodes and shards."""
    return [
        kind for kind in _KINDS if world in kind.worlds and nodes >= kind.least_nodes and shards >= kind.least_shards
    ]
