"""What a seed draws of consumer groups: who consumes what, in which way, and which messages cannot be consumed.

Whether a message fails follows from its name alone, so it fails for every member alike, however often it comes; some
fail once or twice, and a few for ever: those must come to the dead letters.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from random import Random
from typing import Literal

import xxhash

from chaos.sim.campaign.swarm import CONSUMER_GROUPS, Options

# Of a consumer group at the start.
MOST_MEMBERS = 4
TAG_EXPRESSIONS = (None, None, None, "*", "tag", "none || tag")
RETRY_DELAYS_S = ((1.0, 2.0, 4.0), (0.5, 3.0), (2.0,))
# So often a message fails that is never consumed.
NEVER = 1_000_000


class Style(Enum):
    """How a member of a consumer group is given messages."""

    # Each message is finished, or put off, by itself.
    PULL = "pull"
    # What was read counts as finished when the next messages are asked for.
    ITERATE = "iterate"
    CONCURRENT = "concurrent"
    ORDERLY = "orderly"


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """One consumer group. All its members are alike."""

    seed: int
    name: str
    topics: tuple[str, ...]
    style: Style
    # At the start.
    members: int
    strategy: str
    tags: str | None
    start: Literal["earliest", "latest"]
    session_timeout_ms: int
    release_timeout_ms: int
    max_attempts: int
    concurrency: int

    def failures_of(self, name: bytes) -> int:
        """How often the message of that name cannot be consumed before it can."""
        chance = xxhash.xxh3_64_intdigest(b"%d/%s/%s" % (self.seed, self.name.encode(), name)) % 100
        return NEVER if chance < 2 else 2 if chance < 4 else 1 if chance < 8 else 0

    def wants(self, tag: str | None) -> bool:
        """Whether a message with that tag is among those it subscribes to."""
        return self.tags in (None, "*") or (tag is not None and tag in str(self.tags).split(" || "))


def draw_groups(options: Options, topics: int) -> list[GroupPlan]:
    """The consumer groups of a run in which there will be so many topics, `t0`, `t1`, ..."""
    random = options.chance("consumer groups")
    random.choice(CONSUMER_GROUPS)  # their number, which the options have already
    return [_drawn(options.seed, f"g{number}", random, topics) for number in range(options.consumer_groups)]


def _drawn(seed: int, name: str, random: Random, topics: int) -> GroupPlan:
    names = [f"t{number}" for number in range(topics)]
    return GroupPlan(
        seed=seed,
        name=name,
        topics=tuple(names if random.random() < 0.5 else [random.choice(names)]),
        style=random.choice(list(Style)),
        members=random.randint(1, MOST_MEMBERS),
        strategy=random.choice(("average", "average", "circle", "consistent_hash")),
        tags=random.choice(TAG_EXPRESSIONS),
        start=random.choice(("earliest", "earliest", "latest")),
        session_timeout_ms=random.choice((1_500, 3_000, 6_000)),
        release_timeout_ms=random.choice((500, 5_000, 30_000)),
        max_attempts=random.choice((3, 4)),
        concurrency=random.choice((1, 3, 20)),
    )
